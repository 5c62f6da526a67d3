#!/usr/bin/python3
"""Servers of other projects behind the gateway, called by bytes over HTTP/1.1.

usage: behind.py GATEWAY SERVER, where SERVER is what ../interop/greeter_cases.md says: a program, a
python file or a module for Node. TAP on stdout.
"""
import base64
import pathlib
import re
import sys
import time
import urllib.parse

import peers
from peers import Gateway, message, messages_of

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / 'interop'))
from servers import Server  # noqa: E402
from helloworld_pb2 import HelloReply, HelloRequest  # noqa: E402

BINARY, TEXT = 'application/grpc-web+proto', 'application/grpc-web-text+proto'
UNARY, STREAM = '/helloworld.Greeter/SayHello', '/helloworld.Greeter/ItKeepsReplying'


def body_of(name, content_type):
    body = message(HelloRequest(name=name).SerializeToString())
    return base64.b64encode(body) if content_type == TEXT else body


def decoded(body, content_type):
    """Base64 comes in padded pieces."""
    if content_type == BINARY:
        return body
    return b''.join(base64.b64decode(piece, validate=True)
                    for piece in re.findall(rb'[^=]+=*', body))


def call(gateway, content_type, name, *fields, path=UNARY):
    reply = gateway.connect().call(body_of(name, content_type), *fields, path=path,
                                   content_type=content_type)
    reply.body = decoded(reply.body, content_type)
    assert reply.status == 200 and reply.field('content-type') == [content_type], reply.fields
    return reply


def names_of(reply):
    return [HelloReply.FromString(payload).message
            for flags, payload in messages_of(reply.body) if flags == 0]


def how(gateway, name):
    return names_of(call(gateway, BINARY, 'x', ('test-how', name)))[0]


def wait_for(gateway, name, state):
    limit = time.monotonic() + peers.WAIT
    while (now := how(gateway, name)) != state:
        assert time.monotonic() < limit, f'the call behind is {now}, not {state}'
        time.sleep(0.02)


def unary(gateway, content_type):
    """A unary call with metadata both ways, text and binary."""
    reply = call(gateway, content_type, 'W\u00fcrzburg \U0001f377',
                 ('x-grpc-test-echo-initial', 'a b'), ('x-grpc-test-echo-initial', 'c'),
                 ('x-grpc-test-echo-trailing-bin', 'q6urqw'),
                 ('x-grpc-test-echo-trailing-bin', '/w=='))
    assert names_of(reply) == ['Hello, W\u00fcrzburg \U0001f377'], reply.body
    values = [v for field in reply.field('x-grpc-test-echo-initial') for v in field.split(', ')]
    assert [v.strip() for field in values for v in field.split(',')] == ['a b', 'c'], reply.fields
    trailers = [v for k, v in reply.trailers() if k == 'x-grpc-test-echo-trailing-bin']
    binary = [base64.b64decode(v.strip() + '=' * (-len(v.strip()) % 4))
              for field in trailers for v in field.split(',')]
    assert binary == [b'\xab\xab\xab\xab', b'\xff'], trailers
    assert reply.grpc_status() == 0


def failure(gateway, content_type):
    """A failure with a text that is not ASCII, and details."""
    details = base64.b64encode(b'\x08\x05\x12\x02no').rstrip(b'=').decode()
    reply = call(gateway, content_type, 'kein \u201eName\u201c, 100 %', ('test-status', '5'),
                 ('test-details-bin', details))
    assert reply.grpc_status() == 5
    fields = dict(reply.trailers() or reply.fields)
    assert urllib.parse.unquote(fields['grpc-message']) == 'kein \u201eName\u201c, 100 %', fields
    assert fields['grpc-status-details-bin'].rstrip('=') == details, fields
    assert not names_of(reply)


def stream(gateway, content_type):
    """A stream whose messages come one by one, each before the next one is sent."""
    gate = f'gate-{content_type}'
    web = gateway.connect()
    body = body_of('drop', content_type)
    web.send_head(STREAM, ('test-count', '3'), ('test-gate', gate), ('test-status', '9'),
                  ('content-length', str(len(body))), content_type=content_type)
    web.sock.sendall(body)
    web.read_head()
    for number in range(3):
        if number > 0:
            call(gateway, BINARY, 'x', ('test-open', gate))
        piece = decoded(web.read_chunk(), content_type)
        assert HelloReply.FromString(messages_of(piece)[0][1]).message == 'drop', piece
        # The status may come in the same piece as the last message.
        rest = messages_of(piece)[1:]
    if not rest:
        rest = messages_of(decoded(web.read_chunk(), content_type))
    assert rest[0][0] == 0x80 and b'grpc-status:9' in rest[0][1], rest
    assert web.read_chunk() == b''


def deadline(gateway, content_type):
    """A deadline ends the call, and the handler behind is told."""
    name = f'deadline-{content_type}'
    start = time.monotonic()
    reply = call(gateway, content_type, 'slow', ('test-delay-ms', '8000'), ('test-name', name),
                 ('grpc-timeout', '400m'))
    assert reply.grpc_status() == 4 and time.monotonic() - start < 6
    wait_for(gateway, name, 'cancelled')


def abort(gateway, content_type):
    """A page that goes away cancels the handler behind, of a unary call and of a stream."""
    for path, fields in ((UNARY, [('test-delay-ms', '8000')]),
                         (STREAM, [('test-count', '1000'), ('test-delay-ms', '100')])):
        name = f'{content_type[12:]}-{path[20:]}'
        web = gateway.connect()
        body = body_of('x', content_type)
        web.send_head(path, ('test-name', name), ('content-length', str(len(body))), *fields,
                      content_type=content_type)
        web.sock.sendall(body)
        wait_for(gateway, name, 'running')
        web.close()
        wait_for(gateway, name, 'cancelled')


def large(gateway, content_type):
    """A message of 2 MB comes back whole."""
    reply = call(gateway, content_type, 'x' * 2_000_000)
    assert len(names_of(reply)[0]) == 2_000_007


def named(case, content_type):
    def run(gateway):
        case(gateway, content_type)
    run.__doc__ = f'{"text" if content_type == TEXT else "binary"}: {case.__doc__}'
    return run


def main():
    interpreters = {'.py': [sys.executable], '.mjs': ['node']}
    server = Server(interpreters.get(pathlib.Path(sys.argv[2]).suffix, []) + sys.argv[2:])
    gateway = Gateway([sys.argv[1]], f'--upstream={server.address}')
    code = peers.run([named(case, content_type) for content_type in (BINARY, TEXT)
                      for case in (unary, failure, stream, deadline, abort, large)], gateway)
    if gateway.stop() != 0:
        print('the gateway has not ended well', file=sys.stderr)
        code = 1
    server.stop()
    return code


if __name__ == '__main__':
    sys.exit(main())
