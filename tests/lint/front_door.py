#!/usr/bin/python3
"""What ./dev says to somebody who calls it wrongly: at once, before anything is built. TAP."""
import pathlib
import subprocess
import sys

DEV = pathlib.Path(__file__).resolve().parents[2] / 'dev'

# Arguments, whether they are right, and what must be said.
CASES = [
    ([], True, 'usage: ./dev COMMAND'),
    (['help'], True, 'usage: ./dev COMMAND'),
    (['--help'], True, 'usage: ./dev COMMAND'),
    (['biuld'], False, "there is no command 'biuld'"),
    (['build', 'arena'], False, "./dev build takes no arguments; what is 'arena'?"),
    (['setup', 'now'], False, 'takes no arguments'),
    (['setup', '--help'], True, 'usage: ./dev COMMAND'),
    (['test', '-h'], True, 'usage: ./dev COMMAND'),
    (['format', 'core'], False, 'takes no arguments'),
    (['lint', 'core'], False, 'takes no arguments'),
    (['demo', '--twice'], False, "what is '--twice'?"),
    (['demo', '--once', '--listen'], False, '--listen wants an address'),
    (['fuzz'], False, 'usage: ./dev fuzz SECONDS'),
    (['fuzz', '1m'], False, 'usage: ./dev fuzz SECONDS'),
]


def main():
    failures = 0
    print(f'1..{len(CASES)}')
    for number, (arguments, right, said) in enumerate(CASES, 1):
        run = subprocess.run([DEV, *arguments], capture_output=True, text=True, timeout=60)
        ok = (run.returncode == 0) == right and said in (run.stdout if right else run.stderr)
        failures += not ok
        print(f'{"ok" if ok else "not ok"} {number} - ./dev {" ".join(arguments)}')
        if not ok:
            print(f'# {run.returncode}: {run.stdout[-300:]!r} {run.stderr[-300:]!r}')
    return failures > 0


if __name__ == '__main__':
    sys.exit(main())
