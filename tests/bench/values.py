#!/usr/bin/python3
"""A value that a benchmark does not know is refused, and has no score under its name. TAP on stdout.

usage: values.py PROGRAM"""
import subprocess
import sys

PROGRAM = sys.argv[1]
ONCE = ['-f', '0', '-wi', '0', '-i', '1', '-r', '1ms']
UNKNOWN = [('HandlerBenchmark.generatedUnaryStrict', 'protocol'),
           ('HandlerBenchmark.generatedUnaryStrict', 'codec'),
           ('HandlerBenchmark.syntheticUnaryStrict', 'codec'),
           ('GrpcMarshallingBenchmark.handleUnaryStrict', 'protocol'),
           ('GrpcMarshallingBenchmark.marshall$', 'protocol'),
           ('GrpcMarshallingBenchmark.marshall$', 'codec'),
           ('GrpcMarshallingBenchmark.unmarshallStrict$', 'message'),
           ('GrpcMarshallingBenchmark.unmarshallStrict$', 'protocol'),
           ('SlabBenchmark.encode', 'engine'), ('SlabBenchmark.encode', 'shape'),
           ('SlabBenchmark.encode', 'presence'), ('SlabBenchmark.encode', 'n'),
           ('MarshalerBenchmark.unaryMarshalerFastPath$', 'payload'),
           ('FutureBenchmark.chainDone', 'length'), ('FutureBenchmark.allDone', 'members'),
           ('LoopbackBenchmark.unary$', 'atOnce')]


def main():
    failed = 0
    print(f'1..{len(UNKNOWN)}', flush=True)
    for number, (name, parameter) in enumerate(UNKNOWN, 1):
        done = subprocess.run([PROGRAM, name, *ONCE, '-foe', 'true', '-p', f'{parameter}=wrong'],
                              capture_output=True, text=True, timeout=60, check=False)
        printed = done.stdout + done.stderr
        good = done.returncode == 1 and 'wrong' in printed and ' ops/s' not in printed
        failed += not good
        print(f'{"ok" if good else "not ok"} {number} - {name} {parameter}', flush=True)
        if not good:
            print(''.join(f'# {line}\n' for line in printed.splitlines()[-4:]), end='', flush=True)
    return failed > 0


if __name__ == '__main__':
    sys.exit(main())
