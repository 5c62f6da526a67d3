#!/usr/bin/python3
"""Pekoe's greeter and client beside others that nobody here wrote, in one interleaved run.

usage: peers.py BUILD [--rounds N] [--rows PATTERN] [--quick] [--json FILE] [--markdown FILE]
       [--chart FILE.svg]

Builds the peers from Debian's packages (libgrpc++-dev) and grpc-go where there is a Go toolchain that
can get its modules, takes grpc-js from npm, pins each server to CPU 0 and the load to CPU 1, and plays
the same calls to each in turn. The figure is the server's own CPU time per request (user and system,
all threads), the median of the rounds; beside it the spread, as a share of it. A server is stopped
while it is another one's turn. "nghttp2 static reply" is nghttp2 with a canned reply.
Who does not answer in time is named and has no figure in that row; the others go on, and the exit
status is 1. Under `chrt -f` the servers run in turns (SCHED_RR): one that spins would keep its own
threads from ever running.
Rows of h2load are played by nghttp2's load generator, which is not ours and slower than the server.
Rows that begin with "client" are the other way round: each client on CPU 1 calls pekoe's server on
CPU 0, and the figure is the client's own.
Ratios are of medians within this run; absolute times move with the machine.
"""
import argparse
import functools
import json
import os
import pathlib
import re
import select
import shutil
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
UNARY, REPLIES = '/helloworld.Greeter/SayHello', '/helloworld.Greeter/ItKeepsReplying'
REQUESTS, ANSWERS = '/helloworld.Greeter/ItKeepsTalking', '/helloworld.Greeter/StreamHellos'
STREAM_MESSAGES = 1000
FLOORS = ('echo floor', 'nghttp2 static reply')  # of unary calls
SLOW = {'grpc-js': 10}  # peers that play a part of the calls
PATIENCE = 60  # seconds that one row of one peer may take
# What kinds of rows are called in a chart.
METHODS = {'unary': 'unary', 'h2load, unary': 'unaryH2load', 'client, unary': 'client',
           'server stream of 1,000': 'serverStreaming', 'client stream of 1,000': 'clientStreaming',
           'both ways, 1,000 each': 'bidiStreaming'}


def frame(name):
    message = b'\x0a' + bytes([len(name)]) + name.encode()
    return struct.pack('>BI', 0, len(message)) + message


def free_port():
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        return probe.getsockname()[1]


def build_peers(folder):
    """name -> command, with {port}, of servers, and of clients; what cannot be built is left out."""
    peers, clients = {}, {}
    floor = folder / 'echo-floor'
    subprocess.run(['cc', '-O2', '-o', floor, HERE / 'echo_floor.c'], check=True)
    peers['echo floor'] = [floor, '{port}']
    floor = folder / 'nghttp2-floor'
    for library in '-l:libnghttp2.a', '-lnghttp2':  # as pekoe's greeter is linked
        if subprocess.run(['cc', '-O2', '-o', floor, HERE / 'nghttp2_floor.c', library],
                          stderr=subprocess.DEVNULL, check=False).returncode == 0:
            peers['nghttp2 static reply'] = [floor, '{port}']
            break
    try:
        flags = subprocess.run(['pkg-config', '--cflags', '--libs', 'grpc++', 'protobuf'], check=True,
                               capture_output=True, text=True).stdout.split()
        subprocess.run(['protoc', f'-I{ROOT}/examples/greeter', f'--cpp_out={folder}',
                        f'--grpc_out={folder}', '--plugin=protoc-gen-grpc=/usr/bin/grpc_cpp_plugin',
                        'helloworld.proto'], check=True)
        server, client = folder / 'grpcpp-server', folder / 'grpcpp-client'
        for program, source in (server, 'grpcpp_server.cc'), (client, 'grpcpp_client.cc'):
            subprocess.run(['g++', '-O2', '-std=c++17', f'-I{folder}', '-o', program,
                            HERE / source, folder / 'helloworld.pb.cc',
                            folder / 'helloworld.grpc.pb.cc', *flags], check=True)
        for api in 'async', 'callback':
            peers[f'grpc++ {api}'] = [server, api, '{port}']
            clients[f'grpc++ {api}'] = [client, api]
    except (OSError, subprocess.CalledProcessError) as error:
        print(f'grpc++ is left out: {error}', file=sys.stderr)
    try:
        subprocess.run(['go', 'build', '-o', folder / 'grpc-go-server', '.'], check=True, timeout=300,
                       cwd=HERE / 'grpc_go', stdin=subprocess.DEVNULL, capture_output=True)
        peers['grpc-go'] = [folder / 'grpc-go-server', '{port}']
    except (OSError, subprocess.SubprocessError) as error:
        print(f'grpc-go is left out: {error}', file=sys.stderr)
    if shutil.which('node') and (ROOT / 'node_modules/@grpc/grpc-js').is_dir():
        peers['grpc-js'] = ['node', HERE / 'grpc_js_server.mjs', '{port}']
    else:
        print('grpc-js is left out: node, or the packages of npm, are not here', file=sys.stderr)
    return peers, clients


def cpu_seconds(pid):
    """What a process has used, user and system, all threads, by its CPU clock."""
    return time.clock_gettime_ns(~pid << 3 | 2) / 1e9


class Server:
    def __init__(self, command, cpu=0):
        self.port = free_port()
        words = [str(word).format(port=self.port) for word in command]
        self.process = subprocess.Popen(['taskset', '-c', str(cpu), *words], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, text=True)
        if not select.select([self.process.stdout], [], [], PATIENCE)[0] or \
                not self.process.stdout.readline():
            self.stop()
            raise Failure('the server does not start')

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)

    def stop(self):
        self.process.kill()
        self.process.wait()


class Failure(Exception):
    """Why a peer has no figure in a row."""


def play(command):
    """Runs a load generator or client on CPU 1 and returns what it printed."""
    words = ['taskset', '-c', '1', *(str(word) for word in command)]
    try:
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=PATIENCE, check=False)
    except subprocess.TimeoutExpired:
        raise Failure(f'not done after {PATIENCE} seconds') from None
    if done.returncode != 0:
        raise Failure(done.stderr.strip() or f'exit status {done.returncode}')
    return done.stdout


def values_of(printed):
    return {key: float(value) for key, value in re.findall(r'(\w+)=([\d.]+)', printed)}


class Bench:
    def __init__(self, build, folder):
        self.load = build / 'jmh-like-bench/pekoe-load'
        self.bodies = {}
        for name, text in (('hello', 'world'), ('many', 'many')):
            self.bodies[name] = folder / name
            self.bodies[name].write_bytes(frame(text))
        self.bodies['hellos'] = folder / 'hellos'
        self.bodies['hellos'].write_bytes(frame('world') * STREAM_MESSAGES)
        self.starts = {}  # what starts each server
        self.servers = {}
        self.in_turns = False  # a server is stopped while it is not its turn
        self.clients = {'pekoe': [build / 'jmh-like-bench/unary-client']}
        self.results = {}
        self.failures = {}  # (peer, row's name): why

    def start(self, peer):
        """What does not start is left out."""
        self.servers.pop(peer, None)
        try:
            self.servers[peer] = self.starts[peer]()
        except Failure as failure:
            self.fail(peer, 'start', failure)
            return
        if self.in_turns:
            self.servers[peer].pause()

    def fail(self, peer, name, failure):
        self.failures[peer, name] = str(failure)
        print(f'{peer}, {name}: {failure}', file=sys.stderr, flush=True)

    def told_failures(self):
        return ''.join(f'\nwithout a figure: {peer}, {name}: {why}'
                       for (peer, name), why in self.failures.items())

    def measure(self, peer, name, server_of, measure):
        """One row of one peer; after a failure it has that row no more, and a new server."""
        server = self.servers.get(server_of)
        if not server or (peer, name) in self.failures:
            return
        if self.in_turns:
            server.go_on()
        try:
            values = measure(server)
        except Failure as failure:
            self.fail(peer, name, failure)
            self.results.get(name, {}).pop(peer, None)
            if server_of in self.starts:
                server.stop()
                self.start(server_of)
            return
        if self.in_turns:
            server.pause()
        self.results.setdefault(name, {}).setdefault(peer, []).append(values)

    def run_client(self, peer, name, at_once, calls):
        """One client against pekoe's server."""
        def measure(server):
            values = values_of(play([*self.clients[peer], f'127.0.0.1:{server.port}', calls, at_once]))
            return {'cpu': values['cpu_us'], 'rate': values['rate']}
        if peer in self.clients:
            self.measure(peer, name, 'pekoe', measure)

    def run(self, peer, row):
        name, connections, streams, requests, path, body, share = row
        warm_up = max(requests // 10, 1)
        requests = max(requests // SLOW.get(peer, 1), 10)
        if peer in FLOORS and path != UNARY:
            return
        if name.startswith('h2load'):
            if peer != 'echo floor' and peer not in SLOW:  # for those our own load is enough
                self.run_h2load(peer, row)
            return

        def measure(server):
            command = [self.load, '--connect', f'127.0.0.1:{server.port}',
                       '--connections', connections, '--streams', streams, '--requests', requests,
                       '--warm-up', warm_up, '--server', server.process.pid]
            command += ['--echo'] if peer == 'echo floor' else ['--path', path,
                                                                '--body', self.bodies[body]]
            values = values_of(play(command))
            values['cpu'] = values['server_cpu_us'] / share
            values['rate'] *= share
            return values
        self.measure(peer, name, peer, measure)

    def run_h2load(self, peer, row):
        name, connections, streams, requests, path, body, _ = row

        def measure(server):
            before = cpu_seconds(server.process.pid)
            printed = play(['h2load', '-c', connections, '-m', streams, '-n', requests,
                            '-d', self.bodies[body], '-H', 'content-type: application/grpc',
                            '-H', 'te: trailers', f'http://127.0.0.1:{server.port}{path}'])
            used = cpu_seconds(server.process.pid) - before
            answered = re.search(r'(\d+) succeeded, 0 failed, 0 errored', printed)
            rate = re.search(r'finished in .*?, ([\d.]+) req/s', printed)
            if not answered or int(answered[1]) != requests or not rate:
                raise Failure(printed)
            return {'cpu': used / requests * 1e6, 'rate': float(rate[1])}
        self.measure(peer, name, peer, measure)

    def stop(self):
        for server in self.servers.values():
            server.stop()


def middle_of(rounds, key, width, digits):
    """The median, or a dash where the load generator does not tell."""
    if any(key not in one for one in rounds):
        return f'{"-":>{width}}'
    return f'{statistics.median(one[key] for one in rounds):{width},.{digits}f}'


def spread_of(values):
    """From the least to the most, as a share of the median; one round has none."""
    if len(values) < 2:
        return '-'
    return f'{(max(values) - min(values)) / statistics.median(values):.0%}'


def table(results, peers):
    lines = []
    for name, by_peer in results.items():
        if not by_peer:
            continue
        lines.append(f'\n{name}\n  {"":22}{"CPU us":>10}{"spread":>8}{"per second":>14}'
                     f'{"p50 us":>10}{"p99 us":>10}{"x pekoe":>9}')
        ours = statistics.median(r['cpu'] for r in by_peer['pekoe']) if 'pekoe' in by_peer else None
        for peer in peers:
            if peer not in by_peer:
                continue
            cpu = [r['cpu'] for r in by_peer[peer]]
            middle = statistics.median(cpu)
            rounds = by_peer[peer]
            times = f'{middle / ours:9.2f}' if ours else f'{"-":>9}'
            lines.append(f'  {peer:22}{middle:10.3f}{spread_of(cpu):>8}'
                         f'{middle_of(rounds, "rate", 14, 0)}{middle_of(rounds, "p50_us", 10, 1)}'
                         f'{middle_of(rounds, "p99_us", 10, 1)}{times}')
    return '\n'.join(lines)


def digits(value):
    return f'{value:,.1f}' if value >= 10 else f'{value:.2f}' if value >= 1 else f'{value:.3f}'


def markdown(results, peers):
    """The same for a page: rows of one kind in one table."""
    lines, kind = [], None
    for name, by_peer in results.items():
        what, connections, at_once, unit = re.fullmatch(
            r'(.*?), (\d+) connections?, (\d+) at once(.*)', name).groups()
        if (what, unit) != kind:
            kind = what, unit
            lines += ['', what + unit, '', "| connections x calls at once | | CPU, us | spread | per second "
                      "| p50, us | p99, us | times pekoe's CPU |", '|---|---|---|---|---|---|---|---|']
        first = f'{connections} x {at_once}'
        ours = statistics.median(r['cpu'] for r in by_peer['pekoe']) if 'pekoe' in by_peer else None
        for peer in [peer for peer in peers if peer in by_peer]:
            cpu = [r['cpu'] for r in by_peer[peer]]
            middle = statistics.median(cpu)
            others = [middle_of(by_peer[peer], key, 0, 0) for key in ('rate', 'p50_us', 'p99_us')]
            times = ''
            if ours and peer != 'pekoe':
                times = f'{middle / ours:.1f}' if middle > ours else f'{middle / ours:.2f}'
            peer = '**pekoe**' if peer == 'pekoe' else peer
            lines.append(f'| {first} | {peer} | {digits(middle)} | {spread_of(cpu)} | '
                         f'{" | ".join(others)} | {times} |')
            first = ''
    return '\n'.join(lines).replace('%', ' %') + '\n'


def chart(results, peers, bench, out):
    """Has the harness draw the same: rounds are its iterations, and it computes means and errors."""
    found = []
    for name, by_peer in results.items():
        what, connections, at_once = re.match(r'(.*?), (\d+) connections?, (\d+) at once', name).groups()
        for peer in [peer for peer in peers if peer in by_peer]:
            cpu = [one['cpu'] for one in by_peer[peer]]
            found.append({
                'benchmark': f'pekoe.PeersBenchmark.{METHODS[what]}', 'mode': 'avgt', 'threads': 1,
                'forks': 1, 'params': {'calls': f'{connections}x{at_once}', 'peer': peer.replace(' ', '-')},
                'primaryMetric': {'score': statistics.mean(cpu), 'scoreError': 0,
                                  'scoreUnit': 'us/op', 'rawData': [cpu]}})
    with tempfile.NamedTemporaryFile('w', suffix='.json') as draft:
        json.dump(found, draft)
        draft.flush()
        subprocess.run([bench, '--input', draft.name, '--chart', out, '-v', 'silent'], check=True,
                       stdout=subprocess.DEVNULL)


def play_rounds(bench, rounds, rows, clients):
    """Interleaved; an interrupt ends them early, and what was measured is kept."""
    bench.in_turns = True
    try:
        for peer in bench.starts:
            bench.start(peer)
        for number in range(rounds):
            print(f'round {number + 1} of {rounds}', file=sys.stderr, flush=True)
            for row in rows:
                for peer in bench.starts:
                    bench.run(peer, row)
            for name, (at_once, calls) in clients.items():
                for peer in bench.clients:
                    bench.run_client(peer, name, at_once, calls)
    except KeyboardInterrupt:
        bench.failures['all', 'rounds'] = 'interrupted'
    finally:
        bench.stop()


def end_early(number, frame_of_stack):
    raise KeyboardInterrupt


def take_turns():
    """Of real-time policies the one under which threads of one priority do run in turns."""
    if os.sched_getscheduler(0) == os.SCHED_FIFO:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_getparam(0))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('build', type=pathlib.Path)
    parser.add_argument('--rounds', type=int, default=5)
    parser.add_argument('--rows', default='', help='only rows whose names have a match of this pattern')
    parser.add_argument('--quick', action='store_true', help='a tenth of the requests')
    parser.add_argument('--json', type=pathlib.Path)
    parser.add_argument('--chart', type=pathlib.Path, metavar='FILE.svg', help='CPU time as bars')
    parser.add_argument('--markdown', type=pathlib.Path, help='the tables as docs/performance.md has them')
    arguments = parser.parse_args()
    scale = 10 if arguments.quick else 1
    # Name, connections, streams at once, requests, path, body, messages of one call.
    rows = [('unary, 1 connection, 1 at once', 1, 1, 20000 // scale, UNARY, 'hello', 1),
            ('unary, 10 connections, 10 at once', 10, 10, 200000 // scale, UNARY, 'hello', 1),
            ('unary, 50 connections, 100 at once', 50, 100, 500000 // scale, UNARY, 'hello', 1),
            ('h2load, unary, 1 connection, 1 at once', 1, 1, 20000 // scale, UNARY, 'hello', 1),
            ('h2load, unary, 10 connections, 10 at once', 10, 10, 100000 // scale, UNARY, 'hello',
             1),
            ('h2load, unary, 50 connections, 100 at once', 50, 100, 200000 // scale, UNARY, 'hello',
             1),
            ('server stream of 1,000, 1 connection, 10 at once (per message)', 1, 10,
             500 // scale, REPLIES, 'many', STREAM_MESSAGES),
            # Four at once stay within the first 65,535 bytes of window, for the load has no eye on it.
            ('client stream of 1,000, 1 connection, 4 at once (per message)', 1, 4,
             500 // scale, REQUESTS, 'hellos', STREAM_MESSAGES),
            ('both ways, 1,000 each, 1 connection, 4 at once (per pair)', 1, 4,
             500 // scale, ANSWERS, 'hellos', STREAM_MESSAGES)]
    # Calls at once, calls.
    clients = {f'client, unary, 1 connection, {at_once} at once': (at_once, calls // scale)
               for at_once, calls in ((1, 20000), (10, 100000), (100, 200000))}
    rows = [row for row in rows if re.search(arguments.rows, row[0])]
    clients = {name: row for name, row in clients.items() if re.search(arguments.rows, name)}
    if not rows and not clients:
        sys.exit(f'no row matches {arguments.rows!r}')
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        bench = Bench(arguments.build.resolve(), folder)
        peers, client_peers = build_peers(folder)
        bench.clients.update(client_peers)
        greeter = arguments.build.resolve() / 'jmh-like-bench/peers-greeter'
        commands = {'pekoe': [greeter, '--listen', '127.0.0.1:{port}'], **peers}
        bench.starts = {name: functools.partial(Server, command)
                        for name, command in commands.items()}
        take_turns()
        signal.signal(signal.SIGTERM, end_early)
        play_rounds(bench, arguments.rounds, rows, clients)
    cpu = next((line.split(':')[1].strip() for line in open('/proc/cpuinfo')
                if line.startswith('model name')), 'unknown')
    print(f'{cpu}, {os.cpu_count()} processors, Linux {os.uname().release}, '
          f'{arguments.rounds} interleaved rounds')
    print(table(bench.results, list(bench.starts)))
    if bench.failures:
        print(bench.told_failures())
    if arguments.json:
        arguments.json.write_text(json.dumps(bench.results, indent=1))
    if arguments.chart:
        chart(bench.results, list(bench.starts), arguments.build / 'jmh-like-bench/pekoe-bench',
              arguments.chart)
    if arguments.markdown:
        arguments.markdown.write_text(markdown(bench.results, list(bench.starts)))
    return 1 if bench.failures else 0


if __name__ == '__main__':
    sys.exit(main())
