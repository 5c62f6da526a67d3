#!/usr/bin/python3
"""Installs a build under a DESTDIR and builds the program of user/ against it by pkg-config.
Each header must compile alone, and what is installed must not depend on the build folder.

usage: installed.py BUILD. TAP on stdout.
"""
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent


def run(*command, **options):
    if 'input' not in options:
        options['stdin'] = subprocess.DEVNULL
    done = subprocess.run([str(c) for c in command], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False, **options)
    if done.returncode != 0:
        raise AssertionError(f'{" ".join(map(str, command))}\nended with {done.returncode}\n'
                             f'{done.stdout}')
    return done.stdout


class Installation:
    def __init__(self, build, destdir):
        self.build = build
        self.destdir = destdir
        options = {o['name']: o['value'] for o in json.loads(
            run('meson', 'introspect', '--buildoptions', build))}
        self.prefix = pathlib.Path(options['prefix'])
        self.libdir = self.prefix / options['libdir']
        run('meson', 'install', '-C', build, '--no-rebuild', '--quiet', '--destdir', destdir)
        self.environment = dict(os.environ,
                                PKG_CONFIG_PATH=str(self.under(self.libdir / 'pkgconfig')),
                                PKG_CONFIG_SYSROOT_DIR=str(destdir),
                                LD_LIBRARY_PATH=str(self.under(self.libdir)))

    def under(self, path):
        return self.destdir / path.relative_to('/')

    def pkg_config(self, *arguments):
        return run('pkg-config', *arguments, 'pekoe', env=self.environment).split()

    def program(self, name, *link):
        """Generates, compiles, links and runs the program of user/; returns what it prints."""
        path = self.destdir / name
        generated = self.destdir / 'generated'
        generated.mkdir(exist_ok=True)
        plugin = self.under(self.prefix / 'bin/protoc-gen-pekoe')
        run('protoc', f'--plugin=protoc-gen-pekoe={plugin}', f'--pekoe_out={generated}',
            f'--proto_path={HERE / "user"}',
            f'--proto_path={self.under(self.prefix / "share/pekoe/proto")}', 'hello.proto')
        run('cc', '-std=c11', '-Wall', '-Wextra', '-Werror', '-pedantic', f'-I{generated}',
            *self.pkg_config('--cflags'), HERE / 'user/main.c', *generated.glob('*.c'),
            '-o', path, *link)
        return run(path, env=self.environment)


def files_are_there(it):
    """library, soname link, archive, pkg-config file, headers and plugin are installed"""
    for path in (it.libdir / 'libpekoe.so', it.libdir / 'libpekoe.so.0', it.libdir / 'libpekoe.a',
                 it.libdir / 'pkgconfig/pekoe.pc', it.prefix / 'include/pekoe/base.h',
                 it.prefix / 'bin/protoc-gen-pekoe'):
        assert it.under(path).exists(), f'{path} is not installed'


def soname(it):
    """the soname is libpekoe.so.0"""
    text = run('objdump', '-p', it.under(it.libdir / 'libpekoe.so'))
    assert re.search(r'SONAME\s+libpekoe\.so\.0$', text, re.MULTILINE), text


def no_build_paths(it):
    """what is installed names no folder of the build"""
    for path in it.destdir.rglob('*.pc'):
        text = path.read_text()
        assert str(it.build) not in text and str(it.destdir) not in text, text
    assert 'RUNPATH' not in run('objdump', '-p', it.under(it.libdir / 'libpekoe.so'))


def variables(it):
    """pekoe.pc names the plugin and the folder of the proto files"""
    for name, path in (('plugin', it.prefix / 'bin/protoc-gen-pekoe'),
                       ('protodir', it.prefix / 'share/pekoe/proto')):
        value = it.pkg_config(f'--variable={name}')
        assert value == [str(it.destdir) + str(path)] or value == [str(path)], value


def headers(it):
    """each header compiles alone, twice, without warnings, as C and as C++"""
    include = it.under(it.prefix / 'include')
    roots = [include, include / 'pekoe/wkt']
    flags = it.pkg_config('--cflags')
    jobs = []
    for path in sorted(include.rglob('*.h')):
        root = roots[1] if roots[1] in path.parents else roots[0]
        source = f'#include <{path.relative_to(root)}>\n' * 2
        for language in (['cc', '-xc', '-std=c11', '-Wstrict-prototypes'],
                         ['c++', '-xc++', '-std=c++11']):
            jobs.append((source, [*language, '-Wall', '-Wextra', '-Werror', '-fsyntax-only',
                                  *flags, '-']))
    assert len(jobs) > 10, jobs
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda job: run(*job[1], input=job[0]), jobs))


def shared(it):
    """a program builds against the shared library and runs"""
    assert 'hello' in it.program('shared', *it.pkg_config('--libs'))


def static(it):
    """a program builds against the archive, with what --static adds, and runs"""
    libraries = ['-l:libpekoe.a' if flag == '-lpekoe' else flag
                 for flag in it.pkg_config('--static', '--libs')]
    assert '-lev' in libraries, libraries
    assert 'hello' in it.program('static', *libraries)


CASES = [files_are_there, soname, no_build_paths, variables, headers, shared, static]


def main():
    failures = 0
    with tempfile.TemporaryDirectory() as destdir:
        it = Installation(pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(destdir))
        for number, case in enumerate(CASES, 1):
            try:
                case(it)
                print(f'ok {number} - {case.__doc__}')
            except AssertionError as error:
                failures += 1
                print(f'not ok {number} - {case.__doc__}')
                print(error, file=sys.stderr)
    print(f'1..{len(CASES)}')
    return failures != 0


if __name__ == '__main__':
    sys.exit(main())
