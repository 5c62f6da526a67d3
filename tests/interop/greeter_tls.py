#!/usr/bin/python3
"""The greeter's programs over TLS, with grpcio, grpc-js and openssl's own client at the other end.

usage: greeter_tls.py GREETER-SERVER GREETER-CLIENT. TAP on stdout. TLS_TEST_DATA is the folder that
make_certificates.c fills.
"""
import concurrent.futures
import pathlib
import re
import shutil
import subprocess
import sys
import traceback

import grpc

from helloworld_pb2 import HelloReply, HelloRequest
from servers import Server, test_data

SERVER, CLIENT = sys.argv[1:3]
SERVICE = '/helloworld.Greeter/'
ROOT = pathlib.Path(__file__).resolve().parents[2]
started = []


def same(got, wanted):
    assert got == wanted, f'got {got!r}, wanted {wanted!r}'


def path(name):
    return str(pathlib.Path(test_data(), name))


def read(name):
    return pathlib.Path(path(name)).read_bytes()


def start(*arguments, name='server'):
    server = Server([SERVER, '--tls-cert', path(name + '.pem'), '--tls-key', path(name + '.key'),
                     *arguments])
    started.append(server)
    return server


def channel_to(address, shown=None, ca='ca.pem', target='localhost'):
    """A channel of grpcio's that shows the certificate of that name."""
    pair = {'private_key': read(shown + '.key'), 'certificate_chain': read(shown + '.pem')} \
        if shown else {}
    return grpc.secure_channel(address, grpc.ssl_channel_credentials(read(ca), **pair), options=[
        ('grpc.enable_http_proxy', 0), ('grpc.use_local_subchannel_pool', 1),
        ('grpc.ssl_target_name_override', target)])


def say_hello(channel, name='Anna'):
    method = channel.unary_unary(SERVICE + 'SayHello', HelloRequest.SerializeToString,
                                 HelloReply.FromString)
    return method(HelloRequest(name=name), timeout=20).message


def code_of(channel):
    try:
        say_hello(channel)
    except grpc.RpcError as error:
        return error.code().name
    return 'OK'


def greeter_client(port, *options, host='localhost'):
    return subprocess.run([CLIENT, '--tls', *options, f'{host}:{port}', 'Anna', 'Bo'],
                          capture_output=True, text=True, timeout=100, check=False)


def s_client(address, *options):
    """What openssl's client says about one handshake."""
    run = subprocess.run(['openssl', 's_client', '-connect', address, '-CAfile', path('ca.pem'),
                          *options], input='', capture_output=True, text=True, timeout=20,
                         errors='replace', check=False)
    return run.stdout + run.stderr


def both():
    """the client gets the server's answers of every style"""
    server = start()
    run = greeter_client(server.port, '--ca', path('ca.pem'))
    same((run.returncode, run.stderr), (0, ''))
    same(run.stdout.splitlines()[:2],
         ['SayHello: Hello, Anna', 'ItKeepsTalking: Hello, Anna, Bo'])
    same(server.stop(), 0)


def alpn():
    """openssl's client gets h2, http/1.1, or alert 120"""
    server = start()
    for offer, chosen in (('h2', 'h2'), ('http/1.1', 'http/1.1'), ('http/1.1,h2', 'h2'),
                          ('foo,h2', 'h2')):
        assert f'ALPN protocol: {chosen}\n' in s_client(server.address, '-alpn', offer), offer
    said = s_client(server.address, '-alpn', 'foo')
    assert 'SSL alert number 120' in said, said
    assert 'No ALPN negotiated' in s_client(server.address), 'the first bytes decide'
    same(server.stop(), 0)


def versions():
    """TLS 1.2 and 1.3 are spoken, 1.1 and 1.0 are not; the chain is right; 1.2 is resumed"""
    server = start(name='chain')
    for option, version in (('-tls1_2', 'TLSv1.2'), ('-tls1_3', 'TLSv1.3')):
        said = s_client(server.address, '-alpn', 'h2', option, '-verify_return_error')
        assert f'New, {version}' in said and 'Verify return code: 0 (ok)' in said, said
        assert 'Secure Renegotiation IS' in said and 'Compression: NONE' in said, said
    for option in ('-tls1_1', '-tls1'):
        said = s_client(server.address, option, '-cipher', 'ALL:@SECLEVEL=0')
        assert 'SSL alert number 70' in said, said
    said = s_client(server.address, '-alpn', 'h2', '-tls1_2', '-reconnect')
    same(len(re.findall(r'Reused, TLSv1.2', said)), 5)
    same(server.stop(), 0)


def clients_certificates():
    """grpcio is served with a certificate of the right CA, and refused with none or another"""
    server = start('--tls-client-ca', path('ca.pem'))
    for shown, code in (('client', 'OK'), (None, 'UNAVAILABLE'), ('client-of-other', 'UNAVAILABLE'),
                        ('expired', 'UNAVAILABLE')):
        with channel_to(server.address, shown) as channel:
            same((shown, code_of(channel)), (shown, code))
    run = greeter_client(server.port, '--ca', path('ca.pem'), '--tls-cert', path('client.pem'),
                         '--tls-key', path('client.key'))
    same((run.returncode, run.stderr), (0, ''))
    run = greeter_client(server.port, '--ca', path('ca.pem'))
    assert 'TLS: the server refuses: certificate required' in run.stderr, run.stderr
    same(server.stop(), 0)


def grpcio_verifies():
    """grpcio takes the server's certificate, and not where it should not"""
    server = start()
    for ca, target, code in (('ca.pem', 'localhost', 'OK'), ('ca.pem', 'a.test.google.fr', 'OK'),
                             ('ca.pem', 'elsewhere.example', 'UNAVAILABLE'),
                             ('other-ca.pem', 'localhost', 'UNAVAILABLE')):
        with channel_to(server.address, ca=ca, target=target) as channel:
            same((ca, target, code_of(channel)), (ca, target, code))
    same(server.stop(), 0)


def threads():
    """two threads share one certificate, and serve many short connections"""
    server = start('--threads', '2')

    def several(number):
        for _ in range(5):
            with channel_to(server.address) as channel:
                same(say_hello(channel, str(number)), f'Hello, {number}')

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(several, range(8)))
    same(server.stop(), 0)


class Greeter(grpc.GenericRpcHandler):
    """The greeter's four styles, on grpcio."""

    def service(self, details):
        reply = lambda text: HelloReply(message='Hello, ' + text).SerializeToString()
        parse = HelloRequest.FromString
        return {
            'SayHello': grpc.unary_unary_rpc_method_handler(
                lambda request, context: reply(request.name), parse),
            'ItKeepsTalking': grpc.stream_unary_rpc_method_handler(
                lambda requests, context: reply(', '.join(r.name for r in requests)), parse),
            'ItKeepsReplying': grpc.unary_stream_rpc_method_handler(
                lambda request, context: (reply(letter) for letter in request.name), parse),
            'StreamHellos': grpc.stream_stream_rpc_method_handler(
                lambda requests, context: (reply(r.name) for r in requests), parse),
        }.get(details.method.rsplit('/', 1)[1])


def grpcio_server(name, client_ca=None):
    """A server of grpcio's with the certificate of that name; its port is added to it."""
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(8))
    server.add_generic_rpc_handlers([Greeter()])
    credentials = grpc.ssl_server_credentials(
        [(read(name + '.key'), read(name + '.pem'))], read(client_ca) if client_ca else None,
        client_ca is not None)
    server.port = server.add_secure_port('127.0.0.1:0', credentials)
    server.start()
    return server


def calls_grpcio():
    """our client calls a server of grpcio's, with a certificate where one is demanded"""
    for ca, options, works in (
            (None, [], True),
            ('ca.pem', ['--tls-cert', path('client.pem'), '--tls-key', path('client.key')], True),
            ('ca.pem', [], False),
            ('ca.pem', ['--tls-cert', path('self.pem'), '--tls-key', path('self.key')], False)):
        server = grpcio_server('server', ca)
        run = greeter_client(server.port, '--ca', path('ca.pem'), *options)
        server.stop(0).wait()
        same((ca, len(options), run.returncode), (ca, len(options), 0 if works else 1))
        if works:
            same(run.stdout.splitlines()[0], 'SayHello: Hello, Anna')
        else:
            assert 'UNAVAILABLE: cannot connect to ' in run.stderr, run.stderr
            assert 'TLS: ' in run.stderr or 'closed' in run.stderr, run.stderr


def refuses_grpcio():
    """our client refuses servers of grpcio's whose certificate is wrong, and says why"""
    for name, ca, text in (
            ('elsewhere', 'ca.pem', 'hostname mismatch (it is for DNS:elsewhere.example, '
                                    'IP:192.0.2.1, not for localhost)'),
            ('expired', 'ca.pem', 'certificate has expired'),
            ('self', 'ca.pem', 'self-signed certificate'),
            ('stranger', 'ca.pem', 'unable to get local issuer certificate'),
            ('server', None, 'unable to get local issuer certificate')):
        server = grpcio_server(name)
        run = greeter_client(server.port, *(['--ca', path(ca)] if ca else []))
        server.stop(0).wait()
        same((name, run.returncode), (name, 1))
        assert f"TLS: the server's certificate is refused: {text}" in run.stderr, run.stderr


def grpc_js():
    """grpc-js shows a certificate to our server, and demands one of our client"""
    server = start('--tls-client-ca', path('ca.pem'))
    script = str(ROOT / 'tests/interop/greeter_tls_grpc_js.mjs')
    proto = str(ROOT / 'examples/greeter/helloworld.proto')
    run = subprocess.run(['node', script, 'client', f'localhost:{server.port}', proto], capture_output=True,
                         text=True, timeout=60, check=False)
    same((run.returncode, run.stdout, run.stderr), (0, 'Hello, Anna\nUNAVAILABLE\n', ''))
    same(server.stop(), 0)
    peer = Server(['node', script, 'server', proto])
    started.append(peer)
    run = greeter_client(peer.port, '--ca', path('ca.pem'), '--tls-cert', path('client.pem'),
                         '--tls-key', path('client.key'))
    same((run.returncode, run.stdout.splitlines()[:1], run.stderr),
         (0, ['SayHello: Hello, Anna'], ''))
    run = greeter_client(peer.port, '--ca', path('ca.pem'))
    same(run.returncode, 1)
    assert 'TLS: ' in run.stderr or 'closed' in run.stderr, run.stderr


def wrong_files():
    """the server says what is wrong with its files, and does not start"""
    for options, text in (
            (['--tls-cert', path('server.pem'), '--tls-key', path('client.key')],
             'client.key: the key does not belong to the certificate of '),
            (['--tls-cert', '/nowhere.pem', '--tls-key', path('client.key')],
             '/nowhere.pem: No such file or directory'),
            (['--tls-cert', path('server.pem')], 'there is no key')):
        run = subprocess.run([SERVER, '--listen', '127.0.0.1:0', *options], capture_output=True,
                             text=True, timeout=20, check=False)
        same(run.returncode, 1)
        assert text in run.stderr, run.stderr


CASES = [both, alpn, versions, clients_certificates, grpcio_verifies, threads, calls_grpcio,
         refuses_grpcio, grpc_js, wrong_files]


def main():
    if not shutil.which('openssl') or not (ROOT / 'node_modules').is_dir():
        print('1..0 # SKIP openssl or node_modules is missing (./dev setup installs them)')
        return 0
    failures = 0
    for number, case in enumerate(CASES, 1):
        try:
            case()
            right = True
        except Exception:
            traceback.print_exc()
            right = False
        finally:
            while started:
                server = started.pop()
                if server.process.poll() is None:
                    server.stop()
        failures += not right
        print('ok' if right else 'not ok', number, '-', case.__doc__, flush=True)
    print(f'1..{len(CASES)}')
    return failures != 0


if __name__ == '__main__':
    sys.exit(main())
