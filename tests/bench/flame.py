#!/usr/bin/python3
"""The flame graph of `./dev bench flame`, drawn from callgrind files whose numbers are known. TAP."""
import pathlib
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

FOLDER = pathlib.Path(__file__).resolve().parents[2] / 'jmh-like-bench/peers'
sys.path.insert(0, str(FOLDER))
import flame  # noqa: E402

# As callgrind writes them: names said once, places relative, what a callee took on the line behind
# `calls`, copies that the compiler made, one level of recursion. {0}: how often the loop turned.
FILE = '''# callgrind format
version: 1
creator: callgrind-3.19.0
positions: line
events: Ir
summary: {total}

ob=(1) /prog
fl=(1) a.c
fn=(1) main
10 1000
cfn=(2) turn'main
calls={0} 20
* {turns}

fn=(2)
20 {turn}
+2 0
cfn=(3) nghttp2_work.constprop.0'turn'main
calls={0} 30
+1 {works}
cob=(2) /lib/x86_64-linux-gnu/libc.so.6
cfi=(2) string.c
cfn=(4) memcpy@@GLIBC_2.14'turn'main
calls={0} 5
-1 {copies}

fn=(3)
30 {work}
cfn=(5) nghttp2_work'2'turn'main
calls={0} 30
* {again}

fn=(5)
30 {again}

ob=(2)
fl=(2)
fn=(4)
5 {copies}
'''


def write(path, turns):
    values = {'turn': 50 * turns, 'work': 25 * turns, 'again': 15 * turns, 'copies': 10 * turns}
    values['works'] = values['work'] + values['again']
    values['turns'] = values['turn'] + values['works'] + values['copies']
    path.write_text(FILE.format(turns, total=1000 + values['turns'], **values))


def boxes(path):
    """{name: (width, instructions told)}, and the texts that are shown."""
    ns = '{http://www.w3.org/2000/svg}'
    found, shown = {}, []
    for group in xml.etree.ElementTree.parse(path).getroot().iter(ns + 'g'):
        name, told = re.match(r'(.*): ([\d,]+) instructions', group.find(ns + 'title').text).groups()
        found[name] = (float(group.find(ns + 'rect').get('width')), int(told.replace(',', '')))
        shown += [text.text for text in group.findall(ns + 'text')]
    return found, shown


def main():
    checks = []
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        write(folder / 'few', 100)
        write(folder / 'many', 500)
        counts, files = flame.read_counts((folder / 'few').read_text().splitlines())
        checks.append(('each stack has what its last function took itself', counts == {
            ('main',): 1000, ('main', 'turn'): 5000, ('main', 'turn', 'nghttp2_work'): 4000,
            ('main', 'turn', 'memcpy'): 1000}))
        owner_of = flame.owner_by(files, set())
        checks.append(('whose functions they are', [owner_of(name) for name in (
            'turn', 'nghttp2_work', 'memcpy')] == ['pekoe', 'nghttp2', 'C library']))
        out = folder / 'out.svg'
        done = subprocess.run([sys.executable, FOLDER / 'flame.py', folder, '--out', out, '--calls',
                               '400', '--input', folder / 'few', folder / 'many'],
                              capture_output=True, text=True, timeout=60, check=False)
        checks.append(('the program says what a call takes', done.returncode == 0 and
                       done.stdout.startswith('100 instructions a call')))
        checks.append(('and whose it is', re.findall(r'[\d.]+%  \S+', done.stdout) ==
                       ['50.0%  pekoe,', '40.0%  nghttp2', '10.0%  C']))
        found, shown = boxes(out)
        whole = found['one unary call'][0]
        checks.append(('what start cost has gone, and with it the callers of all',
                       {name: told for name, (_, told) in found.items()} ==
                       {'one unary call': 100, 'nghttp2_work': 40, 'memcpy': 10}))
        checks.append(('boxes are as wide as their share', all(
            abs(width - whole * told / 100) < 0.1 for width, told in found.values())))
        checks.append(('names can be read', 'nghttp2_work' in shown and 'memcpy' in shown))
        write(folder / 'many', 100)
        done = subprocess.run([sys.executable, FOLDER / 'flame.py', folder, '--out', out,
                               '--input', folder / 'few', folder / 'many'],
                              capture_output=True, text=True, timeout=60, check=False)
        checks.append(('two runs of as many calls are no graph', done.returncode == 1 and
                       'nothing was counted' in done.stderr))
    for number, (claim, holds) in enumerate(checks, 1):
        print(f'{"ok" if holds else "not ok"} {number} - {claim}')
    print(f'1..{len(checks)}')
    return not all(holds for _, holds in checks)


if __name__ == '__main__':
    sys.exit(main())
