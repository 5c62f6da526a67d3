#!/usr/bin/python3
"""Pages with cookies in front of the gateway: an upstream that tells what it has seen, gateways of an
exact origin and of any, and credentials.mjs, whose cases they are.

usage: credentials.py GATEWAY PROTO. TAP on stdout.
"""
import json
import pathlib
import subprocess
import sys

from peers import Gateway, Upstream, message

HERE = pathlib.Path(__file__).resolve().parent


def tell(stream):
    """Answers with the request's fields as JSON, in a HelloReply; sets a cookie."""
    sessions.append(stream.header('x-session'))
    seen = {}
    for name, value in stream.headers:
        seen[name] = f'{seen[name]}; {value}' if name in seen else value
    text = json.dumps(seen).encode()
    length = len(text)
    varint = bytes([length & 0x7f | 0x80, length >> 7])
    stream.send_headers(('set-cookie', f"session={seen['x-session']}; Path=/; HttpOnly"),
                        ('x-seen-by', 'upstream'))
    stream.send(message(b'\x0a' + varint + text))
    stream.send_trailers(('grpc-status', '0'))


sessions = []


def main():
    program, proto = sys.argv[1:]
    upstream = Upstream(tell)
    gateways = [Gateway([program], f'--upstream={upstream.address}', f'--cors-origin={origin}',
                        '--cors-credentials=on', '--forward-header=cookie')
                for origin in ('http://page.test', '*')]
    code = subprocess.run(['node', HERE / 'credentials.mjs', *(g.address for g in gateways), proto],
                          stdin=subprocess.DEVNULL, timeout=200, check=False).returncode
    stopped = [gateway.stop() for gateway in gateways]
    upstream.close()
    wrong = upstream.problems + [f'exit code {c}' for c in stopped if c != 0]
    if ['other'] in sessions:
        wrong.append('a page of another origin has reached the upstream')
    for line in wrong:
        print(line, file=sys.stderr)
    return code or (1 if wrong else 0)


if __name__ == '__main__':
    sys.exit(main())
