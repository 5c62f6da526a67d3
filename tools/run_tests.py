#!/usr/bin/python3
"""Runs the tests of one build folder and ends with the line `N passed, N failed[, N skipped]`.

Called by ./dev and .ci/run. `meson test` alone would not do: it counts programs and not tests,
takes a Criterion program that ran no test for a success, and hides what was skipped.
"""
import argparse
import fnmatch
import json
import os
import pathlib
import re
import subprocess
import sys
import xml.etree.ElementTree as ET


def selected(build, names, without, everything):
    """The (name, suites) of the tests to run. A name matches as a glob, or as a part of a name."""
    text = subprocess.run(['meson', 'introspect', '--tests', str(build)],
                          check=True, capture_output=True, text=True).stdout
    chosen = []
    for test in json.loads(text):
        suites = {suite.split(':')[-1] for suite in test['suite']}
        if suites & set(without):
            continue
        wanted = [n for n in names if fnmatch.fnmatch(test['name'], n) or n in test['name']
                  or n in suites]
        if wanted if names else everything or 'long' not in suites:
            chosen.append(test['name'])
    return chosen


class Count:
    """Adds up one run: every subtest of every program, and every program that misbehaved."""

    def __init__(self):
        self.passed = 0
        self.failed = []
        self.skipped = []

    def add_subtests(self, junit):
        """Counts the subtests; returns for each program that speaks TAP how many failed."""
        seen = {}
        for case in ET.parse(junit).getroot().iter('testcase'):
            # A program that speaks TAP is a suite, any other one is a case of its project's.
            _, speaks_tap, program = case.get('classname', '').partition('.')
            if not speaks_tap:
                continue
            label = f'{program}: {case.get("name")}'
            failed = case.find('failure') is not None or case.find('error') is not None
            seen[program] = seen.get(program, 0) + failed
            if failed:
                self.failed.append(label)
            elif case.find('skipped') is not None:
                self.skipped.append(f'{label} {case.findtext("system-out") or ""}'.strip())
            else:
                self.passed += 1
        return seen

    def add_programs(self, log, seen):
        """Counts the programs without subtests, and those that ended badly for no failed subtest."""
        for line in log.read_text().splitlines():
            run = json.loads(line)
            program, result = run['name'], run['result']
            said = run.get('stdout', '')
            if result == 'SKIP' and program not in seen:
                # meson takes a plan of no tests for a skip; only a reason makes it one.
                if run.get('returncode') == 77 or re.search('# *skip', said, re.IGNORECASE):
                    self.skipped.append(f'{program} {said.strip()}'.strip())
                else:
                    self.failed.append(f'{program}: ran no test')
            elif result in ('OK', 'SKIP', 'EXPECTEDFAIL'):
                self.passed += program not in seen
            elif not seen.get(program):
                self.failed.append(f'{program}: {result.lower()}')

    def add_sanitizer_logs(self, folder):
        """A leak fails no test by itself: whatever a sanitizer wrote counts as a failure."""
        for log in sorted(folder.iterdir()):
            text = log.read_text(errors='replace')
            if text.strip():
                self.failed.append(f'sanitizer: {log}')
                print(f'--- {log}\n{text[:4000]}')


def sanitizer_environment(folder):
    environment = dict(os.environ)
    for name in ('ASAN', 'LSAN', 'UBSAN', 'TSAN'):
        old = environment.get(f'{name}_OPTIONS')
        path = f'log_path={folder}/{name.lower()}'
        environment[f'{name}_OPTIONS'] = f'{old}:{path}' if old else path
    return environment


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('build', type=pathlib.Path)
    parser.add_argument('names', nargs='*', help='globs, parts of names, or suites')
    parser.add_argument('--all', action='store_true', help='the long ones too')
    parser.add_argument('--without', action='append', default=[], metavar='SUITE')
    parser.add_argument('--sanitizers', action='store_true', help='fail on any sanitizer report')
    parser.add_argument('--timeout-multiplier', default='1')
    options = parser.parse_intermixed_args()

    names = selected(options.build, options.names, options.without, options.all)
    if not names:
        print('no test matches', *options.names or ['(there is none)'], file=sys.stderr)
        return 1

    logs = options.build.resolve() / 'meson-logs'
    for stale in (logs / 'testlog.junit.xml', logs / 'testlog.json'):
        stale.unlink(missing_ok=True)
    reports = logs / 'sanitizers'
    reports.mkdir(parents=True, exist_ok=True)
    for stale in reports.iterdir():
        stale.unlink()

    run = subprocess.run(
        ['meson', 'test', '-C', str(options.build), '--no-rebuild', '--print-errorlogs',
         '--timeout-multiplier', options.timeout_multiplier, *names],
        env=sanitizer_environment(reports) if options.sanitizers else None, check=False)

    count = Count()
    if (logs / 'testlog.junit.xml').exists():
        seen = count.add_subtests(logs / 'testlog.junit.xml')
        count.add_programs(logs / 'testlog.json', seen)
    if options.sanitizers:
        count.add_sanitizer_logs(reports)
    if run.returncode != 0 and not count.failed:
        count.failed.append(f'meson test ended with {run.returncode}')

    print()
    for label in count.skipped:
        print('skipped:', label)
    for label in count.failed:
        print('failed:', label)
    line = f'{count.passed} passed, {len(count.failed)} failed'
    if count.skipped:
        line += f', {len(count.skipped)} skipped'
    print(line)
    # Under a sanitizer a test may say that it cannot run; it has to run in the plain build.
    strict = os.environ.get('CI', '') not in ('', '0', 'false') and not options.sanitizers
    return 1 if count.failed or (strict and count.skipped) else 0


if __name__ == '__main__':
    sys.exit(main())
