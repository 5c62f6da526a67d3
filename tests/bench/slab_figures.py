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

# At least so many times fewer instructions than protobuf-c with malloc, and than upb; decoded in
# place.
DECODE = {'SlabBatch 128': (11.8, 4.4), 'NestedOrder 128': (10.3, 3.8),
          'WriteRequest 128': (12.2, 3.6), 'HelloRequest 1': (4.0, 2.7)}
# Than protobuf-c, and than C++.
ENCODE = {'SlabBatch 128': (5.2, 1.6)}
UTF8 = 0.2  # of the instructions of a decode, at most
# From 32 elements up. In place: of what protobuf-c asks for. With the copy of the payload, and
# against what malloc takes to give protobuf-c that: the same.
MEMORY = 0.9
MEMORY_SHAPES = [shape + ' ' + n for shape in ('SlabBatch', 'NestedOrder', 'WriteRequest')
                 for n in ('32', '128')]

checks = []


def check(claim, holds):
    checks.append(holds)
    print('%s %d - %s' % ('ok' if holds else 'not ok', len(checks), claim), flush=True)


def measure(bench, work, method, engines, points, profiler):
    """{(engine, 'shape n'): metrics}; what cannot run is left out."""
    figures = {}
    for n in sorted({point.split()[1] for point in points}, key=int):
        result = os.path.join(work, 'result.json')
        shapes = [point.split()[0] for point in points if point.split()[1] == n]
        command = [bench, 'SlabBenchmark.' + method, '-p', 'engine=' + ','.join(engines),
                   '-p', 'shape=' + ','.join(shapes), '-p', 'n=' + n, '-p', 'presence=random',
                   '-f', '1', '-wi', '1', '-w', '5ms', '-i', '1', '-r', '5ms', '-rf', 'json',
                   '-rff', result] + (['-prof', profiler] if profiler else [])
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=500)
        for row in json.load(open(result, encoding='utf-8')):
            params = row['params']
            figures[params['engine'], params['shape'] + ' ' + params['n']] = {
                name: value['score'] for name, value in row['secondaryMetrics'].items()}
    return figures


def instructions(figures, engine, point):
    return figures[engine, point]['callgrind.instructions']


def in_place(figures, engine, point):
    return instructions(figures, engine, point) - instructions(figures, 'refill', point)


def compare(method, point, peer, ours, figures, least):
    if (peer, point) not in figures:
        print('# %s is not installed' % peer)
        return
    ratio = instructions(figures, peer, point) / ours
    check('%s of %s: %.2f times fewer instructions than %s, at least %.1f'
          % (method, point, ratio, peer, least), ratio >= least)


def check_instructions(bench, work):
    decode = measure(bench, work, 'decode',
                     ['slabZeroCopy', 'refill', 'zeroCopyUnchecked', 'protobufC', 'upb'],
                     list(DECODE), 'callgrind')
    for point, (than_protobuf_c, than_upb) in DECODE.items():
        ours = in_place(decode, 'slabZeroCopy', point)
        compare('decode', point, 'protobufC', ours, decode, than_protobuf_c)
        compare('decode', point, 'upb', ours, decode, than_upb)
        share = 1 - in_place(decode, 'zeroCopyUnchecked', point) / ours
        check('the UTF-8 check is %.0f %% of a decode of %s, at most %.0f %%'
              % (100 * share, point, 100 * UTF8), share <= UTF8)
    encode = measure(bench, work, 'encode', ['slab', 'protobufC', 'cpp'], list(ENCODE), 'callgrind')
    for point, (than_protobuf_c, than_cpp) in ENCODE.items():
        ours = instructions(encode, 'slab', point)
        compare('encode', point, 'protobufC', ours, encode, than_protobuf_c)
        compare('encode', point, 'cpp', ours, encode, than_cpp)


def check_memory(bench, work):
    memory = measure(bench, work, 'decode', ['slab', 'slabZeroCopy', 'protobufC', 'protobufCArena'],
                     MEMORY_SHAPES, None)
    for point in MEMORY_SHAPES:
        for engine, peer, what in (('slabZeroCopy', 'protobufCArena', 'protobuf-c asks for'),
                                   ('slab', 'protobufC', 'malloc takes for protobuf-c')):
            ratio = memory[engine, point]['memory'] / memory[peer, point]['memory']
            check('%s: a decode of %s takes %.2f of what %s, at most %.1f'
                  % (engine, point, ratio, what, MEMORY), ratio <= MEMORY)
    if not os.path.exists(os.path.join(os.path.dirname(bench), 'libpekoe-bench-alloc.so')):
        print('# allocations cannot be counted with this C library')
        return
    allocations = measure(bench, work, 'decode', ['slab', 'slabZeroCopy'], list(DECODE), 'gc')
    for (engine, point), metrics in allocations.items():
        check('%s: a decode of %s calls no malloc in steady state' % (engine, point),
              metrics['gc.allocs.norm'] == 0)


def main():
    bench = os.path.abspath(sys.argv[1])
    if not shutil.which('valgrind'):
        print('1..0 # SKIP valgrind is not installed')
        return
    with tempfile.TemporaryDirectory() as work:
        check_instructions(bench, work)
        check_memory(bench, work)
    print('1..%d' % len(checks))


main()
