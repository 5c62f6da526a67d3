#!/usr/bin/python3
"""grpc.testing.TestService on grpcio, which compresses its replies: grpcio_server.py --listen ADDRESS.

It cannot see the compressed flag of a message, so it cannot answer the compression probes.
"""
import concurrent.futures
import os
import pathlib
import signal
import sys
import threading

import grpc

from servers import test_data
from messages_pb2 import (SimpleRequest, SimpleResponse, StreamingInputCallRequest,
                          StreamingInputCallResponse, StreamingOutputCallRequest,
                          StreamingOutputCallResponse)

INITIAL = 'x-grpc-test-echo-initial'
TRAILING = 'x-grpc-test-echo-trailing-bin'


def echo(context):
    metadata = context.invocation_metadata()
    context.send_initial_metadata([(k, v) for k, v in metadata if k == INITIAL])
    context.set_trailing_metadata([(k, v) for k, v in metadata if k == TRAILING])


def check_status(status, context):
    if status.code:
        context.abort(next(c for c in grpc.StatusCode if c.value[0] == status.code),
                      status.message)


def empty_call(request, context):
    echo(context)
    return b''


def unary_call(request, context):
    echo(context)
    check_status(request.response_status, context)
    reply = SimpleResponse()
    reply.payload.body = bytes(request.response_size)
    if request.fill_server_id:
        reply.server_id = f'grpcio-{os.getpid()}'
    return reply


def outputs(request):
    for wanted in request.response_parameters:
        reply = StreamingOutputCallResponse()
        reply.payload.body = bytes(wanted.size)
        yield reply


def streaming_output(request, context):
    echo(context)
    yield from outputs(request)


def streaming_input(requests, context):
    echo(context)
    return StreamingInputCallResponse(
        aggregated_payload_size=sum(len(r.payload.body) for r in requests))


def full_duplex(requests, context):
    echo(context)
    for request in requests:
        check_status(request.response_status, context)
        yield from outputs(request)


def as_is(message):
    return message


def add_port(server, address):
    if not test_data():
        return server.add_insecure_port(address)
    pair = [pathlib.Path(test_data(), 'server1' + end).read_bytes() for end in ('.key', '.pem')]
    return server.add_secure_port(address, grpc.ssl_server_credentials([tuple(pair)]))


def main():
    address = sys.argv[sys.argv.index('--listen') + 1]
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(8),
                         compression=grpc.Compression.Gzip)
    to_bytes = lambda message: message.SerializeToString()
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(
        'grpc.testing.TestService', {
            'EmptyCall': grpc.unary_unary_rpc_method_handler(empty_call, as_is, as_is),
            'UnaryCall': grpc.unary_unary_rpc_method_handler(
                unary_call, SimpleRequest.FromString, to_bytes),
            'StreamingOutputCall': grpc.unary_stream_rpc_method_handler(
                streaming_output, StreamingOutputCallRequest.FromString, to_bytes),
            'StreamingInputCall': grpc.stream_unary_rpc_method_handler(
                streaming_input, StreamingInputCallRequest.FromString, to_bytes),
            'FullDuplexCall': grpc.stream_stream_rpc_method_handler(
                full_duplex, StreamingOutputCallRequest.FromString, to_bytes)})])
    port = add_port(server, address)
    server.start()
    print(f'listening on 127.0.0.1:{port}', flush=True)
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    stop.wait()
    server.stop(5).wait()


if __name__ == '__main__':
    main()
