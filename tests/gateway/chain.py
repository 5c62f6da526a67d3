#!/usr/bin/python3
"""A server with the gateway in front of it, for clients that want one address.

usage: chain.py GATEWAY [GATEWAY'S FLAG...] -- UPSTREAM [ITS ARGUMENT...] --listen ADDRESS

UPSTREAM is a program, a python file or a module for Node. Prints where the gateway listens; on SIGTERM the gateway is
asked to end first, and its exit code is this program's.
"""
import pathlib
import signal
import sys
import threading

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / 'interop'))
from servers import Server  # noqa: E402


def main():
    arguments = sys.argv[1:]
    at = arguments.index('--listen')
    address = arguments[at + 1]
    del arguments[at:at + 2]
    split = arguments.index('--')
    gateway, upstream = arguments[:split], arguments[split + 1:]
    interpreters = {'.py': [sys.executable], '.mjs': ['node']}
    upstream = interpreters.get(pathlib.Path(upstream[0]).suffix, []) + upstream
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    behind = Server(upstream)
    front = Server([*gateway, '--listen', address, '--upstream', behind.address])
    print(f'listening on {front.address}', flush=True)
    stop.wait()
    code = front.stop()
    behind.stop()
    return 1 if code is None else code


if __name__ == '__main__':
    sys.exit(main())
