#!/usr/bin/python3
"""The server of greeter_cases.md on grpcio: shows that the clients ask for nothing strange."""
import concurrent.futures
import signal
import sys
import threading
import time

import grpc

from helloworld_pb2 import HelloReply, HelloRequest

INITIAL = 'x-grpc-test-echo-initial'
TRAILING = 'x-grpc-test-echo-trailing-bin'


def say_hello(request, context):
    metadata = context.invocation_metadata()
    values = dict(metadata)
    context.send_initial_metadata([(k, v) for k, v in metadata if k == INITIAL])
    trailers = [(k, v) for k, v in metadata if k == TRAILING]
    if 'test-details-bin' in values:
        trailers.append(('grpc-status-details-bin', values['test-details-bin']))
    context.set_trailing_metadata(trailers)
    time.sleep(int(values.get('test-delay-ms', 0)) / 1000)
    code = int(values.get('test-status', 0))
    if code:
        context.abort(next(c for c in grpc.StatusCode if c.value[0] == code), request.name)
    return HelloReply(message=f'Hello, {request.name}')


def main():
    address = sys.argv[sys.argv.index('--listen') + 1]
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(8))
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler('helloworld.Greeter', {
        'SayHello': grpc.unary_unary_rpc_method_handler(
            say_hello, HelloRequest.FromString, HelloReply.SerializeToString)})])
    port = server.add_insecure_port(address)
    server.start()
    print(f'listening on 127.0.0.1:{port}', flush=True)
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    stop.wait()
    server.stop(5).wait()


if __name__ == '__main__':
    main()
