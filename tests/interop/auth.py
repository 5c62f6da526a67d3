#!/usr/bin/python3
"""Tokens, both ways with grpcio: examples/auth as a user runs it, and the plain call of examples/.

usage: auth.py AUTH-SERVER AUTH-CLIENT CALL CERTIFICATES. TAP on stdout.
"""
import concurrent.futures
import pathlib
import subprocess
import sys
import tempfile

import grpc

from helloworld_pb2 import HelloReply, HelloRequest
from servers import Server

AUTH_SERVER, AUTH_CLIENT, CALL, CERTIFICATES = sys.argv[1:5]
SERVICE = '/helloworld.Greeter/'
RIGHT = [('authorization', 'Bearer tea-leaf-1')]
MISSING = 'a token is wanted: authorization: Bearer ...'
WRONGS = [([('authorization', 'Bearer tea-leaf-3')], 'the token is not known'),
          ([('authorization', 'Bearer ' + 'x' * 2000)], 'the token is not known'),
          ([], MISSING),
          ([('x-authorization', 'Bearer tea-leaf-1')], MISSING),
          ([('authorization', 'Basic tea-leaf-1')], 'the authorization is no bearer token'),
          ([('authorization', 'Bearer')], 'the authorization is no bearer token'),
          ([('authorization', '')], 'the authorization is no bearer token')]


def same(got, wanted):
    assert got == wanted, f'got {got!r}, wanted {wanted!r}'


def channel_to(address, credentials=None):
    options = [('grpc.enable_http_proxy', 0), ('grpc.use_local_subchannel_pool', 1)]
    return grpc.secure_channel(address, credentials, options) if credentials else \
        grpc.insecure_channel(address, options=options)


def say_hello(channel, metadata):
    method = channel.unary_unary(SERVICE + 'SayHello', HelloRequest.SerializeToString,
                                 HelloReply.FromString)
    return method(HelloRequest(name='Ann'), timeout=20, metadata=metadata).message


def stream_hellos(channel, metadata):
    method = channel.stream_stream(SERVICE + 'StreamHellos', HelloRequest.SerializeToString,
                                   HelloReply.FromString)
    names = iter([HelloRequest(name='Ann'), HelloRequest(name='Bo')])
    return [reply.message for reply in method(names, timeout=20, metadata=metadata)]


def refused(call, channel, metadata):
    try:
        call(channel, metadata)
    except grpc.RpcError as error:
        return error.code(), error.details()
    return None


def right_tokens():
    """grpcio with a right token is served, and its name told, unary and streaming"""
    with channel_to(auth.address) as channel:
        same(say_hello(channel, RIGHT), 'Hello, Ann, from alice')
        same(say_hello(channel, [('authorization', 'bearer tea-leaf-2')]), 'Hello, Ann, from bob')
        same(stream_hellos(channel, RIGHT), ['Hello, Ann, from alice', 'Hello, Bo, from alice'])


def wrong_tokens():
    """grpcio with a wrong token or none gets UNAUTHENTICATED and is told why"""
    with channel_to(auth.address) as channel:
        for metadata, message in WRONGS:
            for call in (say_hello, stream_hellos):
                same(refused(call, channel, metadata), (grpc.StatusCode.UNAUTHENTICATED, message))
        same(say_hello(channel, RIGHT), 'Hello, Ann, from alice')


def call_credentials():
    """grpcio's call credentials, which want TLS, are understood"""
    server = Server([AUTH_SERVER, '--tls-cert', CERTIFICATES + '/chain.pem', '--tls-key',
                     CERTIFICATES + '/chain.key'])
    try:
        root = grpc.ssl_channel_credentials(pathlib.Path(CERTIFICATES, 'ca.pem').read_bytes())
        for token, wanted in (('tea-leaf-2', 'Hello, Ann, from bob'),
                              ('x', (grpc.StatusCode.UNAUTHENTICATED, 'the token is not known'))):
            both = grpc.composite_channel_credentials(root,
                                                      grpc.access_token_call_credentials(token))
            with channel_to(f'localhost:{server.port}', both) as channel:
                got = refused(say_hello, channel, None) or say_hello(channel, None)
                same(got, wanted)
    finally:
        server.process.kill()
        server.process.wait()


def many_at_once():
    """two hundred calls at once are told apart"""
    with channel_to(auth.address) as channel, \
            concurrent.futures.ThreadPoolExecutor(32) as pool:
        tokens = [RIGHT, [('authorization', 'Bearer tea-leaf-2')], WRONGS[0][0]] * 67
        wanted = ['Hello, Ann, from alice', 'Hello, Ann, from bob', None] * 67

        def one(metadata):
            return None if refused(say_hello, channel, metadata) else say_hello(channel, metadata)
        same(list(pool.map(one, tokens)), wanted)


class Checker(grpc.ServerInterceptor):
    """A server of grpcio's that wants tea-leaf-1."""

    def intercept_service(self, continuation, details):
        tokens = [value for key, value in details.invocation_metadata if key == 'authorization']
        handler = continuation(details)
        if tokens == ['Bearer tea-leaf-1']:
            return handler

        def abort(_, context):
            context.abort(grpc.StatusCode.UNAUTHENTICATED, f'{len(tokens)} tokens, not right')
        if handler.request_streaming:
            return grpc.stream_stream_rpc_method_handler(abort)
        return grpc.unary_unary_rpc_method_handler(abort)


def greeter_of_grpcio():
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(4), interceptors=[Checker()])
    methods = {
        'SayHello': grpc.unary_unary_rpc_method_handler(
            lambda request, context: HelloReply(message='Hi, ' + request.name),
            HelloRequest.FromString, HelloReply.SerializeToString),
        'StreamHellos': grpc.stream_stream_rpc_method_handler(
            lambda requests, context: (HelloReply(message='Hi, ' + r.name) for r in requests),
            HelloRequest.FromString, HelloReply.SerializeToString)}
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler('helloworld.Greeter', methods),))
    port = server.add_insecure_port('127.0.0.1:0')
    server.start()
    return server, f'127.0.0.1:{port}'


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout, done.stderr


def own_client():
    """the client attaches its token, to grpcio's server and to pekoe's"""
    server, address = greeter_of_grpcio()
    try:
        with tempfile.TemporaryDirectory() as folder:
            right, wrong = pathlib.Path(folder, 'right'), pathlib.Path(folder, 'wrong')
            right.write_text('tea-leaf-1\n')
            wrong.write_text('tea-leaf-9')
            same(run(AUTH_CLIENT, address, str(right), 'Ann', 'Bo'),
                 (0, 'Hi, Ann\nHi, Bo\nHi, Ann\nHi, Bo\n', ''))
            same(run(AUTH_CLIENT, address, str(wrong), 'Ann'),
                 (16, '', 'UNAUTHENTICATED: 1 tokens, not right\n'))
            same(run(AUTH_CLIENT, auth.address, str(right), 'Ann'),
                 (0, 'Hello, Ann, from alice\n' * 2, ''))
            same(run(AUTH_CLIENT, auth.address, str(wrong), 'Ann'),
                 (16, '', 'UNAUTHENTICATED: the token is not known\n'))
            same(run(AUTH_CLIENT, address, folder + '/none', 'Ann'),
                 (16, '', f'UNAUTHENTICATED: no token in {folder}/none\n'))
        same(run(CALL, address, 'Ann'), (1, '', 'UNAUTHENTICATED: 0 tokens, not right\n'))
    finally:
        server.stop(None)


def plain_call():
    """the plain blocking program prints a reply, a status or its usage, in at most 30 lines"""
    server, address = greeter_of_grpcio()
    try:
        Checker.intercept_service = lambda self, continuation, details: continuation(details)
        same(run(CALL, address, 'Ann'), (0, 'Hi, Ann\n', ''))
    finally:
        server.stop(None)
    same(run(CALL, auth.address, 'Ann'), (1, '', f'UNAUTHENTICATED: {MISSING}\n'))
    same(run(CALL)[0], 2)
    source = pathlib.Path(__file__).resolve().parents[2] / 'examples/call.c'
    assert len(source.read_text().splitlines()) <= 30


TESTS = (right_tokens, wrong_tokens, call_credentials, many_at_once, own_client, plain_call)
auth = None


def main():
    global auth
    failures = 0
    print(f'1..{len(TESTS)}', flush=True)
    auth = Server([AUTH_SERVER])
    try:
        for number, test in enumerate(TESTS, 1):
            try:
                test()
                problem = None
            except Exception as error:
                problem = f'{type(error).__name__}: {error}'
            failures += problem is not None
            print(f'{"not ok" if problem else "ok"} {number} - {test.__doc__}', flush=True)
            if problem:
                print('# ' + problem.replace('\n', '\n# '), flush=True)
    finally:
        auth.process.kill()
        auth.process.wait()
    return failures > 0


if __name__ == '__main__':
    sys.exit(main())
