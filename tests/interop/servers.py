"""Starts a server for a test and ends it again. Used by the tests here and by the demo."""
import os
import re
import signal
import subprocess
import threading


def test_data():
    """The folder of ca.pem, server1.pem and server1.key for a test over TLS; None: without TLS.

    TLS_TEST_DATA names it; `ruby` is the one with gRPC's own test CA, which ruby-grpc brings along.
    """
    folder = os.environ.get('TLS_TEST_DATA')
    if folder != 'ruby':
        return folder
    run = subprocess.run(['ruby', '-e', 'puts Gem::Specification.find_by_name("grpc").gem_dir'],
                         capture_output=True, text=True, check=True)
    return run.stdout.strip() + '/src/ruby/spec/testdata'


class Server:
    """A server process that said where it listens.

    The program gets `--listen 127.0.0.1:0` unless the command names an address, and prints a line
    that contains the real address as soon as it can be called.
    """

    def __init__(self, command, wait_seconds=20):
        if '--listen' not in command:
            command = [*command, '--listen', '127.0.0.1:0']
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, text=True)
        limit = threading.Timer(wait_seconds, self.process.kill)
        limit.start()
        line = self.process.stdout.readline()
        limit.cancel()
        found = re.search(r'(127\.0\.0\.1|localhost|\[::1\]):(\d+)', line)
        if not found:
            self.process.kill()
            self.process.wait()
            raise RuntimeError(f'{command[0]} did not say where it listens, but: {line!r}')
        self.address = found.group(0)
        self.port = int(found.group(2))
        # Nobody may block on a pipe that is not read.
        threading.Thread(target=self.process.stdout.read, daemon=True).start()

    def stop(self, wait_seconds=20):
        """Asks for a graceful end; returns the exit code, None where it had to be killed."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(wait_seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return None
