#!/usr/bin/python3
"""Prints a code block of a page, so that what the documentation shows is compiled and run.

usage: code_block.py PAGE TEXT      the first ```c block of PAGE that contains TEXT
       code_block.py PAGE           all of them, as one program
"""
import pathlib
import re
import sys


def main():
    page, text = sys.argv[1], sys.argv[2:]
    blocks = re.findall(r'^```c\n(.*?)^```$', pathlib.Path(page).read_text(), re.S | re.M)
    if not text:
        sys.stdout.write(f'/* The code of {pathlib.Path(page).name}. */\n' + '\n'.join(blocks))
        return 0
    for block in blocks:
        if text[0] in block:
            sys.stdout.write(block)
            return 0
    print(f'{page}: no block has "{text[0]}"', file=sys.stderr)
    return 1


if __name__ == '__main__':
    sys.exit(main())
