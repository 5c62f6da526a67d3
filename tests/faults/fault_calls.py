"""What the tests of servers that misbehave share: calls of the client against one, and TAP of the results.

The program that is run is given the client, tests/faults/caller.c, as its only argument.
"""
import subprocess
import sys

try:
    import h2.settings
    from fault_server import Server
except ImportError:
    print('1..0 # SKIP python3-h2 is not installed (./dev setup installs it)')
    sys.exit(0)

CALLER = sys.argv[1]
MAX_STREAMS = h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS
tests = []


def test(function):
    tests.append(function)
    return function


def call(server, *arguments):
    """Runs the client; its lines, each split into code, messages and text."""
    run = subprocess.run([CALLER, '--target', server.target, *map(str, arguments)],
                         stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, timeout=60,
                         check=False)
    assert run.returncode == 0, f'the client ended with {run.returncode}'
    return [line.split(' ', 2) for line in run.stdout.splitlines()]


def one(on_request, *arguments, settings=None):
    """The end of one call."""
    server = Server(on_request, settings)
    lines = call(server, *arguments)
    server.stop()
    assert len(lines) == 1, lines
    return lines[0]


def expect(actual, wanted, what=''):
    assert actual == wanted, f'{what}: {actual!r} instead of {wanted!r}'


def codes(lines):
    return [line[0] for line in lines]


def answer(head, body=b'', trailers=None):
    """A response: fields, then bytes, then trailers (None: the body or the head is the end)."""
    def on_request(connection, stream):
        connection.head(stream, head, end=not body and trailers is None)
        if body:
            connection.data(stream, body, end=trailers is None)
        if trailers is not None:
            connection.h2.send_headers(stream, trailers, end_stream=True)
    return on_request


def main():
    failures = 0
    for number, function in enumerate(tests, 1):
        try:
            function()
            right = True
        except (AssertionError, OSError, subprocess.TimeoutExpired) as error:
            print(f'{function.__name__}: {error}', file=sys.stderr)
            right = False
        failures += not right
        print('ok' if right else 'not ok', number, '-', function.__name__, flush=True)
    print(f'1..{len(tests)}')
    return failures != 0
