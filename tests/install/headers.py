#!/usr/bin/python3
"""Each public header compiles alone, without warnings, as C and as C++: headers.py HEADER...

TAP on stdout, one test per header and language.
"""
import concurrent.futures
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
STRICT = ['-Wall', '-Wextra', '-Werror', '-fsyntax-only', f'-I{ROOT / "include"}']
LANGUAGES = [
    ('C', ['cc', '-xc', '-std=c11', '-Wstrict-prototypes', *STRICT]),
    ('C++', ['c++', '-xc++', '-std=c++11', *STRICT]),
]


def compile_alone(job):
    header, language, command = job
    # Twice: the guard holds.
    source = f'#include <pekoe/{header}>\n' * 2
    run = subprocess.run([*command, '-'], input=source, text=True, capture_output=True, check=False)
    return f'{header} as {language}', run.returncode == 0, run.stderr


def main():
    headers = [pathlib.Path(p).name for p in sys.argv[1:]]
    jobs = [(h, language, command) for h in headers for language, command in LANGUAGES]
    failures = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for number, (name, ok, log) in enumerate(pool.map(compile_alone, jobs), 1):
            failures += not ok
            print(f'{"ok" if ok else "not ok"} {number} - {name}')
            if not ok:
                print(log, file=sys.stderr)
    print(f'1..{len(jobs)}')
    return failures != 0 or not jobs


if __name__ == '__main__':
    sys.exit(main())
