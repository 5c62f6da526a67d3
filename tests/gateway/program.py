#!/usr/bin/python3
"""The gateway as a program: configuration, files, metrics, log, reload, TLS, its end.

usage: program.py GATEWAY MAKE_CERTIFICATES. TAP on stdout.
"""
import json
import os
import pathlib
import re
import select
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time

import h2.config
import h2.connection
import h2.events
from prometheus_client.parser import text_string_to_metric_families

import peers
from peers import Gateway, Upstream, Web, message

PROGRAM = [sys.argv[1]]


def tell(*arguments, environment=None):
    """What the program says, and its exit code."""
    run = subprocess.run([*PROGRAM, *arguments], capture_output=True, text=True, timeout=20,
                         env=environment, check=False)
    return run.returncode, run.stdout, run.stderr


def same(got, wanted):
    assert got == wanted, f'got {got!r}, wanted {wanted!r}'


def told(folder):
    """--check, --help and --version say what they should, and errors name their place."""
    same(tell('--check', '--upstream=a:1'), (0, 'the configuration is right\n', ''))
    same(tell('--check')[0], 2)
    code, out, _ = tell('--version')
    assert code == 0 and re.match(r'pekoe-gateway \d+\.\d+\.\d+\n$', out), out
    code, out, _ = tell('--help')
    assert code == 0 and out.startswith('usage: pekoe-gateway'), out
    file = folder / 'wrong.conf'
    file.write_text('upstream = a:1\n\ntimeout = soon\n')
    code, _, err = tell('--check', f'--config={file}')
    assert code == 2 and f'{file}:3: timeout "soon"' in err, err
    code, _, err = tell('--check', environment={'PEKOE_GATEWAY_UPSTREAM': '1.2.3:4'})
    assert code == 2 and 'that is no IP address' in err, err
    same(tell('--check', environment={'PEKOE_GATEWAY_UPSTREAM': '/a/=b:1 /c/=d:1'})[0], 0)
    code, _, err = tell('--check', '--upstream=a:1', '--listen-tls=:0', '--tls-cert=/nowhere',
                        '--tls-key=/nowhere')
    assert code == 2 and '/nowhere' in err, err
    with socket.socket(socket.AF_UNIX) as unread:
        unread.bind(str(folder / 'no.file'))
    for what in ('--static={}/none', '--static={}/wrong.conf', '--access-log={}/none/log',
                 '--access-log={}', '--access-log=', '--access-log={}/no.file'):
        argument = what.format(folder)
        code, _, err = tell('--check', '--upstream=a:1', argument)
        assert code == 2 and err, argument
    for what in ('--static={}', '--access-log={}/new.log', '--access-log={}/wrong.conf',
                 '--access-log=-', '--access-log=off', '--access-log=relative.log'):
        argument = what.format(folder)
        same(tell('--check', '--upstream=a:1', argument)[0], 0)
    assert not (folder / 'new.log').exists(), 'a look leaves nothing behind'
    code, _, err = tell('--upstream=127.0.0.1:1', '--listen=127.0.0.1:0', f'--static={folder}/none')
    assert code == 2 and 'none: No such file' in err, err


def address_in_use(folder):
    """An address that is taken ends the program with 1 and a reason."""
    gateway = Gateway(PROGRAM, '--upstream=127.0.0.1:1')
    code, _, err = tell('--upstream=127.0.0.1:1', f'--listen={gateway.address}')
    assert code == 1 and gateway.address in err and 'in use' in err, (code, err)
    same(gateway.stop(), 0)


def files(folder):
    """Files of the folder are served to GET and HEAD, and nothing outside of it."""
    page = folder / 'page'
    (page / 'sub').mkdir(parents=True)
    (page / 'index.html').write_text('<p>hello')
    (page / 'sub' / 'a b.js').write_text('1;')
    (page / 'sub' / 'index.html').write_text('sub')
    (page / '.secret').write_text('x')
    (page / 'link').symlink_to('/etc/passwd')
    (page / 'up').symlink_to('..')
    (folder / 'outside').write_text('x')
    os.mkfifo(page / 'pipe')
    gateway = Gateway(PROGRAM, '--upstream=127.0.0.1:1', f'--static={page}')
    web = gateway.connect()
    reply = web.get('/')
    same((reply.status, reply.body), (200, b'<p>hello'))
    same(reply.field('content-type'), ['text/html; charset=utf-8'])
    same(reply.field('x-content-type-options'), ['nosniff'])
    tag = reply.field('etag')[0]
    same(web.get('/', ('if-none-match', tag)).status, 304)
    same(web.get('/?x=..').status, 200)
    same(web.get('/sub/a%20b.js').body, b'1;')
    same(web.get('/sub/').body, b'sub')
    moved = web.get('/sub')
    same((moved.status, moved.field('location')), (301, ['/sub/']))
    reply = web.get('/index.html', method='HEAD')
    same((reply.status, reply.field('content-length'), reply.body), (200, ['8'], b''))
    for path in ('/nothing', '/../outside', '/sub/../../outside', '/%2e%2e/outside',
                 '/..%2foutside', '/.secret', '/link', '/up/outside', '/pipe', '/sub/../index.html',
                 '//etc/passwd', '/sub//index.html', '/index.html/', '/./index.html'):
        same((path, web.get(path).status), (path, 404))
    for path in ('/%00', '/%', '/%zz', '/a%5cb', '/' + 'a' * 3000):
        same((path, web.get(path).status), (path, 400))
    same(web.get('/', method='DELETE').status, 405)
    (page / 'a#b').write_text('x')
    (page / '\xe9').write_text('x')
    same((web.get('/a%23b').status, web.get('/%C3%A9').status), (200, 200))
    for path in ('/a#b', '/\xe9', '/sub/a b.js'):  # HTTP/1.1 has no request line for these
        same((path, h2_status(gateway, path)), (path, '400'))
    same(gateway.stop(), 0)


def h2_status(gateway, path):
    """Of a GET over HTTP/2, which sends any path."""
    connection = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding='utf-8'))
    connection.initiate_connection()
    connection.send_headers(1, [(':method', 'GET'), (':scheme', 'http'), (':authority', 'a'),
                                (':path', path)], end_stream=True)
    with socket.create_connection(gateway.address.rsplit(':', 1), timeout=peers.WAIT) as sock:
        sock.sendall(connection.data_to_send())
        while data := sock.recv(65536):
            for event in connection.receive_data(data):
                if isinstance(event, h2.events.ResponseReceived):
                    return dict(event.headers)[':status']
    return None


def files_elsewhere(folder):
    """With an address of their own the files are there and not on the main one."""
    page = folder / 'page2'
    page.mkdir()
    (page / 'index.html').write_text('there')
    gateway = Gateway(PROGRAM, '--upstream=127.0.0.1:1', f'--static={page}',
                      '--static-listen=127.0.0.1:0')
    same(Web(gateway.places['files']).get('/').body, b'there')
    same(gateway.connect().get('/').status, 405)
    same(gateway.stop(), 0)


def samples_of(gateway):
    reply = Web(gateway.places['admin']).get('/metrics')
    same(reply.field('content-type'), ['text/plain; version=0.0.4; charset=utf-8'])
    found = {}
    for family in text_string_to_metric_families(reply.body.decode()):
        assert family.documentation and family.type != 'unknown', family
        for sample in family.samples:
            key = (sample.name, tuple(sorted(sample.labels.items())))
            assert key not in found, key
            found[key] = sample.value
    return found


def metrics(folder):
    """Prometheus' own parser reads the metrics, and they count what has passed."""
    upstream = Upstream(lambda stream: stream.reply(b'12345678'))
    gateway = Gateway(PROGRAM, f'--upstream=/a.B/={upstream.address}',
                      '--upstream=/other/=127.0.0.1:1', '--admin=127.0.0.1:0')
    before = samples_of(gateway)
    assert all(value == 0 for (name, _), value in before.items() if name.startswith('pekoe')), before
    web = gateway.connect()
    for _ in range(3):
        web.call(message(b'abc'))
    web.call(message(b''), path='/other/X', content_type='application/grpc-web-text')
    same(web.call(message(b''), path='/nowhere/X').grpc_status(), 12)
    after = samples_of(gateway)
    name = 'pekoe_gateway_calls_total'
    same(after[name, (('code', 'OK'), ('protocol', 'grpc-web'), ('route', '/a.B/'))], 3)
    same([v for (n, labels), v in after.items()
          if n == name and dict(labels)['protocol'] == 'grpc-web-text'], [1])
    none = ('route', 'none')
    same(after[name, (('code', 'UNIMPLEMENTED'), ('protocol', 'grpc-web'), none)], 1)
    same(after['pekoe_gateway_call_duration_seconds_count', (none,)], 1)
    same(after['pekoe_gateway_calls_in_flight', (none,)], 0)
    route = ('route', '/a.B/')
    same(after['pekoe_gateway_messages_total', (('direction', 'sent'), route)], 3)
    same(after['pekoe_gateway_message_bytes_total', (('direction', 'received'), route)], 9)
    same(after['pekoe_gateway_message_bytes_total', (('direction', 'sent'), route)], 24)
    same(after['pekoe_gateway_call_duration_seconds_count', (route,)], 3)
    same(after['pekoe_gateway_call_duration_seconds_bucket', (('le', '+Inf'), route)], 3)
    same(after['pekoe_gateway_calls_in_flight', (route,)], 0)
    assert after['pekoe_gateway_call_duration_seconds_sum', (route,)] > 0
    assert after['process_resident_memory_bytes', ()] > 100000
    admin = Web(gateway.places['admin'])
    same((admin.get('/healthz').status, admin.get('/healthz').body), (200, b'ok\n'))
    same((admin.get('/').status, admin.get('/metrics', method='PUT').status), (404, 405))
    same(gateway.stop(), 0)
    upstream.close()


def lines_of(file, count):
    limit = time.monotonic() + peers.WAIT
    while True:
        lines = file.read_text().splitlines() if file.exists() else []
        if len(lines) >= count:
            return lines
        assert time.monotonic() < limit, f'{count} lines have not come: {lines}'
        time.sleep(0.02)


def h2_call(sock, path):
    """Sends a call over HTTP/2, which has no rule against spaces in paths."""
    connection = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding='utf-8'))
    connection.initiate_connection()
    connection.send_headers(1, [(':method', 'POST'), (':scheme', 'http'), (':authority', 'a'),
                                (':path', path), ('content-type', 'application/grpc'),
                                ('te', 'trailers')])
    connection.send_data(1, message(b''), end_stream=True)
    sock.sendall(connection.data_to_send())


def log(folder):
    """A line for each call, as text and as JSON; a file that was moved is opened anew."""
    upstream = Upstream(lambda stream: stream.reply(b'xy'))
    file, moved = folder / 'access.log', folder / 'access.log.1'
    gateway = Gateway(PROGRAM, f'--upstream={upstream.address}', f'--access-log={file}')
    odd = 'odd "agent" \\ \xe9'
    gateway.connect().call(message(b'abc'), ('x-user-agent', odd))
    line = lines_of(file, 1)[0]
    assert re.match(r'\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z ipv4:127\.0\.0\.1:\d+ grpc-web /a\.B/C '
                    r'OK \d+\.\d{3}ms in=1/3B out=1/2B "odd \\x22agent\\x22 \\x5c \\xe9"$', line), line
    file.rename(moved)
    gateway.reload()
    gateway.connect().call(message(b'abc'))
    lines_of(file, 1)
    same(len(moved.read_text().splitlines()), 1)
    with socket.create_connection(gateway.address.rsplit(':', 1)) as sock:
        h2_call(sock, '/a.B/C OK 1ms')
        line = lines_of(file, 2)[1]
    assert ' grpc /a.B/C\\x20OK\\x201ms INTERNAL ' in line, line
    seen = upstream.streams.qsize()
    for path in ('/a.B/C#d', '/a.B/\xe9'):  # the upstream may find fault with the connection
        with socket.create_connection(gateway.address.rsplit(':', 1)) as sock:
            h2_call(sock, path)
            line = lines_of(file, 3 + path.endswith('\xe9'))[-1]
        assert ' INTERNAL ' in line, line
    same(upstream.streams.qsize(), seen)
    same(gateway.stop(), 0)
    same(tell('--upstream=a:1', '--listen=127.0.0.1:0', f'--access-log={folder}/no/where')[0], 1)

    file = folder / 'access.json'
    gateway = Gateway(PROGRAM, f'--upstream={upstream.address}', f'--access-log={file}',
                      '--access-log-format=json')
    trace = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
    gateway.connect().call(message(b'abc'), ('user-agent', odd), ('traceparent', trace))
    gateway.connect().call(b'=', content_type='application/grpc-web-text')
    same(gateway.stop(), 0)  # what waits is written at the end
    first, second = [json.loads(line) for line in file.read_text().splitlines()]
    same({key: first[key] for key in ('method', 'protocol', 'code', 'status', 'received_bytes',
                                      'sent_messages', 'agent', 'traceparent')},
         {'method': '/a.B/C', 'protocol': 'grpc-web', 'code': 0, 'status': 'OK',
          'received_bytes': 3, 'sent_messages': 1, 'agent': odd, 'traceparent': trace})
    same((second['code'], second['protocol']), (13, 'grpc-web-text'))
    upstream.close()


def log_into_a_pipe(folder):
    """A pipe that nobody reads holds up neither the start, nor calls, nor a reload."""
    upstream = Upstream(lambda stream: stream.reply(b'xy'))
    pipe = folder / 'log.pipe'
    os.mkfifo(pipe)
    same(tell('--check', '--upstream=a:1', f'--access-log={pipe}')[0], 0)
    gateway = Gateway(PROGRAM, f'--upstream={upstream.address}', f'--access-log={pipe}',
                      '--access-log-format=json')
    gateway.connect().call(message(b'abc'))
    gateway.reload()
    gateway.connect().call(message(b'ab'))
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)

    def next_lines():
        """What comes until nothing more does, as whole lines."""
        got, limit = b'', time.monotonic() + peers.WAIT
        while select.select([reader], [], [], 1)[0] or not got.endswith(b'\n'):
            assert time.monotonic() < limit, got
            got += os.read(reader, 65536)
        return [json.loads(line) for line in got.splitlines()]
    same([line['received_bytes'] for line in next_lines()], [3, 2])
    web = gateway.connect()
    agent = 'a' * 500
    for _ in range(300):  # more than a pipe holds
        same(web.call(message(b''), ('x-user-agent', agent)).grpc_status(), 0)
    gateway.reload()
    same(web.call(message(b'')).grpc_status(), 0)
    lines = next_lines()
    assert 20 < len(lines) < 300, len(lines)
    assert {line['agent'] for line in lines} <= {agent, ''}, lines
    os.close(reader)  # who reads it may come and go
    for _ in range(3):
        same(web.call(message(b'')).grpc_status(), 0)
        time.sleep(0.3)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    same(web.call(message(b'abcd')).grpc_status(), 0)
    same(next_lines()[-1]['received_bytes'], 4)
    os.close(reader)
    same(gateway.stop(), 0)
    upstream.close()


def routes(folder):
    """The longest prefix wins; what has no upstream is UNIMPLEMENTED."""
    one, two, three = (Upstream(lambda stream, name=name: stream.reply(name))
                       for name in (b'one', b'two', b'three'))
    gateway = Gateway(PROGRAM, f'--upstream=/a.={one.address}', f'--upstream=/a.B/={two.address}',
                      f'--upstream=/a.B/C={three.address}')
    web = gateway.connect()
    for path, name in (('/a.X/C', b'one'), ('/a.B/X', b'two'), ('/a.B/C', b'three')):
        same(peers.messages_of(web.call(message(b''), path=path).body)[0][1], name)
    reply = web.call(message(b''), path='/b.B/C')
    assert reply.grpc_status() == 12 and '/b.B/C' in reply.field('grpc-message')[0], reply.fields
    same(gateway.stop(), 0)
    for upstream in (one, two, three):
        upstream.close()


def in_turn(folder):
    """Calls go to the servers in turn; one that is gone costs none of the calls that follow."""
    servers = [Upstream(lambda stream: stream.reply(b'')) for _ in range(3)]
    for flag in (','.join(s.address for s in servers),
                 ','.join(s.address.replace('127.0.0.1', 'localhost') for s in servers)):
        gateway = Gateway(PROGRAM, f'--upstream={flag}')
        web = gateway.connect()
        limit = time.monotonic() + peers.WAIT
        while True:
            counts = [s.streams.qsize() for s in servers]
            for _ in range(30):
                same(web.call(message(b'')).grpc_status(), 0)
            if all(s.streams.qsize() >= count + 8 for s, count in zip(servers, counts)):
                break
            assert time.monotonic() < limit, [s.streams.qsize() for s in servers]
        same(gateway.stop(), 0)
    gateway = Gateway(PROGRAM, f'--upstream={",".join(s.address for s in servers)}')
    web = gateway.connect()
    same(web.call(message(b'')).grpc_status(), 0)
    servers[1].close()
    time.sleep(0.3)
    for _ in range(30):
        same(web.call(message(b'')).grpc_status(), 0)
    for gone in (servers[0], servers[2]):
        gone.close()
    time.sleep(0.3)
    reply = web.call(message(b''))
    assert reply.grpc_status() == 14 and reply.field('grpc-message'), reply.fields
    same(gateway.stop(), 0)


def reload(folder):
    """SIGHUP changes what new calls get; calls in flight go on, and an error changes nothing."""
    go_on = threading.Event()

    def slow(stream):
        stream.send_headers()
        stream.send(message(b'1'))
        assert go_on.wait(peers.WAIT)
        stream.send(message(b'2'))
        stream.send_trailers(('grpc-status', '0'))
    old, new = Upstream(slow), Upstream(lambda stream: stream.reply(b'new'))
    file = folder / 'gateway.conf'
    file.write_text(f'# old\nupstream = {old.address}\ncors-origin = http://old.test\n')
    gateway = Gateway(PROGRAM, f'--config={file}', '--admin=127.0.0.1:0')
    web = gateway.connect()
    web.send_head('/a.B/C', ('content-length', '5'))
    web.sock.sendall(message(b''))
    web.read_head()
    same(web.read_chunk(), message(b'1'))
    file.write_text('upstream = nonsense\n')
    assert any('stays as it was' in line for line in gateway.reload())
    file.write_text(f'upstream = {new.address}\ncors-origin = http://new.test\nthreads = 2\n')
    said = gateway.reload()
    assert any('threads has changed, which needs a restart' in line for line in said), said
    said = gateway.reload()
    assert any('threads has changed' in line for line in said), 'it is still not in force'
    limit = time.monotonic() + peers.WAIT
    while True:
        reply = gateway.connect().call(message(b''), ('origin', 'http://new.test'))
        if peers.messages_of(reply.body)[0][1] == b'new':
            break
        assert time.monotonic() < limit
    same(reply.field('access-control-allow-origin'), ['http://new.test'])
    go_on.set()
    same(web.read_chunk()[:6], message(b'2'))
    file.write_text(f'upstream = {new.address}\ncors-origin = http://new.test\n')
    said = gateway.reload()
    assert not any('restart' in line for line in said), 'what is in force is asked for again'
    samples = samples_of(gateway)
    same(samples['pekoe_gateway_reloads_total', (('result', 'success'),)], 3)
    same(samples['pekoe_gateway_reloads_total', (('result', 'failure'),)], 1)
    for _ in range(20):  # under load: none is dropped
        gateway.process.send_signal(signal.SIGHUP)
        same(gateway.connect().call(message(b'')).grpc_status(), 0)
    same(gateway.stop(), 0)
    old.close()
    new.close()


def reload_of_upstreams(folder):
    """An upstream of which a reload changes nothing keeps its connection; another one is let go."""
    upstreams = [Upstream(), Upstream(), Upstream()]
    same_one, leaves, comes = (upstream.address.replace('127.0.0.1', 'localhost')
                               for upstream in upstreams)  # addresses would be one target
    file = folder / 'upstreams.conf'

    def configure(prefix, other, origin, connections):
        file.write_text(f'upstream = /a.B/={same_one},{other}\nupstream = {prefix}={same_one}\n'
                        f'cors-origin = {origin}\nupstream-connections = {connections}\n')

    def call_ten_times(origin):
        """By the configuration with this origin, once it is in force."""
        limit = time.monotonic() + peers.WAIT
        calls = 0
        while calls < 10:
            assert time.monotonic() < limit
            reply = gateway.connect().call(message(b''), ('origin', origin))
            calls += reply.field('access-control-allow-origin') == [origin]

    def expect_connections(*expected):
        limit = time.monotonic() + peers.WAIT
        while (seen := tuple(len(upstream.connections) for upstream in upstreams)) != expected:
            assert time.monotonic() < limit, (seen, expected)
            time.sleep(0.01)
    configure('/c.D/', leaves, 'http://one.test', 2)
    gateway = Gateway(PROGRAM, f'--config={file}')
    call_ten_times('http://one.test')
    expect_connections(1, 1, 0)
    configure('/c.D/', leaves, 'http://two.test', 2)
    gateway.reload()
    call_ten_times('http://two.test')
    expect_connections(1, 1, 0)
    configure('/e.F/', comes, 'http://three.test', 2)
    gateway.reload()
    call_ten_times('http://three.test')
    expect_connections(1, 1, 1)
    limit = time.monotonic() + peers.WAIT
    while not upstreams[1].connections[0].ended:
        assert time.monotonic() < limit, 'nobody uses it any more'
        time.sleep(0.01)
    configure('/e.F/', comes, 'http://four.test', 3)
    gateway.reload()
    call_ten_times('http://four.test')
    expect_connections(2, 1, 2)
    same(gateway.stop(), 0)
    for upstream in upstreams:
        upstream.close()


def certificates(folder):
    """TLS with ALPN; SIGHUP shows another certificate to new connections."""
    subprocess.run([sys.argv[2], str(folder)], check=True, timeout=60)
    for name in ('cert', 'key'):
        source = folder / ('server.pem' if name == 'cert' else 'server.key')
        (folder / f'tls.{name}').write_bytes(source.read_bytes())
    upstream = Upstream(lambda stream: stream.reply(b'safe'))
    gateway = Gateway(PROGRAM, f'--upstream={upstream.address}', '--listen-tls=127.0.0.1:0',
                      f'--tls-cert={folder}/tls.cert', f'--tls-key={folder}/tls.key')
    address = gateway.places['listening with TLS']

    def wrap(alpn):
        context = ssl.create_default_context(cafile=str(folder / 'ca.pem'))
        context.check_hostname = False
        context.set_alpn_protocols([alpn])
        return lambda sock: context.wrap_socket(sock, server_hostname='localhost')
    web = Web(address, wrap('http/1.1'))
    same(web.sock.selected_alpn_protocol(), 'http/1.1')
    same(peers.messages_of(web.call(message(b'')).body)[0][1], b'safe')
    same(Web(address, wrap('h2')).sock.selected_alpn_protocol(), 'h2')
    first = web.sock.getpeercert()['serialNumber']
    (folder / 'tls.cert').write_bytes((folder / 'chain.pem').read_bytes())
    (folder / 'tls.key').write_bytes((folder / 'chain.key').read_bytes())
    gateway.reload()
    limit = time.monotonic() + peers.WAIT
    while Web(address, wrap('http/1.1')).sock.getpeercert()['serialNumber'] == first:
        assert time.monotonic() < limit, 'the new certificate is not shown'
    same(web.call(message(b'')).grpc_status(), 0)  # an old connection goes on
    (folder / 'tls.key').write_text('no key')
    assert any('stays as it was' in line for line in gateway.reload())
    same(Web(address, wrap('http/1.1')).call(message(b'')).grpc_status(), 0)
    same(gateway.stop(), 0)
    upstream.close()


def fixed_keys(folder):
    """Addresses that a new configuration lacks or adds go on as they were, with TLS and files."""
    upstream = Upstream(lambda stream: stream.reply(b'safe'))
    file = folder / 'fixed.conf'
    tls = (f'listen-tls = 127.0.0.1:0\ntls-cert = {folder}/server.pem\n'
           f'tls-key = {folder}/server.key\n')
    file.write_text(f'upstream = {upstream.address}\n')
    gateway = Gateway(PROGRAM, f'--config={file}', f'--static={folder}')
    file.write_text(f'upstream = {upstream.address}\nstatic-listen = 127.0.0.1:0\n{tls}')
    said = gateway.reload()
    assert any('which needs a restart' in line for line in said), said
    assert any('was read again' in line for line in said), said
    same(gateway.connect().call(message(b'')).grpc_status(), 0)  # its thread has read it, too
    same(gateway.connect().get('/fixed.conf').status, 200)
    same(gateway.stop(), 0)

    file.write_text(f'upstream = {upstream.address}\n{tls}')
    gateway = Gateway(PROGRAM, f'--config={file}')
    gateway.read_places(1)  # listening with TLS
    context = ssl.create_default_context(cafile=str(folder / 'ca.pem'))
    context.check_hostname = False

    def call():
        web = Web(gateway.places['listening with TLS'],
                  lambda sock: context.wrap_socket(sock, server_hostname='localhost'))
        return web.call(message(b'')).grpc_status()
    same(call(), 0)
    file.write_text(f'upstream = {upstream.address}\n')
    said = gateway.reload()
    assert any('listen-tls has changed' in line for line in said), said
    same(gateway.connect().call(message(b'')).grpc_status(), 0)
    same(call(), 0)
    same(gateway.stop(), 0)

    file.write_text(f'upstream = {upstream.address}\nmessage-limit = 4\n')
    gateway = Gateway(PROGRAM, f'--config={file}')
    file.write_text(f'upstream = {upstream.address}\nmessage-limit = 3\n')
    said = gateway.reload()
    assert any('message-limit has changed' in line for line in said), said
    for _ in range(20):  # until its thread has read it, too
        same(gateway.connect().call(message(b'')).grpc_status(), 0)
        time.sleep(0.01)
    same(gateway.stop(), 0)
    upstream.close()


def upstream_with_tls(folder):
    """An upstream with TLS is verified, by name too; the gateway shows its own certificate."""
    inner = Upstream(lambda stream: stream.reply(b'behind'))
    # A gateway with TLS that demands certificates is the upstream.
    behind = Gateway(PROGRAM, f'--upstream={inner.address}', '--listen-tls=127.0.0.1:0',
                     f'--tls-cert={folder}/server.pem', f'--tls-key={folder}/server.key',
                     f'--tls-client-ca={folder}/ca.pem')
    address = behind.places['listening with TLS']
    shown = [f'--upstream-cert={folder}/client.pem', f'--upstream-key={folder}/client.key']
    trusted = [f'--upstream-ca={folder}/ca.pem']
    for flags, code in ((trusted + shown, 0), (trusted, 14), (shown, 14),
                        (trusted + shown + ['--upstream-name=elsewhere.test'], 14)):
        gateway = Gateway(PROGRAM, f'--upstream=tls://{address}', *flags)
        reply = gateway.connect().call(message(b''))
        same((flags, reply.grpc_status()), (flags, code))
        same(gateway.stop(), 0)
    same(tell('--check', '--upstream=tls://a:1', f'--upstream-ca={folder}/none')[0], 2)
    same(tell('--check', '--upstream=tls://a:1', f'--upstream-key={folder}/client.key')[0], 2)
    same(behind.stop(), 0)
    inner.close()


def threads(folder):
    """Several threads share the port, and a Unix socket serves beside them."""
    upstream = Upstream(lambda stream: stream.reply(b''))
    path = folder / 'socket'
    gateway = Gateway(PROGRAM, f'--upstream={upstream.address}', '--threads=4',
                      '--admin=127.0.0.1:0')
    for _ in range(40):
        same(gateway.connect().call(message(b'')).grpc_status(), 0)
    samples = samples_of(gateway)
    same(samples['pekoe_gateway_messages_total', (('direction', 'sent'), ('route', '/'))], 40)
    same(gateway.reload()[-1], 'pekoe-gateway: the configuration was read again')
    same(gateway.stop(), 0)
    process = subprocess.Popen([*PROGRAM, f'--listen=unix:{path}', '--threads=2',
                                f'--upstream={upstream.address}'], stdout=subprocess.PIPE, text=True)
    same(process.stdout.readline(), f'listening on unix:{path}\n')
    run = subprocess.run(['curl', '-s', '-m', '5', '--unix-socket', str(path), '-D', '-', '-o',
                          '/dev/null', '-H', 'content-type: application/grpc-web',
                          '--data-binary', '', 'http://x/a.B/C'], capture_output=True, text=True,
                         check=False)
    assert '200 OK' in run.stdout, run
    process.send_signal(signal.SIGTERM)
    same(process.wait(10), 0)
    upstream.close()


def graceful_end(folder):
    """At the end calls in flight finish; the health check says 503 meanwhile; time is bounded."""
    go_on = threading.Event()

    def slow(stream):
        stream.send_headers()
        stream.send(message(b'1'))
        if stream.header(':path') == ['/a.B/Wait']:
            assert go_on.wait(peers.WAIT)
            stream.send(message(b'2'))
            stream.send_trailers(('grpc-status', '0'))
    upstream = Upstream(slow)
    gateway = Gateway(PROGRAM, f'--upstream={upstream.address}', '--admin=127.0.0.1:0',
                      '--drain-timeout=20s')
    web = gateway.connect()
    web.send_head('/a.B/Wait', ('content-length', '5'))
    web.sock.sendall(message(b''))
    web.read_head()
    web.read_chunk()
    gateway.process.send_signal(signal.SIGTERM)
    limit = time.monotonic() + peers.WAIT
    while Web(gateway.places['admin']).get('/healthz').status != 503:
        assert time.monotonic() < limit, 'the health check does not notice'
    try:
        gateway.connect()
        raise AssertionError('a connection is taken')
    except ConnectionRefusedError:
        pass
    go_on.set()
    assert web.read_chunk().startswith(message(b'2'))
    same(gateway.process.wait(10), 0)
    for flags, signals in ((['--drain-timeout=300ms'], 1), (['--drain-timeout=1h'], 2)):
        gateway = Gateway(PROGRAM, f'--upstream={upstream.address}', *flags)
        web = gateway.connect()
        web.send_head('/a.B/Never', ('content-length', '5'))
        web.sock.sendall(message(b''))
        web.read_head()
        web.read_chunk()
        for _ in range(signals):
            gateway.process.send_signal(signal.SIGINT)
            time.sleep(0.2)
        same(gateway.process.wait(10), 0)
    upstream.close()


def signals_at_the_end(folder):
    """Signals that come while it ends change nothing."""
    # LeakSanitizer's look at the end may hang where a signal comes.
    environment = {**os.environ,
                   'ASAN_OPTIONS': os.environ.get('ASAN_OPTIONS', '') + ':detect_leaks=0'}
    for turn in range(40):
        gateway = Gateway(PROGRAM, '--upstream=127.0.0.1:1', f'--threads={1 + turn % 3}',
                          environment=environment)
        for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGTERM, signal.SIGINT):
            gateway.process.send_signal(number)
            time.sleep(turn % 4 * 0.0005)
        same(gateway.process.wait(10), 0)


def from_anywhere(folder):
    """The caller's address is told where that is wanted, fields are dropped and kept by lists."""
    upstream = Upstream(lambda stream: stream.reply(b''))
    gateway = Gateway(PROGRAM, f'--upstream={upstream.address}', '--forwarded-for',
                      '--forward-header=Cookie', '--drop-header=x-secret', '--authority=inner.test',
                      '--timeout=5s', '--listen=:0')
    gateway.connect().call(message(b''), ('cookie', 'a=b'), ('x-secret', '1'),
                           ('x-forwarded-for', '10.1.1.1'))
    stream = upstream.next_stream()
    same(stream.header('x-forwarded-for'), ['10.1.1.1', '127.0.0.1'])
    same((stream.header('cookie'), stream.header('x-secret')), (['a=b'], []))
    same(stream.header(':authority'), ['inner.test'])
    assert stream.header('grpc-timeout'), stream.headers
    gateway.read_places(1)  # every interface, and so both versions
    port = gateway.places['listening'].rsplit(':', 1)[1]
    for address in ('127.0.0.1', '::1'):
        Web(f'{address}:{port}').call(message(b''))
        same(upstream.next_stream().header('x-forwarded-for'), [address])
    same(gateway.stop(), 0)
    upstream.close()


def main():
    with tempfile.TemporaryDirectory() as name:
        return peers.run([told, address_in_use, files, files_elsewhere, metrics, log,
                          log_into_a_pipe, routes,
                          in_turn, reload, reload_of_upstreams, certificates, fixed_keys, upstream_with_tls, threads,
                          graceful_end, signals_at_the_end, from_anywhere],
                         pathlib.Path(name))


if __name__ == '__main__':
    sys.exit(main())
