#!/usr/bin/python3
"""The counter of the suite itself: tools/run_tests.py over small made-up projects.

What it must not do is to call a run good in which a program ran nothing, was skipped in CI, hung,
died, or in which a sanitizer wrote something. TAP on stdout.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]

# name, protocol, what the program does, the last line, the exit code, the exit code in CI
CASES = [
    ('two tests of one program', 'tap', 'echo ok 1; echo ok 2; echo 1..2', '2 passed, 0 failed', 0, 0),
    ('a program without tap', 'exitcode', 'exit 0', '1 passed, 0 failed', 0, 0),
    ('a failing test', 'tap', 'echo not ok 1; echo ok 2; echo 1..2', '1 passed, 1 failed', 1, 1),
    ('a failing program', 'exitcode', 'exit 1', '0 passed, 1 failed', 1, 1),
    ('a skipped test', 'tap', 'echo ok 1; echo "ok 2 # SKIP why"; echo 1..2',
     '1 passed, 0 failed, 1 skipped', 0, 1),
    ('a skipped program', 'exitcode', 'exit 77', '0 passed, 0 failed, 1 skipped', 0, 1),
    ('a program skipped by its plan', 'tap', 'echo "1..0 # SKIP why"',
     '0 passed, 0 failed, 1 skipped', 0, 1),
    ('a program that ran no test', 'tap', 'echo 1..0', '0 passed, 1 failed', 1, 1),
    ('a program that printed nothing', 'tap', 'exit 0', '0 passed, 1 failed', 1, 1),
    ('fewer tests than planned', 'tap', 'echo 1..3; echo ok 1', '1 passed, 1 failed', 1, 1),
    ('a program that dies after its tests', 'tap', 'echo ok 1; echo ok 2; echo 1..2; kill -9 $$',
     '2 passed, 1 failed', 1, 1),
    ('a program that hangs', 'exitcode', 'exec sleep 60', '0 passed, 1 failed', 1, 1),
    ('a tap program that hangs', 'tap', 'echo ok 1; exec sleep 60', '1 passed, 1 failed', 1, 1),
    ('a skipped test under a sanitizer', 'tap', 'echo ok 1; echo "ok 2 # SKIP why"; echo 1..2',
     '1 passed, 0 failed, 1 skipped', 0, 0),
    ('a sanitizer that found something', 'tap',
     'echo ok 1; echo 1..1; echo leak >"${LSAN_OPTIONS#*log_path=}.1"', '1 passed, 1 failed', 1, 1),
]


def make_project(folder):
    """One project with a program for each case; returns its build folder."""
    lines = ["project('made-up')"]
    for number, (_, protocol, script, *_) in enumerate(CASES, 1):
        program = folder / f'{number:02}.sh'
        program.write_text(f'#!/bin/sh\n{script}\n')
        program.chmod(0o755)
        lines.append(f"test('case{number:02}', find_program('./{program.name}'), "
                     f"protocol: '{protocol}', suite: 'made-up', "
                     f"timeout: {1 if 'sleep' in script else 60})")
    (folder / 'meson.build').write_text('\n'.join(lines) + '\n')
    build = folder / 'build'
    subprocess.run(['meson', 'setup', build, folder], check=True, capture_output=True)
    return build


def count(build, number, ci):
    """The last line and the exit code of the counter for one case."""
    options = ['--sanitizers'] if 'sanitizer' in CASES[number - 1][0] else []
    run = subprocess.run([sys.executable, ROOT / 'tools/run_tests.py', build, *options,
                          f'case{number:02}'],
                         env=dict(os.environ, CI='true' if ci else ''), check=False,
                         capture_output=True, text=True, stdin=subprocess.DEVNULL)
    return (run.stdout.splitlines() or [''])[-1], run.returncode


def main():
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        build = make_project(pathlib.Path(folder))
        for number, (name, _, _, line, code, code_in_ci) in enumerate(CASES, 1):
            got = [count(build, number, ci=False)]
            wanted = [(line, code)]
            if code != code_in_ci:
                got.append(count(build, number, ci=True))
                wanted.append((line, code_in_ci))
            failures += got != wanted
            print(f'{"ok" if got == wanted else "not ok"} {number} - {name}')
            if got != wanted:
                print(f'{name}: {got}', file=sys.stderr)
    print(f'1..{len(CASES)}')
    return failures != 0


if __name__ == '__main__':
    sys.exit(main())
