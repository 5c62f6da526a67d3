#!/usr/bin/python3
"""Starts a server, runs one outside client against it, ends it.

usage: run.py CLIENT SERVER [SERVER'S ARGUMENT...]

CLIENT is a .py or .mjs file of this folder, SERVER a program or a python file. The client's TAP is passed on, with one more test: the server
ends gracefully when asked to. With TLS_TEST_DATA (see servers.py) all of it goes over TLS.
"""
import pathlib
import re
import resource
import shutil
import subprocess
import sys

from servers import Server, test_data

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]


def client_command(client, address):
    if client.suffix == '.py':
        return [sys.executable, str(client), address]
    return [shutil.which('node'), str(client), address,
            str(ROOT / 'examples/greeter/helloworld.proto')]


def main():
    client = HERE / sys.argv[1]
    if client.suffix == '.mjs' and not (shutil.which('node') and (ROOT / 'node_modules').is_dir()):
        print('1..0 # SKIP node or node_modules is missing (./dev setup installs them)')
        return 0
    # Servers that are to hold many connections need as many descriptors as they may have.
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    command = sys.argv[2:]
    if command[0].endswith('.py'):
        command = [sys.executable, *command]
    elif test_data():
        command += ['--use_tls=true', '--tls_cert_file', test_data() + '/server1.pem',
                    '--tls_key_file', test_data() + '/server1.key']
    server = Server(command)
    run = subprocess.run(client_command(client, server.address), stdin=subprocess.DEVNULL,
                         stdout=subprocess.PIPE, text=True, check=False)
    code = server.stop()
    plan = re.search(r'^1\.\.(\d+)$', run.stdout, re.MULTILINE)
    tests = int(plan.group(1)) if plan else 0
    print(re.sub(r'^1\.\.\d+\n', '', run.stdout, flags=re.MULTILINE), end='')
    print(f'{"ok" if code == 0 else "not ok"} {tests + 1} - the server ends with 0 on SIGTERM')
    if code != 0:
        print('the server', 'had to be killed' if code is None else f'ended with {code}',
              file=sys.stderr)
    print(f'1..{tests + 1}')
    return 1 if run.returncode != 0 or code != 0 or not plan else 0


if __name__ == '__main__':
    sys.exit(main())
