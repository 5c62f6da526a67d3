#!/usr/bin/python3
"""Starts the greeter and calls it with clients that know nothing of pekoe.

Run by `./dev demo`, which builds everything first. Three of them speak gRPC; the fourth is a web
page, which the gateway serves and whose calls it passes on. The servers stay up afterwards, to be
called by hand; with --once they are stopped, and the exit code is 0 only if every call was right.
"""
import argparse
import importlib.util
import json
import pathlib
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
PATH = '/helloworld.Greeter/SayHello'


class Demo:
    """Prints each call on a line of its own and remembers whether all were right."""

    def __init__(self, address):
        self.address = address
        self.wrong = 0

    def check(self, what, got, wanted):
        right = got == wanted
        self.wrong += not right
        print(f'  {what:42} -> {got}' + ('' if right else f'   WRONG, not {wanted}'), flush=True)

    def grpcio(self, build):
        """python3-grpcio: answers, an error, a method that is not there, many calls at once."""
        sys.path.insert(0, str(build / 'examples/greeter'))
        import grpc
        from helloworld_pb2 import HelloReply, HelloRequest

        print(f'\nDebian\'s python3-grpcio {grpc.__version__}')
        channel = grpc.insecure_channel(self.address, options=[('grpc.enable_http_proxy', 0)])

        def call(name, path=PATH, **options):
            method = channel.unary_unary(path, HelloRequest.SerializeToString,
                                         HelloReply.FromString)
            try:
                return method(HelloRequest(name=name), timeout=10, **options).message
            except grpc.RpcError as error:
                return f'{error.code().name}: {error.details()}'

        self.check('SayHello "world"', call('world'), 'Hello, world')
        self.check('SayHello "Grüße, 世界"', call('Grüße, 世界'), 'Hello, Grüße, 世界')
        self.check('SayHello ""', call(''), 'INVALID_ARGUMENT: name is empty')
        self.check('a method that is not there',
                   call('x', path='/helloworld.Greeter/Nothing').split(':')[0], 'UNIMPLEMENTED')
        self.streams(channel, HelloRequest, HelloReply)
        names = [str(i) for i in range(1000)]
        method = channel.unary_unary(PATH, HelloRequest.SerializeToString, HelloReply.FromString)
        calls = [method.future(HelloRequest(name=name), timeout=30) for name in names]
        right = sum(c.result().message == f'Hello, {n}' for c, n in zip(calls, names))
        self.check('1000 calls at once on one connection', f'{right} right answers',
                   '1000 right answers')
        channel.close()

    def streams(self, channel, request_type, reply_type):
        """One call of each streaming kind."""
        coded = (request_type.SerializeToString, reply_type.FromString)
        names = [request_type(name=name) for name in ('Anna', 'Bo', 'Cem')]
        service = '/helloworld.Greeter/'
        talk = channel.stream_unary(service + 'ItKeepsTalking', *coded)
        self.check('ItKeepsTalking "Anna" "Bo" "Cem"', talk(iter(names), timeout=10).message,
                   'Hello, Anna, Bo, Cem')
        replies = channel.unary_stream(service + 'ItKeepsReplying', *coded)
        got = [reply.message for reply in replies(request_type(name='Bo'), timeout=10)]
        self.check('ItKeepsReplying "Bo"', ' | '.join(got), 'Hello, B | Hello, o')
        chat = channel.stream_stream(service + 'StreamHellos', *coded)
        got = [reply.message for reply in chat(iter(names), timeout=10)]
        self.check('StreamHellos "Anna" "Bo" "Cem"', ' | '.join(got),
                   'Hello, Anna | Hello, Bo | Hello, Cem')

    def chat(self, build, server_class):
        """The chat room of examples/chat, which has a server of its own."""
        path = ROOT / 'examples/chat/demo.py'
        room = importlib.util.module_from_spec(importlib.util.spec_from_file_location('room', path))
        room.__spec__.loader.exec_module(room)
        room.chat(build, server_class, self.check)

    def request_file(self, folder, name):
        """A file with the bytes of one request: prefix, then the message."""
        message = bytes([0x0a, len(name)]) + name.encode()
        path = pathlib.Path(folder) / 'request.grpc'
        path.write_bytes(struct.pack('>BI', 0, len(message)) + message)
        return path

    def http2(self, command):
        """The command that calls SayHello with a plain HTTP/2 program."""
        return [*command, '-H', 'content-type: application/grpc', '-H', 'te: trailers', '-d',
                'request.grpc', f'http://{self.address}{PATH}']

    def nghttp(self, folder):
        """nghttp: the same call, seen as HTTP/2."""
        command = self.http2(['nghttp', '--no-dep', '-v'])
        print('\n' + ' '.join(repr(c) if ' ' in c else c for c in command))
        run = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors='replace',
                             timeout=30, check=False)
        for header, value in ((':status', '200'), ('content-type', 'application/grpc'),
                              ('grpc-status', '0')):
            found = re.findall(rf'recv \(stream_id=\d+\S*\) {header}: (.*)', run.stdout)
            self.check(header, found[-1] if found else 'not there', value)

    def h2load(self, folder):
        """h2load: many calls, 100 at a time."""
        command = self.http2(['h2load', '-n', '10000', '-c', '1', '-m', '100'])
        print('\n' + ' '.join(repr(c) if ' ' in c else c for c in command))
        run = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60,
                             check=False)
        for line in run.stdout.splitlines():
            if line.startswith(('finished in', 'requests:')):
                print('  ' + line)
        codes = re.search(r'status codes: (\d+) 2xx', run.stdout)
        self.check('answers with HTTP status 200', codes.group(1) if codes else 'none', '10000')

    def page(self, url):
        """The page is there; headless Chromium or, without it, Node makes its calls."""
        print(f'\nthe page {url}')
        for name, kind in (('', 'text/html'), ('page.mjs', 'text/javascript'),
                           ('style.css', 'text/css')):
            with urllib.request.urlopen(url + name, timeout=10) as response:
                self.check('/' + name, response.headers.get_content_type(), kind)
        if not shutil.which('node'):
            print('  nothing here can run it: Node is missing')
            return
        run = subprocess.run(['node', str(ROOT / 'examples/greeter/page_check.mjs'), url],
                             stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120,
                             check=False)
        for line in run.stdout.splitlines():
            what, got, wanted = json.loads(line)
            if wanted is None:
                print(f'  tried by {got}')
            else:
                self.check(what, got, wanted)
        if run.returncode != 0:
            self.check('the check of the page', run.stderr.strip()[-600:], '')


def start_gateway(server_class, build, upstream, anywhere):
    """The gateway with the page, on port 8080 unless that is taken or any will do."""
    command = [str(build / 'gateway/pekoe-gateway'), f'--upstream={upstream}',
               f'--static={ROOT / "examples/greeter/page"}', '--drain-timeout=2s', '--listen']
    if not anywhere:
        try:
            return server_class([*command, '127.0.0.1:8080'])
        except RuntimeError:
            print('the page goes to another port', file=sys.stderr)
    return server_class([*command, '127.0.0.1:0'])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--build', type=pathlib.Path, default=ROOT / 'build')
    parser.add_argument('--once', action='store_true', help='stop when the calls are done')
    parser.add_argument('--listen', default='127.0.0.1:50051', metavar='ADDRESS')
    options = parser.parse_args()

    sys.path.insert(0, str(ROOT / 'tests/interop'))
    from servers import Server

    program = options.build / 'examples/greeter/greeter-server'
    address = '127.0.0.1:0' if options.once else options.listen
    try:
        server = Server([str(program), '--listen', address])
    except RuntimeError as error:
        print(error, file=sys.stderr)
        if not options.once:
            print('is the port taken? ./dev demo --listen 127.0.0.1:0 finds a free one',
                  file=sys.stderr)
        return 1
    print(f'{program} listens on {server.address}')
    demo = Demo(server.address)
    gateway, stopped = None, []
    try:
        gateway = start_gateway(Server, options.build, server.address, options.once)
        page = f'http://{gateway.address}/'
        with tempfile.TemporaryDirectory() as folder:
            demo.request_file(folder, 'world')
            demo.grpcio(options.build)
            demo.nghttp(folder)
            demo.h2load(folder)
            demo.chat(options.build, Server)
            demo.page(page)
            if not options.once:
                print(f'''
The greeter stays up on {server.address} until you press Ctrl-C. Call it from a page:
  {page}
or yourself:
  printf '\\0\\0\\0\\0\\7\\n\\5world' >/tmp/request.grpc
  nghttp --no-dep -v -H 'content-type: application/grpc' -H 'te: trailers' \\
      -d /tmp/request.grpc http://{server.address}{PATH}
or with any gRPC client and examples/greeter/helloworld.proto.''', flush=True)
                signal.signal(signal.SIGTERM, signal.default_int_handler)
                server.process.wait()
    except KeyboardInterrupt:
        pass
    finally:
        stopped = [one.stop() for one in (gateway, server) if one]
    if options.once:
        print()
        demo.check('gateway and server, asked to end, end with', stopped, [0, 0])
        print('every call was right' if not demo.wrong else f'{demo.wrong} wrong')
    return 1 if demo.wrong else 0


if __name__ == '__main__':
    sys.exit(main())
