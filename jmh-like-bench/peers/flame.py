#!/usr/bin/python3
"""A flame graph of what the greeter's server executes for a unary call, drawn from callgrind's counts.

usage: flame.py BUILD [--out FILE.svg] [--calls N]

Runs peers-greeter under valgrind, plays unary calls to it with pekoe-load, 10 connections of 100 at
once, and takes a run of few calls from one of many: what start and warm-up cost cancels. Each box is a
function with everything it calls; its width is its share of the instructions, callers below. The
kernel's part is not counted, nor is time. `--input FEW MANY` draws two files of callgrind's instead.
"""
import argparse
import html
import pathlib
import re
import subprocess
import sys
import tempfile

from peers import UNARY, Failure, Server, frame

ROOT = pathlib.Path(__file__).resolve().parents[2]
FEW, MANY = 4000, 12000
CONNECTIONS, STREAMS = 10, 100
DEPTH = 40  # callers that a count is kept apart by
WIDTH, ROW, CHARACTER = 1200, 18, 6.6
NARROWEST = 0.001  # of all: what is less wide is not drawn
# Whose function it is: the colour, and what the legend calls it.
OWNERS = {'pekoe': ('#f0854c', 'pekoe, generated code and handler'), 'nghttp2': ('#f7c863', 'nghttp2'),
          'libev': ('#a9cf8c', 'libev'), 'C library': ('#b7c4d6', 'C library')}


# ---- What callgrind wrote ----

def clean(name):
    """Without what the compiler's copies of a function are called by."""
    return re.sub(r'(\.(constprop|isra|part|lto_priv|cold)(\.\d+)?)+$', '', name).partition('@')[0]


def stack_of(name):
    """"leaf'caller'main" as ('main', 'caller', 'leaf'); a number tells how often it is on the stack."""
    return tuple(clean(part) for part in reversed(name.split("'")) if not part.isdigit())


def read_counts(lines):
    """{stack: instructions of its last function itself}, {function: object file}."""
    names, objects = {}, {}
    counts, files = {}, {}
    stack, current, skip = (), None, False

    def named(table, text):
        number, _, name = text.partition(' ')
        if not number.startswith('('):
            return text
        if name:
            table[number] = name
        return table[number]

    for line in lines:
        line = line.strip()
        key, equals, text = line.partition('=')
        if equals and key in ('fn', 'cfn', 'ob', 'cob', 'calls'):
            if key == 'ob':
                current = named(objects, text)
            elif key == 'cob':
                named(objects, text)
            elif key == 'calls':
                skip = True  # the next line is what the callee took
            else:
                name = named(names, text)
                if key == 'fn':
                    stack = stack_of(name)
                    files.setdefault(stack[-1], current)
        elif line and line[0] in '0123456789+-*':
            words = line.split()
            if not skip and len(words) > 1:
                counts[stack] = counts.get(stack, 0) + int(words[1])
            skip = False
    return counts, files


def per_call(few, many, calls):
    """What `calls` more calls took, of each stack, for one of them."""
    taken = {stack: (count - few.get(stack, 0)) / calls for stack, count in many.items()}
    return {stack: count for stack, count in taken.items() if count > 0}


# ---- The tree ----

class Box:
    def __init__(self, name):
        self.name = name
        self.total = self.own = 0
        self.inside = {}

    def add(self, stack, count):
        self.total += count
        if not stack:
            self.own += count
            return
        self.inside.setdefault(stack[0], Box(stack[0])).add(stack[1:], count)

    def depth(self, least):
        return 1 + max((box.depth(least) for box in self.inside.values() if box.total >= least),
                       default=0)


def tree_of(counts, name):
    """All stacks in one tree, without the callers that all have in common (main, the loop)."""
    root = Box(name)
    for stack, count in counts.items():
        root.add(stack, count)
    while len(root.inside) > 0:
        widest = max(root.inside.values(), key=lambda box: box.total)
        if widest.total < 0.97 * root.total or not widest.inside:
            break
        rest = root.total - widest.total
        root.inside = dict(widest.inside)
        root.own += widest.own + rest
    return root


# ---- The drawing ----

def box_svg(box, x, y, scale, total, colour):
    width = box.total * scale
    room = int((width - 6) / CHARACTER)
    text = box.name if len(box.name) <= room else box.name[:room - 1] + '…' if room > 3 else ''
    told = html.escape(f'{box.name}: {box.total:,.0f} instructions, {box.total / total:.1%}'
                       + (f', {box.own:,.0f} of them its own' if box.inside and box.own else ''))
    return (f'<g><title>{told}</title><rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{ROW - 1}" '
            f'fill="{colour}" rx="2"/>'
            + (f'<text x="{x + 3:.1f}" y="{y + 13}">{html.escape(text)}</text>' if text else '')
            + '</g>')


def draw(root, owner_of, owners, heading):
    """The SVG's text: callers below, what they call above them, by name from the left."""
    scale, least = (WIDTH - 20) / root.total, NARROWEST * root.total
    top = 64
    height = top + root.depth(least) * ROW + 12
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
             f'viewBox="0 0 {WIDTH} {height}" font-family="monospace" font-size="11">',
             '<style>rect{stroke:#fff;stroke-width:.5}g:hover rect{stroke:#000;stroke-width:1}'
             'text{pointer-events:none}</style>',
             f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
             f'<text x="10" y="22" font-size="15">{html.escape(heading)}</text>']
    x = 10
    for owner in [owner for owner in OWNERS if owner in owners]:
        colour, told = OWNERS[owner]
        parts.append(f'<rect x="{x}" y="36" width="12" height="12" fill="{colour}"/>'
                     f'<text x="{x + 17}" y="46">{told}</text>')
        x += 40 + int(len(told) * CHARACTER)

    def place(box, x, level):
        y = height - 12 - (level + 1) * ROW
        colour = '#dddddd' if box is root else OWNERS[owner_of(box.name)][0]
        parts.append(box_svg(box, x, y, scale, root.total, colour))
        for inside in sorted(box.inside.values(), key=lambda box: box.name):
            if inside.total >= least:
                place(inside, x, level + 1)
            x += inside.total * scale

    place(root, 10, 0)
    return '\n'.join(parts + ['</svg>']) + '\n'


# ---- The measurement ----

def functions_of_nghttp2():
    """Static as well, which a program linked with the archive has in it."""
    found = subprocess.run(['pkg-config', '--variable=libdir', 'libnghttp2'], capture_output=True,
                           text=True, check=False).stdout.strip()
    listed = subprocess.run(['nm', '--defined-only', f'{found}/libnghttp2.a'], capture_output=True,
                            text=True, check=False).stdout
    return {clean(words[2]) for words in map(str.split, listed.splitlines())
            if len(words) == 3 and words[1] in 'tT'}


def owner_by(files, nghttp2):
    def owner_of(name):
        path = files.get(name) or ''
        if name in nghttp2 or name.startswith('nghttp2_') or 'nghttp2' in path:
            return 'nghttp2'
        if 'libev.' in path:
            return 'libev'
        return 'C library' if re.search(r'/(libc|ld-linux|libm|libz)[.-]', path) else 'pekoe'
    return owner_of


def count(build, folder, calls):
    """callgrind's file of a server that has answered so many calls."""
    out, body = folder / f'{calls}.out', folder / 'body'
    body.write_bytes(frame('world'))
    server = Server(['valgrind', '--tool=callgrind', f'--callgrind-out-file={out}',
                     f'--separate-callers={DEPTH}', '--log-file=/dev/null',
                     build / 'jmh-like-bench/peers-greeter', '--listen', '127.0.0.1:{port}'])
    try:
        done = subprocess.run(
            [build / 'jmh-like-bench/pekoe-load', '--connect', f'127.0.0.1:{server.port}',
             '--path', UNARY, '--body', body, '--connections', str(CONNECTIONS),
             '--streams', str(STREAMS), '--warm-up', str(CONNECTIONS),
             '--requests', str(calls - CONNECTIONS)], stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=120, check=False)
        if done.returncode != 0:
            raise Failure(done.stderr)
    finally:
        server.process.terminate()
        server.process.wait(timeout=60)
    return out


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('build', type=pathlib.Path)
    parser.add_argument('--out', type=pathlib.Path, default=ROOT / 'docs/unary.svg')
    parser.add_argument('--calls', type=int, default=MANY - FEW)
    parser.add_argument('--input', type=pathlib.Path, nargs=2, metavar=('FEW', 'MANY'),
                        help='callgrind files that are --calls apart')
    arguments = parser.parse_args()
    build = arguments.build.resolve()
    with tempfile.TemporaryDirectory() as folder:
        try:
            ends = arguments.input or [count(build, pathlib.Path(folder), calls)
                                       for calls in (FEW, FEW + arguments.calls)]
        except Failure as failure:
            sys.exit(f'flame: {failure}')
        few, many = (read_counts(path.read_text().splitlines()) for path in ends)
    counts = per_call(few[0], many[0], arguments.calls)
    if not counts:
        sys.exit('flame: nothing was counted')
    root = tree_of(counts, 'one unary call')
    heading = (f'One unary call of the server: {root.total:,.0f} instructions '
               f'(without the kernel; {CONNECTIONS} connections, {STREAMS} calls at once)')
    shares = {}
    owner_of = owner_by(many[1], functions_of_nghttp2())
    for stack, instructions in counts.items():
        shares[owner_of(stack[-1])] = shares.get(owner_of(stack[-1]), 0) + instructions
    arguments.out.write_text(draw(root, owner_of, shares, heading))
    print(f'{root.total:,.0f} instructions a call, in {arguments.out}')
    for owner, instructions in sorted(shares.items(), key=lambda item: -item[1]):
        print(f'  {instructions / root.total:6.1%}  {OWNERS[owner][1]}')


if __name__ == '__main__':
    main()
