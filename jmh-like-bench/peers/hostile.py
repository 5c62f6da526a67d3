#!/usr/bin/python3
"""What a good client feels of hostile ones: its latency beside each kind, and without.

usage: hostile.py BUILD [--rounds N] [--count N] [--json FILE]

The greeter's server and pekoe-gateway in front of it, each on CPU 0; one call at a time from
pekoe-load on CPU 1, which it shares with the hostile clients of tests/interop/hostile.py (and the
upstream of the gateway). COUNT connections stay half open (10,000), of the other kinds there are
fewer. Medians of interleaved rounds; the last column is p99 as a multiple of the quiet one.
"""
import argparse
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile

import peers
from peers import ROOT, UNARY, Bench, Server

# Name -> connections of COUNT's 10,000.
KINDS = {'quiet': 0, 'half-open': 1, 'one-byte': 0.1, 'endless-headers': 0.01,
         'never-reading': 0.04}


class Hostile:
    def __init__(self, port, kind, count):
        self.process = None
        if count:
            # They have what the load and the upstream leave of their processor: it is the server's
            # processor that they are to harm. Below real-time priority everything else comes first.
            real_time = os.sched_getscheduler(0) in (os.SCHED_FIFO, os.SCHED_RR)
            policy = ['nice', '-n', '-20', 'chrt', '--other'] if real_time else ['chrt', '--idle']
            self.process = subprocess.Popen(
                [*policy, '0', 'taskset', '-c', '1', sys.executable,
                 ROOT / 'tests/interop/hostile.py', f'127.0.0.1:{port}', kind, str(count)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            if self.process.stdout.readline() != 'ready\n':
                sys.exit(f'{kind}: the hostile clients did not begin')

    def stop(self):
        if self.process:
            self.process.stdin.close()
            self.process.stdout.read()
            self.process.wait()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('build', type=pathlib.Path)
    parser.add_argument('--rounds', type=int, default=5)
    parser.add_argument('--count', type=int, default=10000)
    parser.add_argument('--json', type=pathlib.Path)
    arguments = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if arguments.count + 500 > hard:
        sys.exit(f'{arguments.count} connections are more than {hard} file descriptors allow')
    peers.PATIENCE = 300  # the hostile clients share a CPU with the load
    build = arguments.build.resolve()
    row = ('1 at once', 1, 1, 8000, UNARY, 'hello', 1)
    worst = 0
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        servers = {}
        try:
            servers['server'] = Server([build / 'examples/greeter/greeter-server', '--listen',
                                        '127.0.0.1:{port}'])
            servers['upstream'] = Server([build / 'examples/greeter/greeter-server', '--listen',
                                          '127.0.0.1:{port}'], cpu=1)
            servers['gateway'] = Server([build / 'gateway/pekoe-gateway', '--listen',
                                         '127.0.0.1:{port}',
                                         f'--upstream=127.0.0.1:{servers["upstream"].port}'])
            for number in range(arguments.rounds):
                print(f'round {number + 1} of {arguments.rounds}', file=sys.stderr, flush=True)
                for name in ('server', 'gateway'):
                    for kind, share in KINDS.items():
                        bench = Bench(build, pathlib.Path(folder))
                        bench.servers = servers
                        hostile = Hostile(servers[name].port, kind, int(arguments.count * share))
                        bench.run(name, row)
                        hostile.stop()
                        if bench.failures:
                            sys.exit(f'{name} beside {kind}:{bench.told_failures()}')
                        print(f'  {name} beside {kind}', file=sys.stderr, flush=True)
                        results.setdefault((name, kind), []).append(bench.results['1 at once'][name][0])
        finally:
            for server in servers.values():
                server.stop()
    print(f'{"":10}{"beside":18}{"connections":>12}{"calls/s":>10}{"p50 us":>9}{"p99 us":>9}{"x quiet":>9}')
    for (name, kind), values in results.items():
        rate, p50, p99 = (statistics.median(v[key] for v in values)
                          for key in ('rate', 'p50_us', 'p99_us'))
        quiet = statistics.median(v['p99_us'] for v in results[name, 'quiet'])
        worst = max(worst, p99 / quiet)
        print(f'{name:10}{kind:18}{int(arguments.count * KINDS[kind]):12,}{rate:10,.0f}{p50:9.0f}'
              f'{p99:9.0f}{p99 / quiet:9.2f}')
    if arguments.json:
        arguments.json.write_text(json.dumps([[*key, values] for key, values in results.items()]))
    return worst > 3


if __name__ == '__main__':
    sys.exit(main())
