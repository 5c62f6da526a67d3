#!/usr/bin/python3
"""gRPC's own interop server as Debian's ruby-grpc ships it: ruby_server.py --listen 127.0.0.1:0.

The program binds every interface, so a copy of it that binds the loopback is what runs.
"""
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from servers import test_data


def main():
    gem = subprocess.run(['ruby', '-e', 'puts Gem::Specification.find_by_name("grpc").gem_dir'],
                         capture_output=True, text=True, check=True).stdout.strip()
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(gem + '/src/ruby/pb', folder + '/pb')
        shutil.copytree(gem + '/src/ruby/spec/testdata', folder + '/spec/testdata')
        program = pathlib.Path(folder, 'pb/test/server.rb')
        program.write_text(program.read_text().replace('0.0.0.0:', '127.0.0.1:'))
        server = subprocess.Popen(['ruby', '-I' + gem + '/src/ruby/lib', str(program), '--port',
                                   str(port), *(['--use_tls', 'true'] if test_data() else [])],
                                  stdin=subprocess.DEVNULL,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        signal.signal(signal.SIGTERM, lambda *_: server.kill())
        for _ in range(200):
            try:
                socket.create_connection(('127.0.0.1', port), 1).close()
                break
            except OSError:
                time.sleep(0.05)
        print(f'listening on 127.0.0.1:{port}', flush=True)
        server.wait()
    return 0


if __name__ == '__main__':
    sys.exit(main())
