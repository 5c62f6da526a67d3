#!/usr/bin/python3
"""Prints a code block of a page, so that what the documentation shows is compiled and run.

usage: code_block.py PAGE TEXT      the first ```c block of PAGE that contains TEXT
"""
import pathlib
import re
import sys


def main():
    page, text = sys.argv[1:]
    for block in re.findall(r'^```c\n(.*?)^```$', pathlib.Path(page).read_text(), re.S | re.M):
        if text in block:
            sys.stdout.write(block)
            return 0
    print(f'{page}: no block has "{text}"', file=sys.stderr)
    return 1


if __name__ == '__main__':
    sys.exit(main())
