#!/usr/bin/python3
"""gRPC's own interop client as Debian's ruby-grpc ships it, case by case: ruby_client.py ADDRESS.

TAP on stdout. The cases are those of gRPC's doc/interop-test-descriptions.md that need no cloud.
"""
import subprocess
import sys

from servers import test_data

CASES = ['empty_unary', 'large_unary', 'client_compressed_unary', 'client_streaming',
         'client_compressed_streaming', 'server_streaming', 'ping_pong', 'empty_stream',
         'timeout_on_sleeping_server', 'cancel_after_begin', 'cancel_after_first_response',
         'unimplemented_method', 'unimplemented_service', 'status_code_and_message',
         'custom_metadata']


def client_program():
    """The client's path, NULL where the package is not installed."""
    try:
        run = subprocess.run(['ruby', '-e', 'puts Gem::Specification.find_by_name("grpc").gem_dir'],
                             capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return run.stdout.strip() + '/src/ruby/pb/test/client.rb'


def main():
    program = client_program()
    if not program:
        print('1..0 # SKIP ruby-grpc is not installed (./dev setup installs it)')
        return 0
    host, port = sys.argv[1].rsplit(':', 1)
    tls = ['--use_tls', 'true', '--use_test_ca', 'true', '--server_host_override',
           'foo.test.google.fr'] if test_data() else []
    failures = 0
    for number, case in enumerate(CASES, 1):
        run = subprocess.run(['ruby', program, '--server_host', host, '--server_port', port,
                              '--test_case', case, *tls], stdin=subprocess.DEVNULL, capture_output=True,
                             text=True, timeout=60, check=False)
        right = run.returncode == 0 and f'OK: {case}' in run.stdout
        failures += not right
        print('ok' if right else 'not ok', number, '-', case, flush=True)
        if not right:
            print(run.stdout, run.stderr, file=sys.stderr)
    print(f'1..{len(CASES)}')
    return failures != 0


if __name__ == '__main__':
    sys.exit(main())
