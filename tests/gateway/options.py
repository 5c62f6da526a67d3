#!/usr/bin/python3
"""--help, the man page and docs/gateway.md name the same options. usage: options.py GATEWAY. TAP."""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def main():
    text = subprocess.run([sys.argv[1], '--help'], check=True, capture_output=True, text=True,
                          timeout=20).stdout
    helped = re.findall(r'^  --([a-z-]+)', text, re.MULTILINE)
    page = (ROOT / 'gateway/pekoe-gateway.1').read_text().replace('\\-', '-')
    manual = re.findall(r'^\.BI? --([a-z-]+)', page.split('.SH OPTIONS')[1], re.MULTILINE)
    document = (ROOT / 'docs/gateway.md').read_text()
    table = re.findall(r'^\| `([a-z-]+)` \|', document, re.MULTILINE)
    table += re.findall(r'`--([a-z]+)`', document.split('Besides there are the flags')[1]
                        .split('.')[0])
    defaults = dict(re.findall(r'^  --([a-z-]+).*?Default: (.*?)\.(?: A change|\n)', text,
                               re.MULTILINE | re.DOTALL))
    fixed = set(re.findall(r'^  --([a-z-]+)(?:(?!^  --).)*needs a restart', text,
                           re.MULTILINE | re.DOTALL))
    fixed_rows = {name for name, row in re.findall(r'^\| `([a-z-]+)` \|(.*)', document,
                                                   re.MULTILINE) if '*Fixed*' in row}
    checks = [
        ('--help names options, each once', len(helped) > 20 and len(set(helped)) == len(helped)),
        ('the man page has the same ones in the same order', manual == helped),
        ('docs/gateway.md has the same ones', sorted(table) == sorted(helped)),
        ('docs/gateway.md knows which ones are fixed', fixed_rows == fixed),
        ('each that has a value has a default', len(defaults) >= len(helped) - 3),
    ]
    print(f'1..{len(checks)}')
    for number, (name, holds) in enumerate(checks, 1):
        print(f'{"ok" if holds else "not ok"} {number} - {name}')
    if not all(holds for _, holds in checks):
        print(f'# help {helped}\n# man {manual}\n# docs {table}\n# fixed {fixed ^ fixed_rows}')
    return not all(holds for _, holds in checks)


if __name__ == '__main__':
    sys.exit(main())
