#!/usr/bin/python3
"""pekoe-gateway beside nginx's grpc_pass: gRPC in front of gRPC, the same calls to the same server.

usage: gateway.py BUILD [--rounds N] [--quick] [--json FILE]

The proxy has CPU 0 for itself; the upstream (peers-greeter) and the load share CPU 1. The figure is
the proxy's own CPU time per call or message (user and system, one worker), the median of interleaved
rounds, with the spread as a share of it. Then what the gateway's memory grows by for each idle
connection and for each open stream.
"""
import argparse
import functools
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time

from peers import REPLIES, ROOT, STREAM_MESSAGES, UNARY, Bench, Failure, Server, free_port, \
    play_rounds, table

sys.path.insert(0, str(ROOT / 'tests/interop'))
from hostile import PREFACE, fields, frame, message  # noqa: E402

NGINX = '''daemon off; worker_processes 1; pid {folder}/nginx.pid; error_log stderr crit;
worker_rlimit_nofile 20000;
events {{ worker_connections 16384; }}
http {{
  access_log off; client_max_body_size 0; tcp_nodelay on;
  client_body_temp_path {folder}/b; proxy_temp_path {folder}/p; fastcgi_temp_path {folder}/f;
  uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  upstream up {{ server 127.0.0.1:{upstream}; keepalive 1024; keepalive_requests 1000000000; }}
  server {{
    listen 127.0.0.1:{port} http2; keepalive_requests 1000000000; http2_max_concurrent_streams 256;
    location / {{ grpc_pass grpc://up; }}
  }}
}}
'''


class Nginx:
    """Its worker does the work; the load is told of that one."""

    class Worker:
        def __init__(self, pid):
            self.pid = pid

    def __init__(self, folder, upstream):
        self.port = free_port()
        folder.chmod(0o755)
        (folder / 'nginx.conf').write_text(NGINX.format(folder=folder, upstream=upstream,
                                                        port=self.port))
        self.master = subprocess.Popen(['taskset', '-c', '0', 'nginx', '-p', folder, '-c',
                                        folder / 'nginx.conf', '-e', 'stderr'],
                                       stdin=subprocess.DEVNULL)
        limit = time.monotonic() + 10
        children = []
        while not children:
            if time.monotonic() > limit:
                raise Failure('nginx does not start')
            time.sleep(0.05)
            path = pathlib.Path(f'/proc/{self.master.pid}/task/{self.master.pid}/children')
            children = path.read_text().split()
        self.process = self.Worker(int(children[0]))

    def pause(self):
        os.kill(self.process.pid, signal.SIGSTOP)

    def go_on(self):
        os.kill(self.process.pid, signal.SIGCONT)

    def stop(self):
        self.go_on()
        self.master.terminate()
        self.master.wait()


# ---- Memory ----

def resident(pid):
    for line in pathlib.Path(f'/proc/{pid}/status').read_text().splitlines():
        if line.startswith('VmRSS'):
            return int(line.split()[1]) * 1024
    return 0


def connected(port, first):
    """A connection on which the first bytes have been sent, and something has come back."""
    one = socket.create_connection(('127.0.0.1', port))
    one.sendall(first)
    one.recv(65536)
    return one


def memory(build, upstream, count):
    """[(what, how many, bytes for each, bytes in all)]"""
    gateway = Server([build / 'gateway/pekoe-gateway', '--listen', '127.0.0.1:{port}',
                      f'--upstream=127.0.0.1:{upstream}'])
    rows, kept = [], []
    call = message(b'world')
    web = (b'POST /helloworld.Greeter/SayHello HTTP/1.1\r\nhost: localhost\r\ncontent-type: '
           b'application/grpc-web+proto\r\ncontent-length: %d\r\n\r\n' % len(call) + call)
    slow = fields(b'ItKeepsReplying', [(b'pause-ms', b'600000')])
    streams = [PREFACE + b''.join(frame(1, 4, stream, slow) + frame(0, 1, stream, call)
                                  for stream in range(1, 201, 2))] * 20

    def grow(what, firsts, each=1):
        before = resident(gateway.process.pid)
        kept.extend([connected(gateway.port, first) for first in firsts])
        time.sleep(0.5)
        grown = resident(gateway.process.pid) - before
        number = len(firsts) * each
        rows.append((what, number, grown / number, resident(gateway.process.pid)))

    try:
        connected(gateway.port, web).close()
        grow('idle HTTP/1.1 connection, after a call', [web] * (count // 2))
        grow('idle HTTP/2 connection', [PREFACE] * (count // 2))
        grow('open server stream, 100 on a connection', streams, 100)
    finally:
        for one in kept:
            one.close()
        gateway.stop()
    return rows


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('build', type=pathlib.Path)
    parser.add_argument('--rounds', type=int, default=5)
    parser.add_argument('--quick', action='store_true', help='a tenth of the calls')
    parser.add_argument('--json', type=pathlib.Path)
    arguments = parser.parse_args()
    build = arguments.build.resolve()
    scale = 10 if arguments.quick else 1
    rows = [('unary, 1 connection, 1 at once', 1, 1, 20000 // scale, UNARY, 'hello', 1),
            ('unary, 10 connections, 10 at once', 10, 10, 100000 // scale, UNARY, 'hello', 1),
            ('server stream of 1,000, 1 connection, 10 at once (per message)', 1, 10,
             300 // scale, REPLIES, 'many', STREAM_MESSAGES)]
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        bench = Bench(build, folder)
        running = []
        try:
            upstream = Server([build / 'jmh-like-bench/peers-greeter', '--listen',
                               '127.0.0.1:{port}'], cpu=1)
            running.append(upstream)
            bench.starts = {
                'pekoe': functools.partial(Server, [build / 'gateway/pekoe-gateway', '--listen',
                                                    '127.0.0.1:{port}',
                                                    f'--upstream=127.0.0.1:{upstream.port}']),
                'nginx': functools.partial(Nginx, folder, upstream.port)}
            play_rounds(bench, arguments.rounds, rows, {})
            slow = Server([build / 'examples/greeter/greeter-server', '--listen',
                           '127.0.0.1:{port}'], cpu=1)
            running.append(slow)
            held = memory(build, slow.port, 10000 // scale)
        finally:
            for server in running:
                server.stop()
    print(f'{os.cpu_count()} processors, Linux {os.uname().release}, '
          f'{arguments.rounds} interleaved rounds')
    print(table(bench.results, ['pekoe', 'nginx']))
    if bench.failures:
        print(bench.told_failures())
    print(f'\n{"the gateway holds":42}{"how many":>10}{"bytes each":>12}{"RSS then, MB":>14}')
    for what, number, each, total in held:
        print(f'{what:42}{number:10,}{each:12,.0f}{total / 1e6:14.1f}')
    if arguments.json:
        arguments.json.write_text(json.dumps({'cpu': bench.results, 'memory': held}, indent=1))
    return 1 if bench.failures else 0


if __name__ == '__main__':
    sys.exit(main())
