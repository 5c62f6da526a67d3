#!/usr/bin/python3
"""A gateway with an upstream of its own: behind_gateway.py GATEWAY UPSTREAM --listen ADDRESS.

UPSTREAM is a program, a .py or an .mjs file that serves greeter_cases.md. Prints where the gateway
listens; on SIGTERM ends the gateway, then the upstream, and is itself content where both were.
"""
import signal
import sys
import threading

from servers import Server


def command(path):
    programs = {'py': [sys.executable], 'mjs': ['node']}
    return [*programs.get(path.rpartition('.')[2], []), path]


def main():
    gateway_path, upstream_path, _, address = sys.argv[1:]
    stopped = []
    asked = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: asked.set())
    upstream = Server(command(upstream_path))
    try:
        gateway = Server([gateway_path, f'--upstream={upstream.address}',
                          '--cors-origin=http://page.test', '--listen', address])
        print(f'{gateway_path} listens on {gateway.address}', flush=True)
        asked.wait()
        stopped.append(gateway.stop())
    finally:
        stopped.append(upstream.stop())
    if stopped != [0, 0]:
        print(f'gateway and upstream ended with {stopped}', file=sys.stderr)
    return stopped != [0, 0]


if __name__ == '__main__':
    sys.exit(main())
