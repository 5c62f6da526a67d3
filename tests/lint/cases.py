#!/usr/bin/python3
"""Every test that docs/cases.md names is there, and every row names one. TAP."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def missing_of(row):
    """What a row names and the tree has not."""
    names = re.findall(r'`([\w/]+\.(?:c|py))(?:: (\w+))?`', row)
    for name, test in names:
        file = ROOT / 'tests' / name
        if not file.exists():
            yield f'tests/{name}: no such file'
        elif test and not re.search(rf'^Test\(\w+, {test}\b', file.read_text(), re.MULTILINE):
            yield f'tests/{name}: no test {test}'
    if not names:
        yield f'no test: {row}'


def main():
    rows = [line for line in (ROOT / 'docs/cases.md').read_text().splitlines()
            if line.startswith('|') and 'https://' in line]
    missing = [problem for row in rows for problem in missing_of(row)]
    failed = missing or not rows
    print('1..1')
    print(f'{"not ok" if failed else "ok"} 1 - each of {len(rows)} rows of docs/cases.md is tested')
    for line in missing:
        print(f'# {line}')
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
