#!/usr/bin/python3
"""What the shared library exports, held against the public headers.

usage: symbols.py LIBPEKOE.SO HEADER...

Every exported symbol begins with pk_, or with one of the two prefixes of the well-known types
(protobuf-c's and pekoe's), and carries the version of pekoe.sym; every exported pk_ symbol is
declared with PK_API in a public header, and what is declared so is exported: nothing is declared
before it works. TAP on stdout.
"""
import pathlib
import re
import subprocess
import sys

OURS = ('pk_', 'google__protobuf__', 'google_protobuf_')


def exported(library):
    """name -> version of each dynamic symbol that the library defines."""
    text = subprocess.run(['nm', '-D', '--defined-only', '--with-symbol-versions', library],
                          check=True, capture_output=True, text=True).stdout
    symbols = {}
    for line in text.splitlines():
        kind, name = line.split()[-2:]
        if kind != 'A':
            name, _, version = name.partition('@')
            symbols[name] = version.lstrip('@')
    return symbols


def declared(headers):
    """The names that a PK_API declaration introduces."""
    names = set()
    for header in headers:
        text = re.sub(r'/\*.*?\*/', ' ', pathlib.Path(header).read_text(), flags=re.DOTALL)
        text = re.sub(r'^[ \t]*#(?:.*\\\n)*.*$', '', text, flags=re.MULTILINE)
        for declaration in re.findall(r'\bPK_API\b([^;{]*)', text):
            function = re.search(r'\b(pk_\w+)\s*\(', re.sub(r'\bPK_\w+\s*(\([^)]*\))?', ' ',
                                                            declaration))
            data = re.search(r'\b(pk_\w+)\s*(\[[^\]]*\])?\s*$', declaration)
            if function or data:
                names.add((function or data).group(1))
    return names


def main():
    library, headers = sys.argv[1], sys.argv[2:]
    symbols, names = exported(library), declared(headers)
    ours = {name for name in symbols if name.startswith('pk_')}
    results = [
        ('the library exports something', [] if symbols else ['nothing']),
        ('exported names begin with pk_, google__protobuf__ or google_protobuf_',
         [n for n in symbols if not n.startswith(OURS)]),
        ('exported symbols are versioned',
         [n for n, version in symbols.items() if not version.startswith('PEKOE_')]),
        ('exported functions are declared in a public header', ours - names),
        ('what a public header declares is exported', names - ours),
    ]
    for number, (name, wrong) in enumerate(results, 1):
        print(f'{"not ok" if wrong else "ok"} {number} - {name}')
        for line in sorted(wrong):
            print(f'# {line}')
            print(line, file=sys.stderr)
    print(f'1..{len(results)}')
    return any(wrong for _, wrong in results)


if __name__ == '__main__':
    sys.exit(main())
