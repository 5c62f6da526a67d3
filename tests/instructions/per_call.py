#!/usr/bin/python3
"""Counts the instructions of a unary call with callgrind, and holds them below a bound. TAP.

usage: per_call.py FOLDER-OF-PEERS-GREETER-AND-PEKOE-LOAD

A run of few calls is taken from one of many, so that what start and warm-up cost is not counted; the
kernel's part is not either. The bounds stand a quarter above what was measured when they were set:
they are there for work that creeps in, not for one field more. Who makes calls cheaper lowers them.
"""
import pathlib
import re
import struct
import subprocess
import sys
import tempfile

FEW, MANY = 4000, 12000
MESSAGE = b'\x0a\x05world'
# What plays the calls, connections, calls at once, most instructions per call.
ROWS = [('h2load', 10, 100, 8900), ('pekoe-load', 10, 100, 9000), ('pekoe-load', 1, 1, 10600)]


def load_command(folder, player, port, body, connections, streams, calls):
    path = '/helloworld.Greeter/SayHello'
    if player == 'h2load':
        return ['h2load', '-c', connections, '-m', streams, '-n', calls, '-d', body,
                '-H', 'content-type: application/grpc', '-H', 'te: trailers',
                f'http://127.0.0.1:{port}{path}']
    return [folder / player, '--connect', f'127.0.0.1:{port}', '--path', path, '--body', body,
            '--connections', connections, '--streams', streams, '--warm-up', connections,
            '--requests', calls - connections]


def instructions(folder, scratch, row, calls):
    player, connections, streams, _ = row
    server = subprocess.Popen(
        ['valgrind', '--tool=callgrind', '--callgrind-out-file=/dev/null',
         folder / 'peers-greeter', '--listen', '127.0.0.1:0'],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        port = int(server.stdout.readline().rsplit(':', 1)[1])
        command = load_command(folder, player, port, scratch / 'body', connections, streams, calls)
        done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=100, check=True)
        if player == 'h2load' and f' {calls} succeeded' not in done.stdout:
            raise ValueError(done.stdout)
    finally:
        server.terminate()
        said = server.communicate(timeout=60)[1]
    return int(re.search(r'Collected : (\d+)', said)[1])


def main():
    folder = pathlib.Path(sys.argv[1])
    failed = False
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        (scratch / 'body').write_bytes(struct.pack('>BI', 0, len(MESSAGE)) + MESSAGE)
        for number, row in enumerate(ROWS, 1):
            player, connections, streams, most = row
            few, many = (instructions(folder, scratch, row, calls) for calls in (FEW, MANY))
            each = (many - few) / (MANY - FEW)
            right = each <= most
            failed |= not right
            print(f'{"ok" if right else "not ok"} {number} - a unary call takes at most {most} '
                  f'instructions: {player}, {connections} connections, {streams} at once')
            print(f'# {each:.0f}', flush=True)
    print(f'1..{len(ROWS)}')
    return failed


if __name__ == '__main__':
    sys.exit(main())
