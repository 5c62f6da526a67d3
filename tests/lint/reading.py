#!/usr/bin/python3
"""Every function that docs/reading.md names is defined in the file that it is named under. TAP."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def main():
    text = (ROOT / 'docs/reading.md').read_text()
    known = re.compile(r'`([\w/]+\.[ch])`')
    missing = []
    sections = text.split('\n## ')[1:]
    for section in sections:
        files = [ROOT / name for name in known.findall(section)]
        missing += [f'{f.relative_to(ROOT)}: no such file' for f in files
                    if not f.exists() and not f.name.startswith('x.')]
        code = '\n'.join(f.read_text() for f in files if f.exists())
        names = {name for name in re.findall(r'`(\w+)`', section)}
        missing += [f'{section.splitlines()[0]}: {name} is defined in none of its files'
                    for name in sorted(names)
                    if not re.search(rf'^[\w \t\*]*\b{name}\(', code, re.MULTILINE)]
    print('1..1')
    print(f'{"not ok" if missing or len(sections) != 5 else "ok"} 1 - '
          'what docs/reading.md names is there')
    for line in missing:
        print(f'# {line}')
    return 1 if missing or len(sections) != 5 else 0


if __name__ == '__main__':
    sys.exit(main())
