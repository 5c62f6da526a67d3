#!/usr/bin/python3
"""Streams as frames: what no client library would send, and in which order frames come back.

frames_client.py ADDRESS, where interop-server listens. Frames are made and read with python3-h2.
TAP on stdout.
"""
import socket
import struct
import sys
import traceback

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.settings

import messages_pb2 as pb

SERVICE = '/grpc.testing.TestService/'
NO_ERROR = h2.errors.ErrorCodes.NO_ERROR


class Stream:
    """What came on a stream, in order."""

    def __init__(self):
        self.body = b''
        self.heads = []
        self.events = []  # 'head', 'data', 'trailers', 'end', 'reset'
        self.reset_code = None

    def status(self):
        return self.heads[-1].get('grpc-status') if self.heads else None

    def messages(self, message_type):
        found, body = [], self.body
        while body:
            flag, length = struct.unpack('>BI', body[:5])
            assert flag == 0 and len(body) >= 5 + length
            found.append(message_type.FromString(body[5:5 + length]))
            body = body[5 + length:]
        return found


class Peer:
    """A connection that opens windows only when it is told to."""

    def __init__(self, address, window=None, credit=True):
        host, port = address.rsplit(':', 1)
        self.socket = socket.create_connection((host.strip('[]'), int(port)), timeout=20)
        self.address = address
        self.credit = credit
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding='utf-8'))
        self.h2.initiate_connection()
        if window is not None:
            self.h2.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: window})
        self.streams = {}
        self.flush()

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.socket.close()

    def flush(self):
        self.socket.sendall(self.h2.data_to_send())

    def open(self, method):
        stream = self.h2.get_next_available_stream_id()
        self.h2.send_headers(stream, [
            (':method', 'POST'), (':scheme', 'http'), (':path', SERVICE + method),
            (':authority', self.address), ('te', 'trailers'), ('content-type', 'application/grpc')])
        self.streams[stream] = Stream()
        return stream

    def send(self, stream, data, end=False, padding=None):
        """All of it, as windows allow."""
        while True:
            room = min(self.h2.local_flow_control_window(stream), 16384 - 256)
            if padding is not None:
                room -= padding + 1
            piece, data = data[:max(room, 0)], data[max(room, 0):]
            if piece or not data:
                self.h2.send_data(stream, piece, end_stream=end and not data, pad_length=padding)
                self.flush()
            if not data:
                return
            if not piece:
                self.receive()

    def receive(self):
        data = self.socket.recv(65536)
        assert data, 'the server closed the connection'
        for event in self.h2.receive_data(data):
            stream = self.streams.get(getattr(event, 'stream_id', None))
            if isinstance(event, h2.events.DataReceived):
                stream.body += event.data
                stream.events.append('data')
                if self.credit:
                    self.h2.acknowledge_received_data(event.flow_controlled_length,
                                                      event.stream_id)
            elif isinstance(event, (h2.events.ResponseReceived, h2.events.TrailersReceived)):
                stream.heads.append(dict(event.headers))
                stream.events.append('trailers' if len(stream.heads) > 1 else 'head')
            elif isinstance(event, h2.events.StreamEnded):
                stream.events.append('end')
            elif isinstance(event, h2.events.StreamReset):
                stream.events.append('reset')
                stream.reset_code = event.error_code
            elif isinstance(event, h2.events.ConnectionTerminated):
                raise AssertionError(f'GOAWAY {event.error_code}')
        self.flush()

    def finish(self, stream):
        while 'end' not in self.streams[stream].events:
            self.receive()
        return self.streams[stream]


def framed(message):
    data = message.SerializeToString()
    return struct.pack('>BI', 0, len(data)) + data


def wanting(*sizes):
    return framed(pb.StreamingOutputCallRequest(response_parameters=[{'size': n} for n in sizes]))


def payload(size):
    return framed(pb.StreamingInputCallRequest(payload={'body': bytes(size)}))


def same(got, wanted):
    assert got == wanted, f'got {got!r}, wanted {wanted!r}'


def sizes_of(stream):
    return [len(m.payload.body) for m in stream.messages(pb.StreamingOutputCallResponse)]


def cut_anywhere(address):
    """a message whose prefix and body are cut into DATA frames anywhere, empty ones between"""
    with Peer(address) as peer:
        data = wanting(5)
        for cut in range(len(data) + 1):
            stream = peer.open('FullDuplexCall')
            peer.send(stream, data[:cut])
            peer.send(stream, b'')
            peer.send(stream, data[cut:], end=True)
            same(sizes_of(peer.finish(stream)), [5])
        stream = peer.open('FullDuplexCall')
        for byte in data * 3:
            peer.send(stream, bytes([byte]))
        peer.send(stream, b'', end=True)
        same(sizes_of(peer.finish(stream)), [5] * 3)


def padded(address):
    """padded and empty DATA frames"""
    with Peer(address) as peer:
        stream = peer.open('StreamingInputCall')
        for size in (0, 1, 1000, 70000):
            peer.send(stream, payload(size), padding=255)
            peer.send(stream, b'', padding=0)
        peer.send(stream, b'', end=True, padding=7)
        reply, = peer.finish(stream).messages(pb.StreamingInputCallResponse)
        same(reply.aggregated_payload_size, 71001)


def fifty_in_one(address):
    """50 messages in one DATA frame, with the end of the stream"""
    with Peer(address) as peer:
        stream = peer.open('FullDuplexCall')
        peer.send(stream, b''.join(wanting(n) for n in range(50)), end=True)
        same(sizes_of(peer.finish(stream)), list(range(50)))


def end_inside(address):
    """an end inside a prefix or a message is INTERNAL"""
    with Peer(address) as peer:
        data = wanting(5)
        for cut in (1, 4, 5, len(data) - 1):
            stream = peer.open('FullDuplexCall')
            peer.send(stream, data[:cut], end=True)
            same(peer.finish(stream).status(), '13')


def exact_window(address):
    """replies that fill the window exactly: the trailers follow without a WINDOW_UPDATE"""
    for total in (16384, 65535):
        with Peer(address, credit=False) as peer:
            stream = peer.open('StreamingOutputCall')
            size = total - 5 - 8  # prefix, tags and lengths of payload and body
            for guess in range(size - 8, size + 9):
                reply = pb.StreamingOutputCallResponse(payload={'body': bytes(guess)})
                if len(framed(reply)) == total:
                    size = guess
            peer.send(stream, wanting(size), end=True)
            got = peer.finish(stream)
            same(len(got.body), total)
            same(got.status(), '0')
            same(got.events[-2:], ['trailers', 'end'])


def trailers_behind_data(address):
    """trailers that are ready while DATA waits for the window come behind it"""
    with Peer(address, window=10, credit=False) as peer:
        stream = peer.open('StreamingOutputCall')
        peer.send(stream, wanting(20, 20), end=True)
        got = peer.streams[stream]
        while len(got.body) < 10:
            peer.receive()
        assert 'trailers' not in got.events
        peer.h2.increment_flow_control_window(1000, stream)
        peer.flush()
        peer.finish(stream)
        same(sizes_of(got), [20, 20])
        same(got.status(), '0')


def no_message(address):
    """a stream without a message, while the window is shut"""
    with Peer(address, window=0, credit=False) as peer:
        stream = peer.open('StreamingOutputCall')
        peer.send(stream, wanting(), end=True)
        got = peer.finish(stream)
        same((got.status(), got.body), ('0', b''))


def early_end(address):
    """a server that ends early sends its trailers, then RST_STREAM(NO_ERROR)"""
    with Peer(address) as peer:
        stream = peer.open('FullDuplexCall')
        peer.send(stream, wanting(5))
        refused = pb.StreamingOutputCallRequest(response_status={'code': 9, 'message': 'enough'})
        peer.send(stream, framed(refused))
        got = peer.finish(stream)
        while 'reset' not in got.events:
            peer.receive()
        same(got.events, ['head', 'data', 'trailers', 'end', 'reset'])
        same(got.reset_code, NO_ERROR)
        same((got.status(), sizes_of(got)), ('9', [5]))


def uploads_that_are_reset(address):
    """of 10 uploads at once half are reset mid-way, again and again; the others finish"""
    with Peer(address) as peer:
        part = payload(100_000)
        thrown_away = 0
        lasting = [peer.open('StreamingInputCall') for _ in range(5)]
        # Ten times the connection window of 8 MiB.
        while thrown_away < 10 * (8 << 20):
            stream = peer.open('HalfDuplexCall')
            for _ in range(9):
                peer.send(stream, part)
            peer.send(stream, part[:-100])
            thrown_away += 10 * len(part)
            peer.h2.reset_stream(stream, h2.errors.ErrorCodes.CANCEL)
            peer.flush()
            del peer.streams[stream]
        for stream in lasting:
            peer.send(stream, part * 3, end=True)
        for stream in lasting:
            reply, = peer.finish(stream).messages(pb.StreamingInputCallResponse)
            same(reply.aggregated_payload_size, 300_000)


CASES = [cut_anywhere, padded, fifty_in_one, end_inside, exact_window, trailers_behind_data,
         no_message, early_end, uploads_that_are_reset]


def main():
    failures = 0
    for number, case in enumerate(CASES, 1):
        try:
            case(sys.argv[1])
            print(f'ok {number} - {case.__doc__}', flush=True)
        except Exception:  # a case reports any failure and lets the next one run
            failures += 1
            print(f'not ok {number} - {case.__doc__}', flush=True)
            traceback.print_exc()
    print(f'1..{len(CASES)}')
    return failures != 0


if __name__ == '__main__':
    sys.exit(main())
