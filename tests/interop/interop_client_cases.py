#!/usr/bin/python3
"""Our interop client against one server, case by case: interop_client_cases.py ADDRESS.

INTEROP_CLIENT is the program. LACKING names the cases that this server has no answer to: they are no
cases of it, and are not counted. TAP on stdout.
"""
import os
import subprocess
import sys

from servers import test_data

CASES = ['empty_unary', 'large_unary', 'client_compressed_unary', 'server_compressed_unary',
         'client_streaming', 'client_compressed_streaming', 'server_streaming',
         'server_compressed_streaming', 'ping_pong', 'empty_stream', 'cancel_after_begin',
         'cancel_after_first_response', 'timeout_on_sleeping_server', 'custom_metadata',
         'status_code_and_message', 'special_status_message', 'unimplemented_method',
         'unimplemented_service', 'pick_first_unary', 'rpc_soak', 'channel_soak']

# A loaded machine is not what the soak cases look for.
SOAK = ['--soak_per_iteration_max_acceptable_latency_ms=10000', '--soak_overall_timeout_seconds=50']


def main():
    host, port = sys.argv[1].rsplit(':', 1)
    tls = ['--use_tls=true', '--use_test_ca=true', '--ca_file', test_data() + '/ca.pem',
           '--server_host_override', 'foo.test.google.fr'] if test_data() else []
    lacking = os.environ.get('LACKING', '').split(',')
    cases = [case for case in CASES if case not in lacking]
    failures = 0
    for number, case in enumerate(cases, 1):
        run = subprocess.run([os.environ['INTEROP_CLIENT'], '--server_host', host,
                              '--server_port', port, '--test_case', case, *tls, *SOAK],
                             stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
                             check=False)
        right = run.returncode == 0 and f'OK: {case}' in run.stdout
        failures += not right
        print('ok' if right else 'not ok', number, '-', case, flush=True)
        if not right:
            print(run.stdout, run.stderr, file=sys.stderr)
    print(f'1..{len(cases)}')
    return failures != 0


if __name__ == '__main__':
    sys.exit(main())
