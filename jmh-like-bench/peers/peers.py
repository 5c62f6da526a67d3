#!/usr/bin/python3
"""Pekoe's greeter and client beside others that nobody here wrote, in one interleaved run.

usage: peers.py BUILD [--rounds N] [--rows PATTERN] [--quick] [--json FILE]

Builds the peers from Debian's packages (libgrpc++-dev), takes grpc-js from npm, pins each server to
CPU 0 and the load to CPU 1, and plays the same calls to each in turn. The figure is the server's own
CPU time per request (user and system, all threads), the median of the rounds; beside it the spread,
as a share of it.
Rows of h2load are played by nghttp2's load generator, which is not ours and slower than the server.
Rows that begin with "client" are the other way round: each client on CPU 1 calls pekoe's server on
CPU 0, and the figure is the client's own.
Ratios are of medians within this run; absolute times move with the machine.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
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
        self.process.stdout.readline()

    def stop(self):
        self.process.kill()
        self.process.wait()


class Bench:
    def __init__(self, build, folder):
        self.load = build / 'jmh-like-bench/pekoe-load'
        self.bodies = {}
        for name, text in (('hello', 'world'), ('many', 'many')):
            self.bodies[name] = folder / name
            self.bodies[name].write_bytes(frame(text))
        self.bodies['hellos'] = folder / 'hellos'
        self.bodies['hellos'].write_bytes(frame('world') * STREAM_MESSAGES)
        self.servers = {}
        self.clients = {'pekoe': [build / 'jmh-like-bench/unary-client']}
        self.results = {}

    def run_client(self, peer, name, at_once, calls):
        """One client against pekoe's server."""
        if peer not in self.clients:
            return
        command = ['taskset', '-c', '1', *self.clients[peer],
                   f'127.0.0.1:{self.servers["pekoe"].port}', calls, at_once]
        done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=120, check=False)
        if done.returncode != 0:
            sys.exit(f'{peer}, {name}: {done.stderr}')
        values = {key: float(value) for key, value in re.findall(r'(\w+)=([\d.]+)', done.stdout)}
        self.results.setdefault(name, {}).setdefault(peer, []).append(
            {'cpu': values['cpu_us'], 'rate': values['rate']})

    def run(self, peer, row):
        name, connections, streams, requests, path, body, share = row
        if peer not in self.servers or (peer == 'echo floor' and path != UNARY):
            return
        if name.startswith('h2load'):
            if peer not in ('echo floor', 'grpc-js'):  # for grpc-js our own load is enough
                self.run_h2load(peer, row)
            return
        server = self.servers[peer]
        command = ['taskset', '-c', '1', self.load, '--connect', f'127.0.0.1:{server.port}',
                   '--connections', str(connections), '--streams', str(streams),
                   '--requests', str(requests), '--warm-up', str(max(requests // 10, 1)),
                   '--server', str(server.process.pid)]
        command += ['--echo'] if peer == 'echo floor' else ['--path', path, '--body',
                                                            str(self.bodies[body])]
        done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=120, check=False)
        if done.returncode != 0:
            sys.exit(f'{peer}, {name}: {done.stderr}')
        values = {key: float(value) for key, value in re.findall(r'(\w+)=([\d.]+)', done.stdout)}
        values['cpu'] = values['server_cpu_us'] / share
        values['rate'] *= share
        self.results.setdefault(name, {}).setdefault(peer, []).append(values)

    def run_h2load(self, peer, row):
        name, connections, streams, requests, path, body, _ = row
        server = self.servers[peer]
        before = cpu_seconds(server.process.pid)
        done = subprocess.run(
            ['taskset', '-c', '1', 'h2load', '-c', str(connections), '-m', str(streams),
             '-n', str(requests), '-d', self.bodies[body], '-H', 'content-type: application/grpc',
             '-H', 'te: trailers', f'http://127.0.0.1:{server.port}{path}'],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False)
        used = cpu_seconds(server.process.pid) - before
        answered = re.search(r'(\d+) succeeded, 0 failed, 0 errored', done.stdout)
        rate = re.search(r'finished in .*?, ([\d.]+) req/s', done.stdout)
        if not answered or int(answered[1]) != requests or not rate:
            sys.exit(f'{peer}, {name}: {done.stdout}{done.stderr}')
        values = {'cpu': used / requests * 1e6, 'rate': float(rate[1])}
        self.results.setdefault(name, {}).setdefault(peer, []).append(values)


def middle_of(rounds, key, width, digits):
    """The median, or a dash where the load generator does not tell."""
    if any(key not in one for one in rounds):
        return f'{"-":>{width}}'
    return f'{statistics.median(one[key] for one in rounds):{width},.{digits}f}'


def table(results, peers):
    lines = []
    for name, by_peer in results.items():
        lines.append(f'\n{name}\n  {"":18}{"CPU us":>10}{"spread":>8}{"per second":>14}'
                     f'{"p50 us":>10}{"p99 us":>10}{"x pekoe":>9}')
        ours = statistics.median(r['cpu'] for r in by_peer['pekoe'])
        for peer in peers:
            if peer not in by_peer:
                continue
            cpu = [r['cpu'] for r in by_peer[peer]]
            middle = statistics.median(cpu)
            rounds = by_peer[peer]
            lines.append(f'  {peer:18}{middle:10.3f}{(max(cpu) - min(cpu)) / middle:8.0%}'
                         f'{middle_of(rounds, "rate", 14, 0)}{middle_of(rounds, "p50_us", 10, 1)}'
                         f'{middle_of(rounds, "p99_us", 10, 1)}{middle / ours:9.2f}')
    return '\n'.join(lines)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('build', type=pathlib.Path)
    parser.add_argument('--rounds', type=int, default=5)
    parser.add_argument('--rows', default='', help='only rows whose names have a match of this pattern')
    parser.add_argument('--quick', action='store_true', help='a tenth of the requests')
    parser.add_argument('--json', type=pathlib.Path)
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
        commands = {'pekoe': [arguments.build.resolve() / 'jmh-like-bench/peers-greeter', '--listen',
                              '127.0.0.1:{port}'],
                    **peers}
        try:
            for name, command in commands.items():
                bench.servers[name] = Server(command)
            for number in range(arguments.rounds):
                print(f'round {number + 1} of {arguments.rounds}', file=sys.stderr, flush=True)
                for row in rows:
                    for peer in commands:
                        bench.run(peer, row)
                for name, (at_once, calls) in clients.items():
                    for peer in commands:
                        bench.run_client(peer, name, at_once, calls)
        finally:
            for server in bench.servers.values():
                server.stop()
    cpu = next((line.split(':')[1].strip() for line in open('/proc/cpuinfo')
                if line.startswith('model name')), 'unknown')
    print(f'{cpu}, {os.cpu_count()} processors, Linux {os.uname().release}, '
          f'{arguments.rounds} interleaved rounds')
    print(table(bench.results, list(commands)))
    if arguments.json:
        arguments.json.write_text(json.dumps(bench.results, indent=1))


if __name__ == '__main__':
    main()
