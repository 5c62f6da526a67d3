#!/usr/bin/python3
"""Every C file reads as clang-format-14 would write it. TAP on stdout."""
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ['include', 'core', 'future', 'marshalling', 'handlers', 'services', 'transport',
           'codegen', 'gateway', 'jmh-like-bench', 'tests', 'examples']


def main():
    tool = shutil.which('clang-format-14')
    if not tool:
        print('1..0 # SKIP clang-format-14 is not installed')
        return 0
    files = [str(p.relative_to(ROOT)) for folder in FOLDERS
             for p in sorted((ROOT / folder).rglob('*.[ch]'))
             if 'golden' not in p.parts and 'node_modules' not in p.parts]
    run = subprocess.run([tool, '--dry-run', '-Werror', *files], cwd=ROOT, check=False,
                         capture_output=True, text=True)
    ill = sorted({line.split(':', 1)[0] for line in run.stderr.splitlines() if 'error:' in line})
    print(f'{"not ok" if ill or run.returncode else "ok"} 1 - {len(files)} files')
    for name in ill:
        print(name, '(./dev format rewrites it)', file=sys.stderr)
    print('1..1')
    return bool(ill or run.returncode)


if __name__ == '__main__':
    sys.exit(main())
