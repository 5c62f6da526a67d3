#!/usr/bin/python3
"""The gateway's static files where they are large: whole, for clients that do not read, and changed
under way; over both HTTP versions.

usage: files.py GATEWAY. TAP on stdout.
"""
import os
import pathlib
import random
import resource
import socket
import sys
import tempfile
import time

import h2.config
import h2.connection
import h2.events

import peers
from peers import Gateway, Upstream, message

PROGRAM = [sys.argv[1]]
SIZE = 20 << 20
INTERNAL_ERROR = 2


def same(got, wanted):
    assert got == wanted, f'got {str(got)[:200]}, wanted {str(wanted)[:200]}'


class Two:
    """A client of HTTP/2 that reads when it is told to."""

    def __init__(self, address):
        host, port = address.rsplit(':', 1)
        self.sock = socket.create_connection((host, int(port)), timeout=peers.WAIT)
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding='utf-8'))
        self.h2.initiate_connection()
        self.h2.increment_flow_control_window(1 << 30)
        self.bodies, self.heads, self.ended, self.resets = {}, {}, set(), {}

    def ask(self, path, method='GET'):
        stream = self.h2.get_next_available_stream_id()
        self.h2.send_headers(stream, [(':method', method), (':path', path), (':scheme', 'http'),
                                      (':authority', 'gateway.test')], end_stream=True)
        self.bodies[stream] = bytearray()
        self.sock.sendall(self.h2.data_to_send())
        return stream

    def read(self, stream):
        """To the end of the stream."""
        while stream not in self.ended and stream not in self.resets:
            data = self.sock.recv(1 << 20)
            assert data, 'the connection ends'
            for event in self.h2.receive_data(data):
                if isinstance(event, h2.events.ResponseReceived):
                    self.heads[event.stream_id] = dict(event.headers)
                elif isinstance(event, h2.events.DataReceived):
                    self.bodies[event.stream_id] += event.data
                    self.h2.acknowledge_received_data(event.flow_controlled_length,
                                                      event.stream_id)
                elif isinstance(event, h2.events.StreamEnded):
                    self.ended.add(event.stream_id)
                elif isinstance(event, h2.events.StreamReset):
                    self.resets[event.stream_id] = event.error_code
            self.sock.sendall(self.h2.data_to_send())


def whole(folder, page, contents):
    """A large file comes whole over HTTP/1.1 and HTTP/2, and HEAD tells its length."""
    gateway = Gateway(PROGRAM, '--upstream=127.0.0.1:1', f'--static={page}')
    web = gateway.connect()
    for _ in range(2):  # the connection serves another request
        reply = web.get('/large.bin')
        same((reply.status, reply.field('content-length')), (200, [str(SIZE)]))
        same(reply.body, contents)
    reply = web.get('/large.bin', method='HEAD')
    same((reply.status, reply.field('content-length')), (200, [str(SIZE)]))
    same(web.get('/empty').field('content-length'), ['0'])
    same(web.get('/small').body, b'small')
    two = Two(gateway.address)
    head, empty = two.ask('/large.bin', 'HEAD'), two.ask('/empty')
    first, second = two.ask('/large.bin'), two.ask('/large.bin')
    for stream in head, empty, first, second:
        two.read(stream)
    same(two.resets, {})
    same((two.heads[head][':status'], two.heads[head]['content-length']), ('200', str(SIZE)))
    same((bytes(two.bodies[head]), bytes(two.bodies[empty])), (b'', b''))
    same(two.heads[first]['content-length'], str(SIZE))
    same(bytes(two.bodies[first]), contents)
    same(bytes(two.bodies[second]), contents)
    same(gateway.stop(), 0)


def old_client(folder, page, contents):
    """A client of HTTP/1.0 is told the length as well."""
    gateway = Gateway(PROGRAM, '--upstream=127.0.0.1:1', f'--static={page}')
    web = gateway.connect()
    web.sock.sendall(b'GET /large.bin HTTP/1.0\r\n\r\n')
    reply = web.read_reply()
    same((reply.status, reply.field('content-length'), reply.field('transfer-encoding')),
         (200, [str(SIZE)], []))
    same(reply.body, contents)
    same(web.sock.recv(1), b'')
    same(gateway.stop(), 0)


def resident(gateway):
    for line in pathlib.Path(f'/proc/{gateway.process.pid}/status').read_text().splitlines():
        if line.startswith('VmRSS'):
            return int(line.split()[1]) * 1024
    raise AssertionError('no VmRSS')


def descriptors(gateway):
    return len(os.listdir(f'/proc/{gateway.process.pid}/fd'))


def unread(folder, page, contents):
    """Clients that do not read large files cost little memory, and calls go on beside them."""
    upstream = Upstream()
    gateway = Gateway(PROGRAM, f'--upstream={upstream.address}', f'--static={page}')
    caller = gateway.connect()
    same(caller.call(message(b'')).grpc_status(), 0)
    memory, files = resident(gateway), descriptors(gateway)
    clients = [gateway.connect() for _ in range(60)]
    for web in clients:
        web.send_head('/large.bin', method='GET', content_type=None)
    two = Two(gateway.address)
    streams = [two.ask('/large.bin') for _ in range(60)]
    limit = time.monotonic() + peers.WAIT
    while descriptors(gateway) < files + 60 + 1 + 120:  # connections, files
        assert time.monotonic() < limit, (descriptors(gateway), files)
        time.sleep(0.01)
    time.sleep(0.3)
    for _ in range(5):
        same(caller.call(message(b'')).grpc_status(), 0)
    grown = resident(gateway) - memory
    assert grown < 40 << 20, f'{grown} bytes for 120 files of {SIZE}'
    # One of each goes on, the others' windows stay shut, and at last they go away.
    two.h2.increment_flow_control_window(1 << 29, streams[0])
    two.sock.sendall(two.h2.data_to_send())
    clients[0].sock.settimeout(peers.WAIT)
    same(clients[0].read_reply().body, contents)
    two.read(streams[0])
    same(bytes(two.bodies[streams[0]]), contents)
    two.sock.close()
    for web in clients:
        web.close()
    limit = time.monotonic() + peers.WAIT
    while descriptors(gateway) > files:
        assert time.monotonic() < limit, (descriptors(gateway), files)
        time.sleep(0.01)
    same(caller.call(message(b'')).grpc_status(), 0)
    same(gateway.stop(), 0)
    same(upstream.problems, [])
    upstream.close()


def shrink(file):
    os.truncate(file, SIZE // 2)


def rewrite(file):
    with open(file, 'r+b') as out:
        out.seek(SIZE - 1000)
        out.write(b'x' * 1000)


def changed(folder, page, contents):
    """A file that shrinks or is rewritten under way breaks off; one that vanishes comes whole."""
    gateway = Gateway(PROGRAM, '--upstream=127.0.0.1:1', f'--static={page}')
    file = page / 'moving.bin'
    for change in shrink, rewrite, os.unlink:
        file.write_bytes(contents)
        web = gateway.connect()
        web.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        web.send_head('/moving.bin', method='GET', content_type=None)
        same(web.read_head().status, 200)
        two = Two(gateway.address)
        stream = two.ask('/moving.bin')
        web.read_exactly(1000)
        while not two.bodies[stream]:
            for event in two.h2.receive_data(two.sock.recv(65536)):
                if isinstance(event, h2.events.DataReceived):
                    two.bodies[stream] += event.data
                    two.h2.acknowledge_received_data(event.flow_controlled_length, stream)
        change(file)
        two.sock.sendall(two.h2.data_to_send())
        two.read(stream)
        came = bytes(two.bodies[stream])
        if change is os.unlink:
            same(web.read_exactly(SIZE - 1000), contents[1000:])
            same(came, contents)
        else:
            try:
                web.read_exactly(SIZE - 1000)
                raise AssertionError('it came whole')
            except EOFError as cut:
                assert len(cut.args[0]) < SIZE - 1000
            same(two.resets, {stream: INTERNAL_ERROR})
            assert len(came) < SIZE
        web.close()
        two.sock.close()
    same(gateway.stop(), 0)


def few_descriptors(folder, page, contents):
    """Files that wait take a quarter of the descriptors and leave the rest to calls."""
    upstream = Upstream()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (80, hard))
    try:
        gateway = Gateway(PROGRAM, f'--upstream={upstream.address}', f'--static={page}')
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    two = Two(gateway.address)
    streams = [two.ask('/large.bin') for _ in range(30)]
    two.read(streams[-1])
    same(two.heads[streams[-1]][':status'], '503')
    same(len([s for s in streams if s in two.ended]), 10)
    web = gateway.connect()
    same(web.get('/large.bin').status, 503)
    same(web.call(message(b'')).grpc_status(), 0)
    two.sock.close()
    limit = time.monotonic() + peers.WAIT
    while web.get('/large.bin', method='HEAD').status != 200:
        assert time.monotonic() < limit, 'nothing is given back'
    same(web.get('/large.bin').body, contents)
    same(gateway.stop(), 0)
    upstream.close()


def main():
    contents = random.Random(1).randbytes(SIZE)
    with tempfile.TemporaryDirectory() as folder:
        page = pathlib.Path(folder) / 'page'
        page.mkdir()
        (page / 'large.bin').write_bytes(contents)
        (page / 'empty').write_bytes(b'')
        (page / 'small').write_bytes(b'small')
        cases = [whole, old_client, unread, changed, few_descriptors]
        return peers.run(cases, pathlib.Path(folder), page, contents)


if __name__ == '__main__':
    sys.exit(main())
