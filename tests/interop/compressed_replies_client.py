#!/usr/bin/python3
"""server_compressed_unary and server_compressed_streaming, which no client that Debian ships has.

compressed_replies_client.py ADDRESS: python3-h2 shows the compressed flag of each reply. TAP on stdout.
"""
import gzip
import socket
import struct
import sys
import traceback

import h2.config
import h2.connection
import h2.events

import messages_pb2

SERVICE = '/grpc.testing.TestService/'


def call(address, method, request, accept='gzip'):
    """All of a call's reply: [(flag, message bytes)], headers, trailers."""
    host, port = address.rsplit(':', 1)
    connection = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding='utf-8'))
    body, heads = b'', []
    with socket.create_connection((host.strip('[]'), int(port)), timeout=10) as sock:
        connection.initiate_connection()
        fields = [(':method', 'POST'), (':scheme', 'http'), (':path', SERVICE + method),
                  (':authority', address), ('te', 'trailers'), ('content-type', 'application/grpc')]
        if accept:
            fields.append(('grpc-accept-encoding', accept))
        connection.send_headers(1, fields)
        message = request.SerializeToString()
        connection.send_data(1, struct.pack('>BI', 0, len(message)) + message, end_stream=True)
        ended = False
        while not ended:
            sock.sendall(connection.data_to_send())
            received = sock.recv(65536)
            assert received, 'the server closed the connection'
            for event in connection.receive_data(received):
                if isinstance(event, h2.events.DataReceived):
                    body += event.data
                    connection.acknowledge_received_data(event.flow_controlled_length, 1)
                elif isinstance(event, (h2.events.ResponseReceived, h2.events.TrailersReceived)):
                    heads.append(dict(event.headers))
                elif isinstance(event, (h2.events.StreamEnded, h2.events.StreamReset)):
                    ended = True
    messages = []
    while body:
        flag, length = struct.unpack('>BI', body[:5])
        messages.append((flag, body[5:5 + length]))
        body = body[5 + length:]
    return messages, heads[0], heads[-1]


def same(got, wanted):
    assert got == wanted, f'got {got!r}, wanted {wanted!r}'


def check(messages, message_type, wanted):
    """`wanted`: (compressed, payload bytes) of each message."""
    same([flag for flag, _ in messages], [int(compressed) for compressed, _ in wanted])
    for (flag, data), (_, size) in zip(messages, wanted):
        reply = message_type.FromString(gzip.decompress(data) if flag else data)
        same(reply.payload.body, bytes(size))


def server_compressed_unary(address):
    for compressed in (True, False):
        request = messages_pb2.SimpleRequest(response_size=314159,
                                             response_compressed={'value': compressed})
        messages, head, trailers = call(address, 'UnaryCall', request)
        same(trailers['grpc-status'], '0')
        if compressed:
            same(head['grpc-encoding'], 'gzip')
        check(messages, messages_pb2.SimpleResponse, [(compressed, 314159)])


def server_compressed_streaming(address):
    request = messages_pb2.StreamingOutputCallRequest(response_parameters=[
        {'size': 31415, 'compressed': {'value': True}},
        {'size': 92653, 'compressed': {'value': False}},
        {'size': 27182, 'compressed': {'value': True}}])
    messages, head, trailers = call(address, 'StreamingOutputCall', request)
    same(trailers['grpc-status'], '0')
    same(head['grpc-encoding'], 'gzip')
    check(messages, messages_pb2.StreamingOutputCallResponse,
          [(True, 31415), (False, 92653), (True, 27182)])


def nothing_is_compressed_unasked(address):
    request = messages_pb2.StreamingOutputCallRequest(response_parameters=[
        {'size': 31415, 'compressed': {'value': True}}])
    for accept in (None, 'identity', 'snappy'):
        messages, _, trailers = call(address, 'StreamingOutputCall', request, accept)
        same(trailers['grpc-status'], '0')
        check(messages, messages_pb2.StreamingOutputCallResponse, [(False, 31415)])


def main():
    cases = [server_compressed_unary, server_compressed_streaming, nothing_is_compressed_unasked]
    failures = 0
    for number, case in enumerate(cases, 1):
        try:
            case(sys.argv[1])
            print(f'ok {number} - {case.__name__}', flush=True)
        except Exception:  # a case reports any failure and lets the next one run
            failures += 1
            print(f'not ok {number} - {case.__name__}', flush=True)
            traceback.print_exc()
    print(f'1..{len(cases)}')
    return failures != 0


if __name__ == '__main__':
    sys.exit(main())
