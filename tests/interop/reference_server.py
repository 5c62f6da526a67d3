#!/usr/bin/python3
"""The server of greeter_cases.md on grpcio: shows that the clients ask for nothing strange."""
import concurrent.futures
import signal
import sys
import threading

import grpc

from helloworld_pb2 import HelloReply, HelloRequest

INITIAL = 'x-grpc-test-echo-initial'
TRAILING = 'x-grpc-test-echo-trailing-bin'


class Named:
    """What calls tell about another one of that name; `changed` guards all of them."""
    changed = threading.Condition()
    all = {}

    def __init__(self):
        self.state = 'unknown'
        self.opened = 0

    @classmethod
    def get(cls, name):
        with cls.changed:
            return cls.all.setdefault(name, Named())


class Call:
    """One call: its metadata, what it has to wait for, and how it ends."""

    def __init__(self, context):
        self.context = context
        self.metadata = context.invocation_metadata()
        self.values = dict(self.metadata)
        self.named = Named.get(self.values['test-name']) if 'test-name' in self.values else Named()
        self.named.state = 'running'
        self.over = threading.Event()
        if not context.add_callback(self.on_end):
            self.on_end()
        self.code = int(self.values.get('test-status', 0))
        context.send_initial_metadata([(k, v) for k, v in self.metadata if k == INITIAL])
        trailers = [(k, v) for k, v in self.metadata if k == TRAILING]
        if 'test-details-bin' in self.values:
            trailers.append(('grpc-status-details-bin', self.values['test-details-bin']))
        context.set_trailing_metadata(trailers)

    def on_end(self):
        with Named.changed:
            if self.named.state == 'running':
                self.named.state = 'cancelled'
            self.over.set()
            Named.changed.notify_all()

    def delay(self):
        self.over.wait(int(self.values.get('test-delay-ms', 0)) / 1000)

    def pass_gate(self):
        """False: the call was over before the gate was opened."""
        gate = Named.get(self.values['test-gate'])
        with Named.changed:
            Named.changed.wait_for(lambda: gate.opened > 0 or self.over.is_set())
            gate.opened -= 1
        return not self.over.is_set()

    def end(self, text):
        if not self.over.is_set():
            self.named.state = 'ended'
        if self.code:
            self.context.abort(next(c for c in grpc.StatusCode if c.value[0] == self.code), text)


def say_hello(request, context):
    call = Call(context)
    if 'test-open' in call.values:
        gate = Named.get(call.values['test-open'])
        with Named.changed:
            gate.opened += 1
            Named.changed.notify_all()
    call.delay()
    call.end(request.name)
    if 'test-how' in call.values:
        return HelloReply(message=Named.get(call.values['test-how']).state)
    return HelloReply(message=f'Hello, {request.name}')


def it_keeps_replying(request, context):
    call = Call(context)
    for sent in range(int(call.values.get('test-count', 3))):
        if sent > 0 and 'test-gate' in call.values and not call.pass_gate():
            return
        call.delay()
        yield HelloReply(message=request.name)
    call.end(request.name)


def main():
    address = sys.argv[sys.argv.index('--listen') + 1]
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(8))
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler('helloworld.Greeter', {
        'SayHello': grpc.unary_unary_rpc_method_handler(
            say_hello, HelloRequest.FromString, HelloReply.SerializeToString),
        'ItKeepsReplying': grpc.unary_stream_rpc_method_handler(
            it_keeps_replying, HelloRequest.FromString, HelloReply.SerializeToString)})])
    port = server.add_insecure_port(address)
    server.start()
    print(f'listening on 127.0.0.1:{port}', flush=True)
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    stop.wait()
    server.stop(5).wait()


if __name__ == '__main__':
    main()
