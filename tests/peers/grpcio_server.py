#!/usr/bin/python3
"""peers.Echo on grpcio, replies compressed: grpcio_server.py --listen ADDRESS."""
import concurrent.futures
import signal
import sys
import threading
import time

import grpc

from peers_pb2 import Reply, Request


class Call:
    """One call: what it saw is part of each reply."""

    def __init__(self, context):
        self.context = context
        left = context.time_remaining()
        # Without a deadline grpcio's time is some hundred years.
        self.time_left = -1 if left is None or left > 1e8 else int(left * 1000)
        self.metadata = context.invocation_metadata()
        self.messages = 0
        context.send_initial_metadata([('x-head', v) for v in self.values('x-user')])
        context.set_trailing_metadata([('x-tail-bin', v) for v in self.values('x-data-bin')])

    def values(self, key):
        return [value for name, value in self.metadata if name == key]

    def take(self, request):
        self.messages += 1
        if request.sleep_ms:
            time.sleep(request.sleep_ms / 1000)
        if request.code:
            code = next(c for c in grpc.StatusCode if c.value[0] == request.code)
            self.context.abort(code, request.text)

    def reply(self, text):
        return Reply(text=text, messages=self.messages, time_left_ms=self.time_left,
                     user=self.values('x-user'), data=self.values('x-data-bin'))


def unary(request, context):
    call = Call(context)
    call.take(request)
    return call.reply(request.text)


def server_stream(request, context):
    call = Call(context)
    call.take(request)
    for _ in range(request.replies):
        yield call.reply(request.text)


def client_stream(requests, context):
    call = Call(context)
    texts = []
    for request in requests:
        call.take(request)
        texts.append(request.text)
    return call.reply(''.join(texts))


def chat(requests, context):
    call = Call(context)
    for request in requests:
        call.take(request)
        yield call.reply(request.text)


def main():
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(8),
                         compression=grpc.Compression.Gzip)
    codec = {'request_deserializer': Request.FromString,
             'response_serializer': Reply.SerializeToString}
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler('peers.Echo', {
        'Unary': grpc.unary_unary_rpc_method_handler(unary, **codec),
        'ServerStream': grpc.unary_stream_rpc_method_handler(server_stream, **codec),
        'ClientStream': grpc.stream_unary_rpc_method_handler(client_stream, **codec),
        'Chat': grpc.stream_stream_rpc_method_handler(chat, **codec)})])
    port = server.add_insecure_port(sys.argv[sys.argv.index('--listen') + 1])
    server.start()
    print(f'listening on 127.0.0.1:{port}', flush=True)
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    stop.wait()
    server.stop(5).wait()


if __name__ == '__main__':
    main()
