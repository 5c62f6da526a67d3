#!/usr/bin/python3
"""Builds the program of user/ with pekoe as a meson subproject, and runs it. TAP on stdout."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]


def main():
    with tempfile.TemporaryDirectory() as folder:
        user = pathlib.Path(folder) / 'user'
        shutil.copytree(HERE / 'user', user)
        (user / 'subprojects').mkdir(exist_ok=True)
        # A link would do for reading, but meson wants subprojects inside of the source tree.
        shutil.copytree(ROOT, user / 'subprojects/pekoe', ignore=shutil.ignore_patterns(
            '.git', 'build', 'build-*', 'node_modules', 'corpus', '__pycache__'))
        build = user / 'build'
        # Unoptimised: this asks whether it builds, not how fast it runs.
        steps = [
            ['meson', 'setup', build, user, '--wrap-mode=nodownload', '-Doptimization=0',
             '--force-fallback-for=pekoe'],
            ['ninja', '-C', build, 'user'],
            [build / 'user'],
        ]
        names = ['it configures', 'it builds', 'it runs']
        for number, (name, step) in enumerate(zip(names, steps), 1):
            run = subprocess.run([str(part) for part in step], text=True, check=False,
                                 env=dict(os.environ, CC=os.environ.get('CC', 'cc')),
                                 stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT)
            print(f'{"ok" if run.returncode == 0 else "not ok"} {number} - {name}')
            if run.returncode != 0:
                print(run.stdout, file=sys.stderr)
                print('1..3')
                return 1
        print('1..3')
        return 0


if __name__ == '__main__':
    sys.exit(main())
