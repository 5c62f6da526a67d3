#!/usr/bin/python3
"""What comes in odd pieces, and upstreams that answer oddly: bytes in, bytes out.

usage: edges.py GATEWAY. The client speaks HTTP/1.1, the server behind answers as each case says.
TAP on stdout.
"""
import base64
import gzip
import sys
import threading

import peers
from peers import Upstream, message, messages_of

TEXT = 'application/grpc-web-text'
EMPTY = base64.b64encode(message(b''))  # AAAAAAA=


class Bench:
    """A gateway and an upstream whose script each case sets."""

    def __init__(self, program):
        self.upstream = Upstream()
        self.gateway = peers.Gateway([program], f'--upstream={self.upstream.address}',
                                     '--cors-origin=http://page.test', '--cors-credentials',
                                     '--message-limit=1000')

    def script(self, script):
        """For the calls that follow; forgets those that came before."""
        self.upstream.script = script
        while not self.upstream.streams.empty():
            self.upstream.streams.get()

    def connect(self):
        return self.gateway.connect()


def echo_when_ended(stream):
    stream.wait(lambda: stream.ended, 'the end of the request')
    stream.reply(stream.body)


def text_in_pieces(bench):
    """Base64 in HTTP chunks of 1, 2, 3 and 5 bytes is one message."""
    bench.script(echo_when_ended)
    for size in (1, 2, 3, 5):
        web = bench.connect()
        web.send_head('/a.B/C', ('transfer-encoding', 'chunked'), content_type=TEXT)
        for at in range(0, len(EMPTY), size):
            web.send_chunk(EMPTY[at:at + size])
        web.end()
        reply = web.read_reply()
        assert reply.status == 200, reply.fields
        assert bench.upstream.next_stream().body == message(b''), 'what the upstream got'
        web.close()


def padding_within(bench):
    """Padded pieces one behind the other are one body."""
    bench.script(echo_when_ended)
    body = EMPTY + base64.b64encode(message(b'xy')) + base64.b64encode(message(b'xyz'))
    reply = bench.connect().call(body, content_type=TEXT)
    assert bench.upstream.next_stream().body == message(b'') + message(b'xy') + message(b'xyz')
    assert reply.field('content-type') == [TEXT]


def bad_text(bench):
    """Leftover and wrong characters of base64 get 400."""
    bench.script(echo_when_ended)
    for body in (EMPTY[:-1], EMPTY[:5], b'AAAA\r\nAAA=', b'AAA-AAA=', b'AAAA_AA=', b'=AAAAAA=',
                 EMPTY + b'A'):
        reply = bench.connect().call(body, content_type=TEXT)
        assert reply.status == 400, (body, reply.status)
        assert reply.grpc_status() == 13, (body, reply.fields)


def accept_chooses(bench):
    """The accept field chooses base64 or binary for the reply."""
    bench.script(lambda stream: stream.reply(b'hi'))
    reply = bench.connect().call(message(b''), ('accept', TEXT))
    assert reply.field('content-type') == [TEXT + '+proto'], reply.fields
    pieces = reply.body.decode()
    assert base64.b64decode(pieces[:12]) == message(b'hi'), pieces


def trailers_only(bench):
    """A status alone stands in the HTTP head, once, with an empty body."""
    bench.script(lambda stream: stream.send_headers(
        ('grpc-status', '3'), ('grpc-message', 'na%C3%AFve'), ('x-why', 'because'),
        ('grpc-status-details-bin', 'CAMSAXg'), ended=True))
    for content_type in ('application/grpc-web', TEXT):
        reply = bench.connect().call(b'' if content_type == TEXT else message(b''),
                                     ('origin', 'http://page.test'), content_type=content_type)
        assert reply.status == 200 and reply.body == b'', (reply.status, reply.body)
        assert reply.field('grpc-status') == ['3']
        assert reply.field('grpc-message') == ['na%C3%AFve']
        assert reply.field('grpc-status-details-bin') == ['CAMSAXg']
        assert reply.field('x-why') == ['because']
        assert 'x-why' in ', '.join(reply.field('access-control-expose-headers'))


def status_behind_messages(bench):
    """A status behind messages stands in one trailer frame."""
    def script(stream):
        stream.send_headers()
        stream.send(message(b'one') + message(b'two'))
        stream.send_trailers(('grpc-status', '10'), ('grpc-message', 'so'), ('x-a', '1'),
                             ('x-a', '2'))
    bench.script(script)
    reply = bench.connect().call(message(b''))
    assert [p for f, p in messages_of(reply.body)[:2]] == [b'one', b'two']
    assert reply.trailers() == [('grpc-status', '10'), ('grpc-message', 'so'), ('x-a', '1'),
                                ('x-a', '2')], reply.trailers()
    assert not reply.field('grpc-status')


def no_compression_unasked(bench):
    """A browser's accept-encoding asks for no compressed message, and none comes."""
    def script(stream):
        stream.send_headers(('grpc-encoding', 'gzip'))
        stream.send(message(gzip.compress(b'x' * 100), flags=1))
        stream.send_trailers(('grpc-status', '0'))
    bench.script(script)
    reply = bench.connect().call(message(b''), ('accept-encoding', 'gzip, deflate, br'))
    stream = bench.upstream.next_stream()
    assert stream.header('grpc-accept-encoding') == ['identity'], stream.headers
    assert not stream.header('accept-encoding')
    assert reply.grpc_status() == 13
    assert all(not flags & 1 for flags, _ in messages_of(reply.body))


def compression_asked_for(bench):
    """Who asks for a compression gets it as the upstream has written it, whatever it is called."""
    def script(stream):
        stream.wait(lambda: stream.ended, 'the end')
        stream.send_headers(('grpc-encoding', 'rot13'))
        stream.send(message(b'uryyb', flags=1) + message(b'plain'))
        stream.send_trailers(('grpc-status', '0'))
    bench.script(script)
    reply = bench.connect().call(message(b'abc', flags=1), ('grpc-encoding', 'rot13'),
                                 ('grpc-accept-encoding', 'rot13,identity'))
    stream = bench.upstream.next_stream()
    assert stream.body == message(b'abc', flags=1)
    assert stream.header('grpc-encoding') == ['rot13']
    assert stream.header('grpc-accept-encoding') == ['rot13,identity']
    assert messages_of(reply.body)[:2] == [(1, b'uryyb'), (0, b'plain')]
    assert reply.field('grpc-encoding') == ['rot13']


def refused_compression(bench):
    """A compression that the upstream does not know comes back with those that it does."""
    bench.script(lambda stream: stream.send_headers(
        ('grpc-status', '12'), ('grpc-accept-encoding', 'gzip'), ended=True))
    reply = bench.connect().call(message(b''), ('grpc-encoding', 'foo'))
    assert reply.grpc_status() == 12
    assert reply.field('grpc-accept-encoding') == ['gzip']


def cut_frame_heads(bench):
    """A frame's head in two pieces, either way, and a body in pieces of one byte."""
    def script(stream):
        stream.wait(lambda: stream.ended, 'the end')
        stream.send_headers()
        whole = message(b'hello')
        stream.send(whole[:1])
        stream.send(whole[1:5])
        for at in range(5, len(whole)):
            stream.send(whole[at:at + 1])
        stream.send_trailers(('grpc-status', '0'))
    bench.script(script)
    web = bench.connect()
    web.send_head('/a.B/C', ('transfer-encoding', 'chunked'))
    for piece in (b'\0', b'\0\0\0\3', b'a', b'bc'):
        web.send_chunk(piece)
    web.end()
    reply = web.read_reply()
    assert bench.upstream.next_stream().body == message(b'abc')
    assert messages_of(reply.body)[0] == (0, b'hello')


def cut_request(bench):
    """A request that ends inside a message is no call that the upstream completes."""
    bench.script(echo_when_ended)
    reply = bench.connect().call(message(b'abc')[:-1])
    assert reply.grpc_status() == 13, reply.fields
    # What comes whole is refused before the call behind has begun.
    assert bench.upstream.streams.empty() or bench.upstream.next_stream().body == b''
    web = bench.connect()
    web.send_head('/a.B/C', ('transfer-encoding', 'chunked'))
    web.send_chunk(message(b'abc') + message(b'abc')[:-1])
    bench.upstream.next_stream()
    web.end()
    assert web.read_reply().grpc_status() == 13


def cut_response(bench):
    """A response that ends inside a message is INTERNAL, unless its status says why."""
    for status, told in (('0', 13), ('8', 8)):
        def script(stream, status=status):
            stream.send_headers()
            stream.send(message(b'abc')[:-1])
            stream.send_trailers(('grpc-status', status))
        bench.script(script)
        assert bench.connect().call(message(b'')).grpc_status() == told


def content_length(bench):
    """What the upstream says of its length, and of its hop, stays with it."""
    def script(stream):
        stream.send_headers(('content-length', '7'), ('server', 'x'), ('x-own', 'y'),
                            ('access-control-allow-origin', '*'))
        stream.send(message(b'ab'))
        stream.send_trailers(('grpc-status', '0'))
    bench.script(script)
    reply = bench.connect().call(message(b''), ('origin', 'http://page.test'))
    assert not reply.field('content-length') and not reply.field('server')
    assert reply.field('x-own') == ['y']
    assert reply.field('access-control-allow-origin') == ['http://page.test']
    assert len(messages_of(reply.body)) == 2


def binary_values(bench):
    """Binary values are passed on as they came, lists and all, in their order."""
    bench.script(lambda stream: stream.reply(b'', ('x-b-bin', 'AA=='), ('x-b-bin', 'AQ'),
                                             ('x-b-bin', 'Ag, Aw==')))
    reply = bench.connect().call(message(b''), ('x-a-bin', 'AA==,AQ'), ('x-a-bin', 'q6ur'),
                                 ('x-bad-bin', 'q-_r'))
    stream = bench.upstream.next_stream()
    assert stream.header('x-a-bin') == ['AA==,AQ', 'q6ur'], stream.headers
    assert stream.header('x-bad-bin') == ['q-_r']
    assert [v for k, v in reply.trailers() if k == 'x-b-bin'] == ['AA==', 'AQ', 'Ag, Aw==']


def request_fields(bench):
    """The upstream sees the page's own fields, and none of its browser's or of the hop."""
    bench.script(lambda stream: stream.reply(b''))
    bench.connect().call(
        message(b''), ('x-user-agent', 'grpc-web-javascript/0.1'), ('x-grpc-web', '1'),
        ('user-agent', 'Mozilla/5.0'), ('cookie', 'a=b'), ('origin', 'http://page.test'),
        ('referer', 'http://page.test/'), ('sec-fetch-mode', 'cors'), ('accept-language', 'de'),
        ('authorization', 'Bearer x'), ('x-hop', '1'), ('connection', 'keep-alive, X-Hop'),
        ('te', 'gzip'), ('x-custom', 'a'), ('x-custom', 'b'), ('grpc-trace-bin', 'AA'),
        ('x!odd', '1'))
    stream = bench.upstream.next_stream()
    named = dict(stream.headers)
    assert named['te'] == 'trailers' and named['content-type'] == 'application/grpc'
    assert named[':authority'] == bench.upstream.address and named[':path'] == '/a.B/C'
    assert named['user-agent'].startswith('pekoe-gateway'), named
    assert named['x-user-agent'] == 'grpc-web-javascript/0.1'
    assert named['authorization'] == 'Bearer x' and named['grpc-trace-bin'] == 'AA'
    assert stream.header('x-custom') == ['a', 'b']
    strange = {'cookie', 'origin', 'referer', 'sec-fetch-mode', 'accept-language', 'x-grpc-web',
               'x-hop', 'connection', 'x!odd', 'host', 'content-length'} & set(named)
    assert not strange, strange


def preflight(bench):
    """A page of an allowed origin is told what it may do, another one is not."""
    asked = 'content-type,x-grpc-web,x-user-agent,grpc-timeout,authorization,x-custom'
    web = bench.connect()
    answer = web.get('/a.B/C', ('origin', 'http://page.test'),
                     ('access-control-request-method', 'POST'),
                     ('access-control-request-headers', asked), method='OPTIONS')
    assert answer.status == 204 and answer.body == b''
    assert answer.field('access-control-allow-origin') == ['http://page.test']
    assert answer.field('access-control-allow-credentials') == ['true']
    assert answer.field('access-control-allow-headers') == [asked]
    assert 'POST' in answer.field('access-control-allow-methods')[0]
    assert 'origin' in answer.field('vary')[0] and int(answer.field('access-control-max-age')[0])
    bench.script(lambda stream: stream.send_headers(('grpc-status', '7'), ('x-mine', '1'),
                                                    ended=True))
    reply = web.call(message(b''), ('origin', 'http://page.test'))
    exposed = ', '.join(reply.field('access-control-expose-headers'))
    for name in ('grpc-status', 'grpc-message', 'grpc-status-details-bin', 'x-mine'):
        assert name in exposed, exposed
    assert reply.field('vary') == ['origin']
    other = web.get('/a.B/C', ('origin', 'http://other.test'),
                    ('access-control-request-method', 'POST'), method='OPTIONS')
    assert other.status == 403 and not other.field('access-control-allow-origin')
    reply = web.call(message(b''), ('origin', 'http://other.test'))
    assert not reply.field('access-control-allow-origin')


def incremental(bench):
    """Messages arrive one by one, in both forms, before the upstream goes on."""
    for content_type in ('application/grpc-web', TEXT):
        seen = threading.Semaphore(0)

        def script(stream):
            stream.send_headers(('x-first', '1'))
            for count in range(3):
                assert seen.acquire(timeout=peers.WAIT)
                stream.send(message(b'%d' % count))
            assert seen.acquire(timeout=peers.WAIT)
            stream.send_trailers(('grpc-status', '0'))
        bench.script(script)
        web = bench.connect()
        body = message(b'')
        if content_type == TEXT:
            body = base64.b64encode(body)
        web.send_head('/a.B/C', ('content-length', str(len(body))), content_type=content_type)
        web.sock.sendall(body)
        assert web.read_head().field('x-first') == ['1'], 'the head comes at once'
        for count in range(3):
            seen.release()
            piece = web.read_chunk()
            if content_type == TEXT:
                piece = base64.b64decode(piece, validate=True)
            assert piece == message(b'%d' % count), piece
        seen.release()
        assert web.read_chunk() and not web.read_chunk()
        web.close()


def both_ways_at_once(bench):
    """Over HTTP/1.1 a client that can talks while it listens."""
    def script(stream):
        stream.send_headers()
        for count in range(3):
            stream.wait(lambda: len(stream.body) >= 6 * (count + 1), f'message {count}')
            stream.send(stream.body[6 * count:6 * count + 6])
        stream.wait(lambda: stream.ended, 'the end')
        stream.send_trailers(('grpc-status', '0'))
    bench.script(script)
    web = bench.connect()
    web.send_head('/a.B/C', ('transfer-encoding', 'chunked'))
    for count in range(3):
        web.send_chunk(message(b'%d' % count))
        if count == 0:
            web.read_head()  # the upstream hears of a page's call with the first message
        assert web.read_chunk() == message(b'%d' % count)
    web.end()
    assert messages_of(web.read_chunk())[0][0] == 0x80


def early_status(bench):
    """A status before the request has ended is flushed before the connection goes."""
    bench.script(lambda stream: stream.send_headers(('grpc-status', '8'), ended=True))
    web = bench.connect()
    web.send_head('/a.B/C', ('transfer-encoding', 'chunked'))
    web.send_chunk(message(b'x'))
    reply = web.read_reply()
    assert reply.grpc_status() == 8

    def after_one(stream):
        stream.wait(lambda: stream.body, 'a message')
        stream.send_headers()
        stream.send(message(b'y'))
        stream.send_trailers(('grpc-status', '9'))
    bench.script(after_one)
    web = bench.connect()
    web.send_head('/a.B/C', ('transfer-encoding', 'chunked'))
    web.send_chunk(message(b'x'))
    reply = web.read_reply()
    assert messages_of(reply.body)[0] == (0, b'y') and reply.grpc_status() == 9


def gone_client(bench):
    """A client that goes away cancels the call behind, in mid-stream and before any answer."""
    def endless(stream):
        stream.send_headers()
        stream.send(message(b'1'))
    for script in (endless, lambda stream: None):
        bench.script(script)
        web = bench.connect()
        web.send_head('/a.B/C', ('content-length', '5'))
        web.sock.sendall(message(b''))
        stream = bench.upstream.next_stream()
        if script is endless:
            web.read_head()
            web.read_chunk()
        web.close()
        stream.wait(lambda: stream.reset is not None, 'a reset')
        assert stream.reset == 8, stream.reset


def deadline(bench):
    """The deadline goes along, and ends both sides."""
    bench.script(lambda stream: None)
    reply = bench.connect().call(message(b''), ('grpc-timeout', '300m'))
    assert reply.grpc_status() == 4, reply.fields
    stream = bench.upstream.next_stream()
    stream.wait(lambda: stream.reset is not None, 'a reset')
    told = stream.header('grpc-timeout')[0]
    left = int(told[:-1]) / {'m': 1e3, 'u': 1e6, 'n': 1e9}[told[-1]]
    assert 0.1 < left <= 0.3, told
    reply = bench.connect().call(message(b''), ('grpc-timeout', '3 m'))
    assert reply.grpc_status() == 13


def other_answers(bench):
    """What an upstream answers that is no gRPC becomes a status."""
    def page(status, content_type='text/html'):
        def script(stream):
            stream.send_headers(status=status, content_type=content_type)
            stream.send(b'<h1>oh</h1>')
            stream.connection.do(lambda c: c.end_stream(stream.number))
        return script

    def no_status(stream):
        stream.send_headers()
        stream.send_trailers(('x-a', 'b'))

    def ending(*fields, trailers=()):
        def script(stream):
            stream.send_headers(*fields)
            stream.send(message(b'a'))
            stream.send_trailers(('grpc-status', '0'), *trailers)
        return script
    for script, code in ((page('503'), 14), (page('502'), 14), (page('429'), 14), (page('404'), 12),
                         (page('401'), 16), (page('403'), 7), (page('400'), 13), (page('500'), 2),
                         (page('200'), 2), (page('200', 'application/grpc-web'), 2), (no_status, 2),
                         (lambda s: s.send_reset(2), 13), (lambda s: s.send_reset(8), 1),
                         (lambda s: s.send_reset(11), 8),
                         (ending(('content-length', '5')), 13), (ending(('content-length', '7')), 13),
                         (ending(trailers=[('x-a', 'b\r\nc')]), 13), (ending(trailers=[('X', '1')]), 13),
                         (ending(trailers=[(f'x-{i}', 'b' * 1000) for i in range(70)]), 8)):
        bench.script(script)
        reply = bench.connect().call(message(b''))
        assert reply.status == 200 and reply.grpc_status() == code, (code, reply.fields)
        assert b'<h1>' not in reply.body


def limits(bench):
    """A message above the limit is refused at its head, either way."""
    bench.script(lambda stream: stream.reply(b'x' * 1001))
    assert bench.connect().call(message(b'')).grpc_status() == 8
    bench.script(lambda stream: stream.reply(b'x' * 1000))
    assert bench.connect().call(message(b'')).grpc_status() == 0
    bench.script(echo_when_ended)
    web = bench.connect()
    web.send_head('/a.B/C', ('content-length', '4000000'))
    web.sock.sendall(b'\0\xff\xff\xff\xff')
    assert web.read_reply().grpc_status() == 8
    reply = bench.connect().call(message(b''), ('x-long', 'x' * 9000))
    assert reply.grpc_status() == 8


def watchers(bench):
    """Calls that go on take no place of others, although the upstream allows 100 on a connection."""
    enough = threading.Event()

    def watch(stream):
        if not stream.header('x-watch'):
            stream.reply(b'hello')
            return
        stream.send_headers()
        stream.send(message(b'1'))
        enough.wait(peers.WAIT)
        stream.send_trailers(('grpc-status', '0'))
    bench.script(watch)
    before = len(bench.upstream.connections)
    watching = []
    for _ in range(250):
        web = bench.connect()
        web.send_head('/a.B/Watch', ('content-length', '5'), ('x-watch', '1'))
        web.sock.sendall(message(b''))
        watching.append(web)
    for web in watching:
        web.read_head()
        assert web.read_chunk() == message(b'1')
    assert len(bench.upstream.connections) == before + 2, len(bench.upstream.connections)
    reply = bench.connect().call(message(b''))
    assert messages_of(reply.body)[0] == (0, b'hello') and reply.grpc_status() == 0
    enough.set()
    for web in watching:
        assert b'grpc-status: 0' in web.read_chunk().replace(b'status:0', b'status: 0')
    assert all(connection.h2.remote_settings.initial_window_size == 65536
               for connection in bench.upstream.connections), 'what one that does not read may hold'


def no_calls(bench):
    """What is no call gets a complete answer, and the connection goes on."""
    web = bench.connect()
    assert web.get('/').status == 405
    assert web.call(b'{}', content_type='application/json').status == 415
    reply = web.call(message(b''), content_type='application/grpc')
    assert reply.status == 505, reply.status
    bench.script(lambda stream: stream.reply(b''))
    assert web.call(message(b'')).grpc_status() == 0


def main():
    bench = Bench(sys.argv[1])
    code = peers.run([
        text_in_pieces, padding_within, bad_text, accept_chooses, trailers_only,
        status_behind_messages, no_compression_unasked, compression_asked_for,
        refused_compression, cut_frame_heads, cut_request, cut_response, content_length,
        binary_values, request_fields, preflight, incremental, both_ways_at_once, early_status,
        gone_client, deadline, other_answers, limits, watchers, no_calls], bench)
    if bench.gateway.stop() != 0 or bench.upstream.problems:
        print('\n'.join(bench.upstream.problems), file=sys.stderr)
        code = 1
    for line in bench.gateway.said:
        print(line, file=sys.stderr)
    return code


if __name__ == '__main__':
    sys.exit(main())
