#!/usr/bin/python3
"""Runs the libFuzzer targets of a build folder, all or those named, sharing out a number of seconds.

Called by `./dev fuzz SECONDS [NAME...]`. New inputs are kept in BUILD/corpus/NAME between runs, inputs that
break a target in BUILD/findings/NAME. Ends with the line `N passed, N failed`.
"""
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys


def fuzz(target, build, seconds):
    name = target.name.removeprefix('fuzz_')
    kept = build / 'corpus' / name
    findings = build / 'findings' / name
    kept.mkdir(parents=True, exist_ok=True)
    findings.mkdir(parents=True, exist_ok=True)
    seeds = pathlib.Path('tests/fuzz/corpus') / name
    folders = [str(kept)] + ([str(seeds)] if seeds.is_dir() else [])
    run = subprocess.run(
        [str(target), f'-max_total_time={seconds}', '-timeout=10', '-rss_limit_mb=2048',
         '-print_final_stats=1', f'-artifact_prefix={findings}/', *folders],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, errors='replace', check=False)
    runs = re.search(r'stat::number_of_executed_units: (\d+)', run.stderr)
    return name, run.returncode, runs.group(1) if runs else '0', run.stderr


def main():
    build = pathlib.Path(sys.argv[1])
    targets = sorted(p for p in (build / 'tests/fuzz').glob('fuzz_*')
                     if p.is_file() and os.access(p, os.X_OK))
    names = sys.argv[3:]
    if names:
        unknown = set(names) - {p.name.removeprefix('fuzz_') for p in targets}
        if unknown:
            print('there is no fuzz target', ', '.join(sorted(unknown)), file=sys.stderr)
            return 1
        targets = [p for p in targets if p.name.removeprefix('fuzz_') in names]
    if not targets:
        print('there is no fuzz target in', build, file=sys.stderr)
        return 1
    workers = os.cpu_count() or 1
    # libFuzzer takes a time of 0 for "without end".
    each = max(1, int(sys.argv[2]) * workers // len(targets))
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        for name, code, runs, log in pool.map(lambda t: fuzz(t, build, each), targets):
            ok = code == 0 and runs != '0'
            failed += not ok
            print(f'{"ok" if ok else "FAILED":7}{name}: {runs} inputs in {each} s', flush=True)
            if not ok:
                print(log[-6000:])
    print(f'{len(targets) - failed} passed, {failed} failed')
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
