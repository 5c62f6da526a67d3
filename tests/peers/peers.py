#!/usr/bin/python3
"""Our client against a server of another project: peers.py [--plain-replies] CALLER SERVER...

TAP on stdout. With --plain-replies the server is one that does not compress (grpc-js, up to 1.14).
The caller checks what it gets; here stands what went over the wire, read by a relay between them.
"""
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'interop'))

try:
    from relay import Relay
except ImportError:
    print('1..0 # SKIP python3-h2 is not installed (./dev setup installs it)')
    sys.exit(0)
from servers import Server

STYLES = ['Unary', 'ServerStream', 'ClientStream', 'Chat']


def compressed(calls, style, replies=1):
    """Problems with the calls of a style that asked for gzip: each message, both ways."""
    found = [call for call in calls if call[0] == f'/peers.Echo/{style}' and
             call[1].get('grpc-encoding') == 'gzip']
    if not found:
        return ['no call said gzip']
    problems = []
    for _, _, sent, response, received in found:
        if not sent or any(flag != 1 for flag, _ in sent):
            problems.append(f'requests went as {sent}')
        if replies and response.get('grpc-encoding') != 'gzip':
            problems.append(f'the response said {response.get("grpc-encoding")}')
        if not received or any(flag != replies for flag, _ in received):
            problems.append(f'replies came as {received}')
    return problems


def plain(calls, style):
    """And of one that did not: its messages went as they are."""
    found = [call for call in calls if call[0] == f'/peers.Echo/{style}' and
             call[1].get('grpc-encoding', 'identity') == 'identity']
    problems = [] if found else ['there was none']
    for _, head, sent, _, _ in found:
        if any(flag != 0 for flag, _ in sent):
            problems.append(f'requests went as {sent}')
        if 'gzip' not in head.get('grpc-accept-encoding', ''):
            problems.append('gzip was not offered')
    return problems


def main():
    replies = int(sys.argv[1] != '--plain-replies')
    caller, *command = sys.argv[2 - replies:]
    server = Server(command)
    relay = Relay(server.port)
    run = subprocess.run([caller, relay.address], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                         text=True, timeout=60, check=False)
    results = []
    for line in run.stdout.splitlines():
        if line.startswith(('ok ', 'not ok ')):
            word, name = line.split(' - ', 1)
            results.append((word.startswith('ok'), name))
        else:
            print('#', line)
    results.append((run.returncode == 0, 'the client came to its end'))
    calls = list(relay.calls())
    for style in STYLES:
        gzip = 'gzip goes both ways' if replies else 'gzip goes to the server'
        for problems, name in ((compressed(calls, style, replies), gzip),
                               (plain(calls, style), 'plain stays plain')):
            for problem in problems:
                print(f'{style}: {problem}', file=sys.stderr)
            results.append((not problems, f'{style}: {name}'))
    results.append((server.stop() == 0, 'the server came to its end'))
    for number, (right, name) in enumerate(results, 1):
        print('ok' if right else 'not ok', number, '-', name)
    print(f'1..{len(results)}')
    return not all(right for right, _ in results)


if __name__ == '__main__':
    sys.exit(main())
