"""Holds slab decoding and packing to the figures of docs/messages.md; TAP on standard output.

usage: slab_figures.py PEKOE_BENCH

Instructions do not depend on the machine's speed or load, but on compiler and flags: the figures are
those of optimized builds. Counted by callgrind, 64 messages with random presence in turn; what the
refill of the buffer costs is subtracted.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile

# At least so many times fewer instructions than protobuf-c with malloc, and than upb.
DECODE = {'batch-128': (11.8, 4.4), 'order-128': (10.3, 3.8), 'write-128': (12.2, 3.6),
          'hello': (4.0, 2.7)}
# Than protobuf-c, and than C++.
ENCODE = {'batch-128': (5.2, 1.6)}
MEMORY = 0.9  # in place, of what protobuf-c asks for, from 32 elements up

checks = []


def check(claim, holds):
    checks.append(holds)
    print('%s %d - %s' % ('ok' if holds else 'not ok', len(checks), claim))


def measure(bench, work, method, engines, shapes, counted):
    result = os.path.join(work, 'result.json')
    command = [bench, 'SlabBenchmark.' + method, '-p', 'engine=' + ','.join(engines),
               '-p', 'shape=' + ','.join(shapes), '-p', 'presence=random',
               '-f', '1', '-wi', '1', '-w', '5ms', '-i', '1', '-r', '5ms', '-rf', 'json',
               '-rff', result] + (['-prof', 'callgrind'] if counted else [])
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=500)
    figures = {}
    for row in json.load(open(result, encoding='utf-8')):
        metrics = {name: value['score'] for name, value in row['secondaryMetrics'].items()}
        figures[row['params']['engine'], row['params']['shape']] = metrics
    return figures


def instructions(figures, engine, shape):
    for name, score in figures.get((engine, shape), {}).items():
        if 'callgrind' in name:
            return score
    return None


def compare(figures, method, shape, peer, least):
    ours = instructions(figures, 'slab', shape)
    theirs = instructions(figures, peer, shape)
    if method == 'decode':
        ours -= instructions(figures, 'refill', shape)
    check('%s of %s: %.2f times fewer instructions than %s, at least %.1f'
          % (method, shape, theirs / ours, peer, least), theirs / ours >= least)


def main():
    bench = os.path.abspath(sys.argv[1])
    if not shutil.which('valgrind'):
        print('1..0 # SKIP valgrind is not installed')
        return
    listed = subprocess.run([bench, 'SlabBenchmark', '-lp'], capture_output=True, text=True,
                            check=True).stdout
    upb = ['upb'] if 'upb' in listed else []
    cpp = ['cpp'] if 'cpp' in listed else []
    with tempfile.TemporaryDirectory() as work:
        decode = measure(bench, work, 'decode', ['slab', 'refill', 'protobuf-c'] + upb,
                         list(DECODE), True)
        for shape, (than_protobuf_c, than_upb) in DECODE.items():
            compare(decode, 'decode', shape, 'protobuf-c', than_protobuf_c)
            if upb:
                compare(decode, 'decode', shape, 'upb', than_upb)
        encode = measure(bench, work, 'encode', ['slab', 'protobuf-c'] + cpp, list(ENCODE), True)
        for shape, (than_protobuf_c, than_cpp) in ENCODE.items():
            compare(encode, 'encode', shape, 'protobuf-c', than_protobuf_c)
            if cpp:
                compare(encode, 'encode', shape, 'cpp', than_cpp)
        shapes = ['batch-32', 'batch-128', 'order-32', 'order-128', 'write-32', 'write-128']
        memory = measure(bench, work, 'decode', ['slab', 'protobuf-c-arena'], shapes, False)
    for shape in shapes:
        ratio = memory['slab', shape]['memory'] / memory['protobuf-c-arena', shape]['memory']
        check('decode of %s takes %.2f of protobuf-c\'s memory, at most %.1f'
              % (shape, ratio, MEMORY), ratio <= MEMORY)
    print('1..%d' % len(checks))


main()
