#!/usr/bin/python3
"""`buf curl`, which knows nothing of the greeter but what reflection tells: buf_client.py ADDRESS.

Against greeter-server. buf comes from npm (@bufbuild/buf). TAP on stdout.
"""
import json
import pathlib
import subprocess
import sys

BUF = pathlib.Path(__file__).resolve().parents[2] / 'node_modules/.bin/buf'

# What is asked, and the lines or messages that must come.
CASES = [
    ('lists the services', ['--list-services'], '',
     ['grpc.health.v1.Health', 'grpc.reflection.v1.ServerReflection',
      'grpc.reflection.v1alpha.ServerReflection', 'helloworld.Greeter']),
    ('makes a unary call', ['-d', '{"name":"buf"}'], '/helloworld.Greeter/SayHello',
     [{'message': 'Hello, buf'}]),
    ('makes a server-streaming call', ['-d', '{"name":"ab"}'],
     '/helloworld.Greeter/ItKeepsReplying', [{'message': 'Hello, a'}, {'message': 'Hello, b'}]),
    ('makes a client-streaming call', ['-d', '{"name":"a"}{"name":"b"}'],
     '/helloworld.Greeter/ItKeepsTalking', [{'message': 'Hello, a, b'}]),
    ('makes a bidirectional call by v1alpha',
     ['--reflect-protocol', 'grpc-v1alpha', '-d', '{"name":"a"}{"name":"b"}'],
     '/helloworld.Greeter/StreamHellos', [{'message': 'Hello, a'}, {'message': 'Hello, b'}]),
    ('checks the health', ['-d', '{"service":""}'], '/grpc.health.v1.Health/Check',
     [{'status': 'SERVING'}]),
]


def messages(text):
    """The JSON values that stand one behind the other."""
    found, at = [], 0
    while at < len(text):
        value, at = json.JSONDecoder().raw_decode(text, at)
        found.append(value)
        while at < len(text) and text[at].isspace():
            at += 1
    return found


def main():
    if not BUF.exists():
        print('1..0 # SKIP node_modules has no buf (./dev setup installs it)')
        return 0
    failures = 0
    for number, (name, arguments, path, wanted) in enumerate(CASES, 1):
        run = subprocess.run([BUF, 'curl', '--protocol', 'grpc', '--http2-prior-knowledge',
                              *arguments, f'http://{sys.argv[1]}{path}'],
                             stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
                             check=False)
        got = run.stdout.split() if not path else messages(run.stdout)
        right = run.returncode == 0 and got == wanted
        failures += not right
        print('ok' if right else 'not ok', number, '- buf', name, flush=True)
        if not right:
            print(run.stdout, run.stderr, file=sys.stderr)
    print(f'1..{len(CASES)}')
    return failures != 0


if __name__ == '__main__':
    sys.exit(main())
