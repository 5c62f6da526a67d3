#!/usr/bin/python3
"""Habits of the tree that a reader relies on. TAP on stdout."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ['include', 'core', 'future', 'marshalling', 'handlers', 'services', 'transport',
           'codegen', 'gateway', 'jmh-like-bench', 'tests', 'examples']
TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)
# Spelt in two pieces, so that this file does not find itself.
UNFINISHED = re.compile('|'.join(['TO' + 'DO', 'FIX' + 'ME', r'\bXX' + r'X\b']))
VAGUE = re.compile(r'(^|[-_/])(utils?|common|misc|helpers?)([-_.]|$)')


def main():
    files = {str(p.relative_to(ROOT)): p.read_text(errors='replace')
             for folder in FOLDERS for p in sorted((ROOT / folder).rglob('*.[ch]'))
             if 'golden' not in p.parts}
    results = [
        ('there is something to look at', [] if files else ['no C file found']),
        ('a file opens with a comment', [p for p, t in files.items() if not t.startswith('/*')]),
        ('comments are /* */', [p for p, t in files.items()
                                if any(c.startswith('//') for c in TOKEN.findall(t))]),
        ('nothing is marked as unfinished', [p for p, t in files.items() if UNFINISHED.search(t)]),
        ('no file is named for being useful', [p for p in files if VAGUE.search(p)]),
    ]
    for number, (name, wrong) in enumerate(results, 1):
        print(f'{"not ok" if wrong else "ok"} {number} - {name}')
        for line in wrong:
            print(f'# {line}')
            print(line, file=sys.stderr)
    print(f'1..{len(results)}')
    return any(wrong for _, wrong in results)


if __name__ == '__main__':
    sys.exit(main())
