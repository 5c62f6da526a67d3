"""A relay between a client and a server that reads along: what each message over HTTP/2 looked like.

It tells what neither side shows to its program: the encoding that a head names, and the compressed
flag of each message.
"""
import socket
import struct
import threading

import hpack


class Direction:
    """One way of a connection: frames, field blocks and messages as they pass."""

    def __init__(self, preface):
        self.left = b''
        self.skip = preface  # bytes before the first frame
        self.decoder = hpack.Decoder()
        self.block = b''
        self.heads = {}     # stream -> fields of its first block
        self.bodies = {}    # stream -> bytes of DATA

    def feed(self, data):
        self.left += data
        skipped = min(self.skip, len(self.left))
        self.left, self.skip = self.left[skipped:], self.skip - skipped
        while len(self.left) >= 9:
            length = int.from_bytes(self.left[:3], 'big')
            if len(self.left) < 9 + length:
                return
            kind, flags, stream = struct.unpack('>BBI', self.left[3:9])
            self.frame(kind, flags, stream & 0x7fffffff, self.left[9:9 + length])
            self.left = self.left[9 + length:]

    def frame(self, kind, flags, stream, payload):
        if kind in (0, 1) and flags & 8:
            payload = payload[1:len(payload) - payload[0]]
        if kind == 1 and flags & 0x20:
            payload = payload[5:]
        if kind == 0:
            self.bodies[stream] = self.bodies.get(stream, b'') + payload
        elif kind in (1, 9):
            self.block += payload
            if flags & 4:
                fields = dict(self.decoder.decode(self.block))
                self.block = b''
                self.heads.setdefault(stream, fields)

    def messages(self, stream):
        """Of each message of the stream: flag and length."""
        body, found = self.bodies.get(stream, b''), []
        while len(body) >= 5:
            flag, length = struct.unpack('>BI', body[:5])
            found.append((flag, length))
            body = body[5 + length:]
        return found


class Relay:
    """Listens on the loopback; each connection is passed on to the server's port."""

    def __init__(self, port):
        self.port = port
        self.connections = []  # pairs of directions: from the client, from the server
        self.listener = socket.create_server(('127.0.0.1', 0))
        self.address = '127.0.0.1:%d' % self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            client, _ = self.listener.accept()
            server = socket.create_connection(('127.0.0.1', self.port))
            for sock in client, server:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            pair = Direction(24), Direction(0)
            self.connections.append(pair)
            for source, target, direction in (client, server, pair[0]), (server, client, pair[1]):
                threading.Thread(target=self.pump, args=(source, target, direction),
                                 daemon=True).start()

    @staticmethod
    def pump(source, target, direction):
        try:
            while data := source.recv(65536):
                direction.feed(data)
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def calls(self):
        """All streams: path, then heads and messages of both directions."""
        for requests, responses in self.connections:
            for stream, head in sorted(requests.heads.items()):
                yield (head[':path'], head, requests.messages(stream),
                       responses.heads.get(stream, {}), responses.messages(stream))
