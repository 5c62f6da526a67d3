#!/usr/bin/python3
"""Clients that mean harm, or might as well: hostile.py ADDRESS KIND COUNT.

Opens COUNT connections that misbehave in one way, prints a line `ready` once all have begun, and
goes on until its stdin ends. A connection that the server ends is opened again. KIND is one of

  half-open        nothing comes, or the beginning of a request and then nothing
  one-byte         a head or a body comes with one byte a second
  endless-headers  fields come without end, 64 KB a second
  never-reading    streams and large replies are asked for, and none is ever read
  resetting        streams are asked for and reset once they have begun, 25 a second

Used by hostile_client.py and by the benchmark `./dev bench hostile`. At its end it prints how many
connections it has opened.
"""
import heapq
import itertools
import selectors
import socket
import struct
import sys
import time

PATH = b'/helloworld.Greeter/'
STREAM = [(b'test-count', b'1000000')]  # of greeter_cases.md
SLOW_STREAM = [(b'test-delay-ms', b'60000')]


def frame(kind, flags, stream, payload):
    return struct.pack('>I', len(payload))[1:] + struct.pack('>BBI', kind, flags, stream) + payload


def fields(method, more):
    """A header block of a gRPC call, literals only."""
    block = b''
    for name, value in [(b':method', b'POST'), (b':scheme', b'http'), (b':path', PATH + method),
                        (b':authority', b'localhost'), (b'content-type', b'application/grpc'),
                        (b'te', b'trailers'), *more]:
        block += b'\0' + bytes([len(name)]) + name + bytes([len(value)]) + value
    return block


def message(name):
    length = len(name)
    size = b''
    while length > 127:
        size += bytes([length & 127 | 128])
        length >>= 7
    body = b'\x0a' + size + bytes([length]) + name
    return struct.pack('>BI', 0, len(body)) + body


# A client that would like to be sent as much as there is.
PREFACE = (b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n' + frame(4, 0, 0, struct.pack('>HI', 4, 2**31 - 1))
           + frame(8, 0, 0, struct.pack('>I', 2**31 - 1 - 65535)))
WEB_HEAD = (b'POST ' + PATH + b'%b HTTP/1.1\r\nhost: localhost\r\ncontent-type: '
            b'application/grpc-web+proto\r\n')
LARGE = message(b'x' * 100_000)


def half_open(number):
    """Nothing, or part of an HTTP/2 preface, of its settings, of an HTTP/1.1 head, of a body."""
    yield 0, (b'', PREFACE[:10], PREFACE[:30], WEB_HEAD[:20],
              WEB_HEAD % b'SayHello' + b'content-length: 100\r\n\r\n\0')[number % 5]


def one_byte(number):
    """Byte by byte: a head or a body, of HTTP/1.1 or HTTP/2."""
    block = fields(b'SayHello', [])
    begun, rest = ((b'', WEB_HEAD % b'SayHello' * 9),
                   (WEB_HEAD % b'SayHello' + b'content-length: 1000\r\n\r\n', message(b'x' * 900)),
                   (PREFACE, frame(1, 4, 1, block)),
                   (PREFACE + frame(1, 4, 1, block), frame(0, 0, 1, message(b'x' * 900))))[number % 4]
    yield 0, begun
    for byte in rest:
        yield 1, bytes([byte])


def endless_headers(number):
    """Fields of HTTP/1.1; a block of HTTP/2 that goes on in CONTINUATION frames."""
    if number % 2 == 0:
        yield 0, WEB_HEAD % b'SayHello'
        for i in itertools.count():
            yield 1 / 64, b''.join(b'field-%d-%d: x\r\n' % (i, k) for k in range(64))
    yield 0, PREFACE + frame(1, 0, 1, fields(b'SayHello', []))
    while True:
        yield 1 / 64, frame(9, 0, 1, fields(b'x', [(b'field', b'x' * 120)] * 6))


def never_reading(number):
    """Large replies one behind the other, and streams side by side."""
    if number % 2 == 0:
        head = WEB_HEAD % b'SayHello' + b'content-length: %d\r\n\r\n' % len(LARGE)
        for _ in range(100):
            yield 0, head + LARGE
    else:
        yield 0, PREFACE
        for stream in range(1, 101, 2):
            yield 0, (frame(1, 4, stream, fields(b'ItKeepsReplying', STREAM))
                      + b''.join(frame(0, 0, stream, LARGE[at:at + 16384])
                                 for at in range(0, len(LARGE), 16384))
                      + frame(0, 1, stream, b''))


def resetting(number):
    """Calls that begin and are reset: in all more than a server takes of one connection for long."""
    yield 0, PREFACE
    for stream in itertools.count(1, 2):
        yield 0, (frame(1, 4, stream, fields(b'ItKeepsReplying', SLOW_STREAM))
                  + frame(0, 1, stream, message(b'x')))
        yield 1 / 25, frame(3, 0, stream, struct.pack('>I', 8))


class Connection:
    """What it sends comes from a generator of (seconds to wait, bytes)."""

    def __init__(self, hostiles, number):
        self.hostiles = hostiles
        self.script = hostiles.kind(number)
        self.number = number
        self.rest = b''
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        if not hostiles.reads:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        # Ends in a reset: nothing of it stays behind on the machine.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
        self.socket.connect(hostiles.address)
        self.socket.setblocking(False)
        self.events = 0

    def watch(self, events):
        """Who reads nothing must not be woken by what there is to read."""
        if not self.hostiles.reads:
            events &= ~selectors.EVENT_READ
        if events == self.events:
            return
        if not self.events:
            self.hostiles.selector.register(self.socket, events, self)
        elif events:
            self.hostiles.selector.modify(self.socket, events, self)
        else:
            self.hostiles.selector.unregister(self.socket)
        self.events = events

    def send(self):
        """As much as the script and the socket give; ValueError where the server has gone."""
        while True:
            if not self.rest:
                wait, self.rest = next(self.script, (None, b''))
                if wait is None:
                    return self.watch(selectors.EVENT_READ)
                if wait > 0:
                    self.hostiles.later(wait, self)
                    return self.watch(selectors.EVENT_READ)
            try:
                while self.rest:
                    self.rest = self.rest[self.socket.send(self.rest):]
            except BlockingIOError:
                return self.watch(selectors.EVENT_READ | selectors.EVENT_WRITE)

    def on_event(self, events):
        if events & selectors.EVENT_READ and not self.socket.recv(65536):
            raise ConnectionResetError
        if events & selectors.EVENT_WRITE:
            self.send()

    def close(self):
        self.watch(0)
        self.socket.close()


class Hostiles:
    def __init__(self, address, kind):
        host, _, port = address.rpartition(':')
        self.address = (host, int(port))
        self.kind = {'half-open': half_open, 'one-byte': one_byte,
                     'endless-headers': endless_headers, 'never-reading': never_reading,
                     'resetting': resetting}[kind]
        self.reads = kind != 'never-reading'
        self.selector = selectors.DefaultSelector()
        self.timers = []
        self.order = itertools.count()
        self.opened = 0

    def later(self, seconds, connection):
        heapq.heappush(self.timers, (time.monotonic() + seconds, next(self.order), connection))

    def attempt(self, connection, action, *arguments):
        try:
            action(*arguments)
        except (ConnectionError, OSError):
            connection.close()
            self.open(connection.number)

    def open(self, number):
        self.opened += 1
        connection = Connection(self, number)
        self.attempt(connection, connection.send)

    def run(self, count):
        for number in range(count):
            self.open(number)
        print('ready', flush=True)
        self.selector.register(sys.stdin, selectors.EVENT_READ, None)
        while True:
            left = self.timers[0][0] - time.monotonic() if self.timers else None
            for key, events in self.selector.select(left if left is None else max(left, 0)):
                if key.data is None:
                    return
                self.attempt(key.data, key.data.on_event, events)
            now = time.monotonic()
            while self.timers and self.timers[0][0] <= now:
                connection = heapq.heappop(self.timers)[2]
                if connection.socket.fileno() >= 0:
                    self.attempt(connection, connection.send)


def main():
    hostiles = Hostiles(sys.argv[1], sys.argv[2])
    hostiles.run(int(sys.argv[3]))
    print(f'{hostiles.opened} connections opened', flush=True)


if __name__ == '__main__':
    main()
