#!/usr/bin/python3
"""Follows the README's tutorial to the letter, against an installation under a DESTDIR.

usage: tutorial.py BUILD. The code blocks of README.md are written to the files that the text names,
the commands are run, and what the client prints must be what the README says. TAP on stdout.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from installed import Installation, run

README = HERE.parents[1] / 'README.md'
BLOCK = re.compile(r'^```(\w*)\n(.*?)^```$', re.MULTILINE | re.DOTALL)
PORT = '127.0.0.1:50051'


def blocks():
    text = README.read_text()
    section = text[text.index('## Ten minutes to a service'):]
    section = section[:section.index('\n## ', 10)]
    return [(kind, body) for kind, body in BLOCK.findall(section)]


def follow(it, folder):
    """Returns what the client printed and what it should have."""
    found = blocks()
    by_kind = {kind: body for kind, body in found if kind != 'sh'}
    # Another program may have the tutorial's port: the test takes one that is free.
    port = '127.0.0.1:50951'
    for kind, name in (('proto', 'greet.proto'), ('c', 'server.c'), ('python', 'client.py')):
        (folder / name).write_text(by_kind[kind].replace(PORT, port))
    plugin = it.under(it.prefix / 'bin')
    environment = dict(it.environment, PATH=f'{plugin}:{os.environ["PATH"]}')
    commands = [line for kind, body in found if kind == 'sh' for line in body.splitlines()]
    server = None
    try:
        for line in commands:
            if line.endswith('&'):
                server = subprocess.Popen([line.rstrip('& ')], cwd=folder, env=environment,
                                          stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
                assert b'serving' in server.stdout.readline()
            else:
                printed = run('sh', '-c', line, cwd=folder, env=environment, timeout=120)
    finally:
        if server:
            server.kill()
            server.wait()
    return printed, by_kind['']


def main():
    with tempfile.TemporaryDirectory() as destdir:
        destdir = pathlib.Path(destdir)
        folder = destdir / 'tutorial'
        folder.mkdir()
        begun = time.monotonic()
        try:
            printed, wanted = follow(Installation(pathlib.Path(sys.argv[1]), destdir), folder)
            right = printed == wanted
            problem = f'printed\n{printed}instead of\n{wanted}'
        except AssertionError as error:
            right, problem = False, str(error)
    print('1..1')
    print(f'{"ok" if right else "not ok"} 1 - the tutorial of README.md does what it says '
          f'({time.monotonic() - begun:.1f} s)')
    if not right:
        print('\n'.join(f'# {line}' for line in problem.splitlines()))
    return 0 if right else 1


if __name__ == '__main__':
    sys.exit(main())
