#!/usr/bin/python3
"""Who fails in `./dev bench peers` is named and has no figure, and the others keep theirs. TAP.

usage: peers_rows.py BUILD"""
import contextlib
import functools
import io
import os
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / 'jmh-like-bench/peers'))
import peers  # noqa: E402

ROW, OTHER = 'unary', 'both ways, of 10'
MUTE = '''
import socket, time
listener = socket.create_server(('127.0.0.1', int(PORT)))
print('serving', flush=True)
kept = []
while True:
    kept.append(listener.accept())
'''


def python(program):
    return [sys.executable, '-c', 'import sys; PORT = sys.argv[1]\n' + program, '{port}']


def main():
    if len(os.sched_getaffinity(0)) < 2:
        print('1..0 # SKIP this needs two processors')
        return 0
    build = pathlib.Path(sys.argv[1])
    peers.PATIENCE = 5
    commands = {'pekoe': [build / 'jmh-like-bench/peers-greeter', '--listen', '127.0.0.1:{port}'],
                'mute': python(MUTE), 'gone': python("print('serving')"),
                'never there': python('pass')}
    rows = [(ROW, 2, 3, 60, peers.UNARY, 'hello', 1),
            (OTHER, 1, 2, 20, peers.ANSWERS, 'hellos', peers.STREAM_MESSAGES)]
    with tempfile.TemporaryDirectory() as folder:
        bench = peers.Bench(build, pathlib.Path(folder))
        bench.starts = {name: functools.partial(peers.Server, command)
                        for name, command in commands.items()}
        with contextlib.redirect_stderr(io.StringIO()) as said:
            peers.play_rounds(bench, 2, rows, {'client': (3, 50)})
    table = peers.table(bench.results, list(bench.starts))
    checks = [
        ('the others have all their rounds', {name: {peer: len(rounds) for peer, rounds in row.items()}
                                              for name, row in bench.results.items() if row} ==
         {name: {'pekoe': 2} for name in (ROW, OTHER, 'client')}),
        ('and a table', table.count('pekoe  ') == 3 and 'mute' not in table),
        ('who does not answer is named with its row',
         bench.failures.get(('mute', ROW)) == 'not done after 5 seconds'),
        ('so is who has gone', ('gone', ROW) in bench.failures),
        ('and who does not start',
         bench.failures.get(('never there', 'start')) == 'the server does not start'),
        ('at once', f'mute, {ROW}: not done' in said.getvalue()),
        ('and once more below the table', f'mute, {ROW}: not done' in bench.told_failures()),
        ('no server is left', all(server.process.poll() is not None
                                  for server in bench.servers.values())),
    ]
    for number, (claim, holds) in enumerate(checks, 1):
        print(f'{"ok" if holds else "not ok"} {number} - {claim}')
    if not all(holds for _, holds in checks):
        print('# ' + repr(bench.results)[:500], bench.failures, said.getvalue(), sep='\n# ')
    print(f'1..{len(checks)}')
    return not all(holds for _, holds in checks)


if __name__ == '__main__':
    sys.exit(main())
