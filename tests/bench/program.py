#!/usr/bin/python3
"""The benchmark program as its user sees it: output, files, profilers, failures. TAP on stdout.

usage: program.py PROGRAM [sanitized]"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

PROGRAM = os.path.abspath(sys.argv[1])
SANITIZED = 'sanitized' in sys.argv[2:]
FAST = ['-f', '1', '-wi', '1', '-i', '3', '-w', '2ms', '-r', '3ms']
PERCENTILES = ['0.0', '50.0', '90.0', '95.0', '99.0', '99.9', '99.99', '99.999', '99.9999', '100.0']


def run(*args, status=0):
    done = subprocess.run([PROGRAM, *args], capture_output=True, text=True, timeout=60)
    assert done.returncode == status, f'exit status {done.returncode}: {done.stdout}{done.stderr}'
    return done.stdout + done.stderr


def results(*args):
    run(*args, '-rf', 'json', '-rff', 'result.json')
    with open('result.json', encoding='utf-8') as file:
        return json.load(file)


def check_metric(metric, raw):
    assert list(metric) == ['score', 'scoreError', 'scoreConfidence', 'scorePercentiles',
                            'scoreUnit', raw], list(metric)
    assert isinstance(metric['score'], (int, float))
    assert isinstance(metric['scoreError'], (int, float)) or metric['scoreError'] == 'NaN'
    assert len(metric['scoreConfidence']) == 2
    assert list(metric['scorePercentiles']) == PERCENTILES


def json_is_that_of_jmh():
    found = results('add', *FAST, '-f', '2', '-wf', '1', '-bm', 'all', '-t', '2')
    assert [r['mode'] for r in found] == ['thrpt'] * 2 + ['avgt'] * 2 + ['sample'] * 2 + ['ss'] * 2
    for result in found:
        sampled = result['mode'] == 'sample'
        assert list(result) == [
            'jmhVersion', 'benchmark', 'mode', 'threads', 'forks', 'jvm', 'jvmArgs', 'jdkVersion',
            'vmName', 'vmVersion', 'warmupIterations', 'warmupTime', 'warmupBatchSize',
            'measurementIterations', 'measurementTime', 'measurementBatchSize', 'params',
            'primaryMetric', 'secondaryMetrics'], list(result)
        assert result['benchmark'] == 'pekoe.TrialBenchmark.add'
        assert (result['threads'], result['forks']) == (2, 2)
        time = 'single-shot' if result['mode'] == 'ss' else '3 ms'
        assert (result['measurementIterations'], result['measurementTime']) == (3, time)
        assert result['params'] in ({'n': '1'}, {'n': '3'})
        check_metric(result['primaryMetric'], 'rawDataHistogram' if sampled else 'rawData')
        raw = result['primaryMetric']['rawDataHistogram' if sampled else 'rawData']
        assert [len(fork) for fork in raw] == [3, 3]
        if sampled:
            assert all(len(point) == 2 and isinstance(point[1], int)
                       for fork in raw for iteration in fork for point in iteration)
            assert 'p0.999' in result['secondaryMetrics']
        for metric in result['secondaryMetrics'].values():
            check_metric(metric, 'rawData')
        assert result['secondaryMetrics']['steps']['score'] == 2 * int(result['params']['n'])


def viewers_find_what_they_read():
    # jmh-visualizer's parse.js and github-action-benchmark's extractJmhResult.
    for result in results('add', *FAST):
        *packages, method = result['benchmark'].split('.')
        assert packages and method
        assert all(isinstance(v, str) and ' ' not in v for v in result.get('params', {}).values())
        assert result['primaryMetric']['scoreUnit'] == 'ops/s'
        assert result['measurementIterations'] and result['forks'] and result['threads']
        assert isinstance(result['secondaryMetrics'], dict)
    assert 'params' not in results('allocate', *FAST)[0]


def output_reads_like_that_of_jmh():
    out = run('add', *FAST, '-f', '2', '-p', 'n=3')
    for line in ['# Warmup: 1 iterations, 2 ms each', '# Measurement: 3 iterations, 3 ms each',
                 '# Timeout: 10 min per iteration', '# Benchmark mode: Throughput, ops/time',
                 '# Threads: 1 thread, will synchronize iterations',
                 '# Benchmark: pekoe.TrialBenchmark.add', '# Parameters: (n = 3)',
                 '# Fork: 1 of 2', '# Fork: 2 of 2', 'Result "pekoe.TrialBenchmark.add":']:
        assert line in out.splitlines(), line
    for pattern in [r'^# Run progress: 0\.00% complete, ETA \d\d:\d\d:\d\d$',
                    r'^# Run progress: 50\.00% complete, ETA \d\d:\d\d:\d\d$',
                    r'^# Warmup Iteration   1: [\d.]+ ops/s$', r'^Iteration   3: [\d.]+ ops/s$',
                    r'^  [\d.]+ ±\(99\.9%\) [\d.]+ ops/s \[Average\]$',
                    r'^  CI \(99\.9%\): \[', r'^# Run complete\. Total time: 00:00:0\d$',
                    r'^Benchmark +\(n\) +Mode +Cnt +Score +Error +Units$',
                    r'^TrialBenchmark\.add +3 +thrpt +6 +[\d.]+ ± +[\d.]+ +ops/s$']:
        assert re.search(pattern, out, re.MULTILINE), pattern


def every_format_is_written():
    for name, start in [('text', 'Benchmark'), ('csv', '"Benchmark","Mode"'), ('json', '['),
                        ('scsv', '"Benchmark";"Mode"'), ('latex', '\\begin{tabular}')]:
        out = run('allocate', *FAST, '-rf', name)
        assert f'saved to jmh-result.{name}' in out
        with open(f'jmh-result.{name}', encoding='utf-8') as file:
            assert file.read().startswith(start), name


def output_can_go_to_a_file():
    assert run('allocate', *FAST, '-o', 'out.txt') == ''
    with open('out.txt', encoding='utf-8') as file:
        assert 'TrialBenchmark.allocate' in file.read()


def gc_counts_every_allocation():
    for forks in '1', '0':
        result = results('allocate', *FAST, '-f', forks, '-prof', 'gc')[0]
        metrics = {name: (m['score'], m['scoreUnit'])
                   for name, m in result['secondaryMetrics'].items()}
        assert metrics['gc.alloc.rate.norm'] == (10 + 20 + 20 + 40 + 64, 'B/op'), metrics
        assert metrics['gc.allocs.norm'] == (5, 'allocs/op'), metrics
        assert metrics['gc.count'][0] % 5 == 0 and metrics['gc.count'][1] == 'counts', metrics
        assert metrics['gc.alloc.rate'][1] == 'MB/sec', metrics
        for result in results('add', *FAST, '-f', forks, '-prof', 'gc'):
            assert result['secondaryMetrics']['gc.alloc.rate.norm']['score'] == 0
            assert result['secondaryMetrics']['gc.allocs.norm']['score'] == 0


def callgrind_counts_instructions_exactly():
    first, second = (results('add', *FAST, '-prof', 'callgrind', '-p', 'n=1')[0] for _ in range(2))
    count = first['secondaryMetrics']['callgrind.instructions']
    assert count == second['secondaryMetrics']['callgrind.instructions']
    assert count['scoreUnit'] == '#/op' and 0.5 <= count['score'] < 20, count
    # Two operations in an invocation, whose instructions are a whole number.
    assert count['score'] * 2 == int(count['score'] * 2), count


def perfnorm_says_what_is_missing():
    out = run('allocate', *FAST, '-prof', 'perfnorm')
    assert 'page-faults' in out or '# perfnorm: not on this machine' in out


def a_wrong_benchmark_has_no_score():
    out = run('allocate|removed', *FAST, status=1)
    assert 'expected state->invocations == invocations' in out
    assert re.search(r'^TrialBenchmark\.allocate ', out, re.MULTILINE), 'the others still run'
    assert not re.search(r'^FaultyBenchmark\.removed ', out, re.MULTILINE)
    out = run('allocate|removed', *FAST, '-foe', 'true', status=1)
    assert not re.search(r'^TrialBenchmark\.allocate ', out, re.MULTILINE), 'stops at the first'


def a_dead_or_hanging_fork_is_reported():
    assert 'the fork died: Segmentation fault' in run('crash', *FAST, status=1)
    assert 'the fork ended early, with exit status 0' in run('leave', *FAST, status=1)
    assert 'longer than -to allows' in run('hang', *FAST, '-to', '300ms', status=1)


def write_scores(name, found, factor):
    """Results whose scores are set, so that verdicts do not hang on how busy the machine is."""
    for result in found:
        scores = [factor * (1000 + i) for i in range(5)]
        result['primaryMetric'].update(score=sum(scores) / 5, rawData=[scores])
    with open(name, 'w', encoding='utf-8') as file:
        json.dump(found, file)


def a_skipped_benchmark_is_no_failure():
    for forks in '1', '0':
        out = run('abacus|allocate', *FAST, '-f', forks, '-foe', 'true')
        assert 'pekoe.SkippedBenchmark.abacus: this machine has no abacus' in out
        assert re.search(r'^TrialBenchmark\.allocate ', out, re.MULTILINE), 'the others still run'


def a_baseline_gives_verdicts():
    found = results('add', *FAST, '-i', '5')
    write_scores('old.json', found, 1)
    for factor, word, status in [(1.1, 'worse', 3), (0.9, 'better', 0)]:
        write_scores('changed.json', found, factor)
        out = run('--input', 'old.json', '--baseline', 'changed.json', '--fail-on-regression',
                  status=status)
        assert f'  {word} (p' in out, out
    out = run('--input', 'old.json', '--baseline', 'old.json', '--fail-on-regression')
    assert 'no difference shown' in out and '0 better, 0 worse' in out
    for result in found:
        result['benchmark'] += 'Renamed'
    write_scores('renamed.json', found, 1)
    assert 'the baseline has none of these' in run('--input', 'old.json', '--baseline',
                                                   'renamed.json', '--fail-on-regression', status=1)
    assert 'cannot read missing.json' in run('--input', 'missing.json', status=1)


def charts_are_well_formed():
    run('add|allocate', *FAST, '-i', '3', '-rf', 'json', '-rff', 'old.json', '--chart', 'one.svg')
    run('--input', 'old.json', '--baseline', 'old.json', '--chart', 'two.svg')
    run('--input', 'old.json', '--baseline', 'old.json', '--chart', 'three.html')
    for name in 'one.svg', 'two.svg':
        root = xml.etree.ElementTree.parse(name).getroot()
        bars = [e for e in root.iter('{http://www.w3.org/2000/svg}rect') if e.get('height') == '16']
        assert len(bars) == 3, name
    with open('three.html', encoding='utf-8') as file:
        page = file.read()
    assert page.count('<rect') == 4 and 'no difference shown' in page
    xml.etree.ElementTree.fromstring(page.replace('<!DOCTYPE html>', '').replace(
        '<meta charset="utf-8">', ''))


def lists_and_mistakes():
    assert run('-l', 'Trial') == \
        'Benchmarks: \npekoe.TrialBenchmark.add\npekoe.TrialBenchmark.allocate\n'
    assert '  param "n" = {1, 3}\n' in run('-lp')
    assert '  param "n" = {7}\n' in run('-lp', '-p', 'n=7')
    assert 'one addition of n' in run('-l', '-v', 'extra')
    assert run('-lrf') == 'Available formats: text, csv, scsv, json, latex\n'
    assert 'callgrind' in run('-lprof')
    assert '--baseline' in run('-h')
    assert 'No matching benchmarks' in run('nothing', status=1)
    assert "cannot parse '1.5s' for option -r" in run('-r', '1.5s', status=1)
    assert 'parameter n: \'x\' is not a number' in run('add', *FAST, '-p', 'n=x', status=1)
    assert '-p m: none of the benchmarks chosen' in run('add', *FAST, '-p', 'm=1', status=1)
    # What a run would be in vain for is said before it, not after.
    with open('other.json', 'w', encoding='utf-8') as file:
        file.write('{"a": 1}')
    for wrong, said in [(['--baseline', 'missing.json'], 'cannot read missing.json'),
                        (['--baseline', 'other.json'], 'other.json'),
                        (['--fail-on-regression'], 'wants a --baseline'),
                        (['-rff', 'missing/result.json'], 'cannot write missing/result.json'),
                        (['--chart', 'missing/chart.svg'], 'cannot write missing/chart.svg')]:
        out = run('add', *FAST, *wrong, status=1)
        assert said in out and 'ops/s' not in out, (wrong, out)
    assert 'not for users' in run('--internal', 'fork:9999', status=1)


TESTS = [json_is_that_of_jmh, viewers_find_what_they_read, output_reads_like_that_of_jmh,
         every_format_is_written, output_can_go_to_a_file, gc_counts_every_allocation,
         callgrind_counts_instructions_exactly, perfnorm_says_what_is_missing,
         a_wrong_benchmark_has_no_score, a_dead_or_hanging_fork_is_reported,
         a_skipped_benchmark_is_no_failure, a_baseline_gives_verdicts, charts_are_well_formed,
         lists_and_mistakes]


def valgrind_can_run_it():
    """Not a sanitized program, and Debian 12's valgrind not clang's debug information (DWARF 5)."""
    return shutil.which('valgrind') and not SANITIZED and subprocess.run(
        ['valgrind', '--tool=none', PROGRAM, '-lrf'], capture_output=True, timeout=60,
        check=False).returncode == 0


def skipped(test):
    if test is gc_counts_every_allocation and SANITIZED:
        return 'the sanitizer has its own malloc'
    if test is callgrind_counts_instructions_exactly and not valgrind_can_run_it():
        return 'valgrind is not here, or cannot read this build'
    return None


def main():
    failed = 0
    print(f'1..{len(TESTS)}', flush=True)
    for number, test in enumerate(TESTS, 1):
        name = test.__name__.replace('_', ' ')
        reason = skipped(test)
        if reason:
            print(f'ok {number} - {name} # SKIP {reason}', flush=True)
            continue
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            try:
                test()
                print(f'ok {number} - {name}', flush=True)
            except Exception as error:  # any fault of one test leaves the others to run
                failed += 1
                print(f'not ok {number} - {name}', flush=True)
                for line in repr(error).replace('\\n', '\n').splitlines():
                    print(f'# {line}', flush=True)
            os.chdir('/')
    return failed > 0


if __name__ == '__main__':
    sys.exit(main())
