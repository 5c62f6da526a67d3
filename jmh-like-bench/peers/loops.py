#!/usr/bin/python3
"""Two loops of one server on two processors, beside one loop on one.

usage: loops.py BUILD [--rounds N] [--quick]

The load generator and the server share the processors, since there may be two of them only: first
one loop and one load generator on CPU 0, then two loops and two load generators, one of each on CPU 0
and on CPU 1. Load generators are processes that have nothing in common, so what keeps the second rate
from being twice the first is the server, or the machine. Beside that stands what the server used per
call: were there anything that loops wait for or share, a call would cost more with two of them.
Medians of interleaved rounds.
"""
import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

from peers import Server, UNARY, cpu_seconds, frame, spread_of

CONNECTIONS, STREAMS = 50, 100


class Loops(Server):
    """A server whose loops are pinned to CPU 0, 1, ... in turn."""

    def __init__(self, greeter, count):
        super().__init__([greeter, '--listen', '127.0.0.1:{port}', '--threads', count])
        for place, thread in enumerate(sorted(map(int, self.threads()))):
            os.sched_setaffinity(thread, {place})

    def threads(self):
        return os.listdir(f'/proc/{self.process.pid}/task')

    def used_by_each(self):
        return [int(pathlib.Path(f'/proc/{self.process.pid}/task/{thread}/schedstat').read_text()
                    .split()[0]) / 1e9 for thread in self.threads()]


def play(load, body, server, cpus, requests):
    """Seconds, the server's CPU seconds, and those of each loop, for `requests` on each CPU."""
    cpu, each, start = cpu_seconds(server.process.pid), server.used_by_each(), time.monotonic()
    running = [subprocess.Popen(
        ['taskset', '-c', str(cpu), load, '--connect', f'127.0.0.1:{server.port}', '--path', UNARY,
         '--connections', str(CONNECTIONS), '--streams', str(STREAMS), '--warm-up', '1',
         '--requests', str(requests), '--body', body], stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL) for cpu in range(cpus)]
    if any(process.wait() != 0 for process in running):
        sys.exit('a load generator failed')
    seconds = time.monotonic() - start
    return (seconds, cpu_seconds(server.process.pid) - cpu,
            [now - then for now, then in zip(server.used_by_each(), each)])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('build', type=pathlib.Path)
    parser.add_argument('--rounds', type=int, default=7)
    parser.add_argument('--quick', action='store_true', help='a tenth of the requests')
    arguments = parser.parse_args()
    if len(os.sched_getaffinity(0)) < 2:
        sys.exit('this needs two processors')
    bench = arguments.build.resolve() / 'jmh-like-bench'
    requests = 50000 if arguments.quick else 500000
    results = {1: [], 2: []}
    with tempfile.TemporaryDirectory() as folder:
        body = pathlib.Path(folder) / 'body'
        body.write_bytes(frame('world'))
        servers = {}
        try:
            for count in results:
                servers[count] = Loops(bench / 'peers-greeter', count)
            for _ in range(arguments.rounds):
                for count, rounds in results.items():
                    seconds, cpu, each = play(bench / 'pekoe-load', body, servers[count], count,
                                              requests)
                    rounds.append((count * requests / seconds, cpu / count / requests * 1e6,
                                   min(each) / max(each)))
        finally:
            for server in servers.values():
                server.stop()
    print(f'{CONNECTIONS} connections of {STREAMS} calls at once for each load generator, '
          f'{arguments.rounds} interleaved rounds')
    print(f'{"loops":>6}{"calls/s":>12}{"spread":>8}{"CPU us":>9}{"least busy loop":>17}')
    middle = {}
    for count, rounds in results.items():
        rates = [rate for rate, _, _ in rounds]
        middle[count] = [statistics.median(column) for column in zip(*rounds)]
        print(f'{count:6}{middle[count][0]:12,.0f}'
              f'{spread_of(rates):>8}{middle[count][1]:9.3f}'
              f'{middle[count][2]:17.0%}')
    pairs = [two[0] / one[0] for one, two in zip(results[1], results[2])]
    print(f'two loops on two processors serve {middle[2][0] / middle[1][0]:.2f} times as many calls '
          f'as one on one; within a round {min(pairs):.2f} to {max(pairs):.2f}')
    print(f'a call costs {middle[2][1] / middle[1][1]:.2f} times the CPU')


if __name__ == '__main__':
    main()
