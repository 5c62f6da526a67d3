#!/usr/bin/python3
"""One stream over a long path: does flow control keep the link full?

usage: delay.py BUILD [--messages N] [--delay-ms MS] [--megabits RATE] [--json FILE]

Between the greeter and its client stands a proxy on 127.0.0.1 that is a link of RATE in each
direction, with a delay of MS each way: 100 Mbit/s and 25 ms by default. One server-streamed and one
client-streamed call of 1 MB messages with default options; the figure is the messages' bytes per
second, from the call's start to its status, as a share of the link.
"""
import argparse
import collections
import json
import pathlib
import select
import socket
import subprocess
import sys
import threading
import time

QUEUE = 256 << 10  # bytes that wait for the link; more stay in the sender's socket
PIECE = 16 << 10
WANTED = 0.9


class Direction:
    """Bytes leave at the link's rate, one after the other, and arrive a delay later."""

    def __init__(self, source, target, rate, delay):
        self.source, self.target, self.rate, self.delay = source, target, rate, delay
        self.free = 0.0  # when the link has sent what it was given
        self.flying = collections.deque()
        self.rest = b''
        self.ended = False

    def room(self, now):
        return not self.ended and (self.free - now) * self.rate < QUEUE

    def receive(self, now):
        piece = self.source.recv(PIECE)
        self.ended = not piece
        self.free = max(self.free, now) + len(piece) / self.rate
        self.flying.append((self.free + self.delay, piece))

    def deliver(self, now):
        """Seconds until there is something to do; None: nothing is under way."""
        while self.rest or (self.flying and self.flying[0][0] <= now):
            if not self.rest:
                self.rest = self.flying.popleft()[1]
                if not self.rest:
                    self.target.shutdown(socket.SHUT_WR)
                    continue
            try:
                self.rest = self.rest[self.target.send(self.rest):]
            except BlockingIOError:
                return 0.001
        return max(self.flying[0][0] - now, 0) if self.flying else None


def relay(client, port, rate, delay):
    server = socket.create_connection(('127.0.0.1', port))
    for one in (client, server):
        one.setblocking(False)
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    directions = (Direction(client, server, rate, delay), Direction(server, client, rate, delay))
    try:
        while not all(one.ended and not one.flying and not one.rest for one in directions):
            now = time.monotonic()
            waits = [wait for wait in (one.deliver(now) for one in directions) if wait is not None]
            sources = [one.source for one in directions if one.room(now)]
            # Where the queue is full, look again once it has sunk a little.
            waits += [PIECE / rate for one in directions if not one.ended and not one.room(now)]
            readable = select.select(sources, [], [], min(waits, default=None))[0]
            now = time.monotonic()
            for one in directions:
                if one.source in readable:
                    one.receive(now)
    except OSError:
        pass  # an end went away; what it makes of that, it reports itself
    client.close()
    server.close()


def start_link(port, rate, delay):
    """The port of a link to `port`."""
    listener = socket.create_server(('127.0.0.1', 0))

    def accept():
        while True:
            client = listener.accept()[0]
            threading.Thread(target=relay, args=(client, port, rate, delay), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    return listener.getsockname()[1]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('build', type=pathlib.Path)
    parser.add_argument('--messages', type=int, default=60)
    parser.add_argument('--delay-ms', type=float, default=25)
    parser.add_argument('--megabits', type=float, default=100)
    parser.add_argument('--json', type=pathlib.Path)
    arguments = parser.parse_args()
    programs = arguments.build.resolve() / 'jmh-like-bench'
    rate = arguments.megabits * 1e6 / 8
    server = subprocess.Popen([programs / 'peers-greeter', '--listen', '127.0.0.1:0'],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    shares = {}
    try:
        port = int(server.stdout.readline().rsplit(':', 1)[1])
        link = start_link(port, rate, arguments.delay_ms / 1000)
        for way, name in (('down', 'server stream'), ('up', 'client stream')):
            done = subprocess.run([programs / 'stream-client', f'127.0.0.1:{link}', way,
                                   str(arguments.messages)], stdin=subprocess.DEVNULL,
                                  capture_output=True, text=True, timeout=300, check=False)
            if done.returncode != 0:
                sys.exit(f'{name}: {done.stderr}')
            shares[name] = float(done.stdout) / rate
            print(f'{name}: {float(done.stdout) * 8 / 1e6:.1f} Mbit/s, {shares[name]:.0%} of a link '
                  f'of {arguments.megabits:g} Mbit/s, {2 * arguments.delay_ms:g} ms there and back')
    finally:
        server.kill()
        server.wait()
    if arguments.json:
        arguments.json.write_text(json.dumps(shares, indent=1))
    return 0 if min(shares.values()) >= WANTED else 1


if __name__ == '__main__':
    sys.exit(main())
