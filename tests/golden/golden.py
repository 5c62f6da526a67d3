#!/usr/bin/python3
"""The plugin's output, held against protoc-gen-c's and against the compilers.

usage: golden.py PLUGIN COMPARE SOURCE_ROOT BUILD_ROOT

PLUGIN is protoc-gen-pekoe, COMPARE the program of compare.c. TAP on stdout.

1. Where protoc-gen-c's output compiles, ours is the same text but for a short list of spellings,
   and has the same descriptors, field by field (protos of this folder and of installed packages).
2. All that the plugin accepts compiles as C and as C++ without a warning, with the macros of the C
   library in sight.
3. What it refuses it refuses with a place and both names.
4. The output is the same from run to run.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

PLUGIN, COMPARE, SOURCE, BUILD = (pathlib.Path(a).resolve() for a in sys.argv[1:5])
PROTOS = SOURCE / 'tests/golden/protos'
GRPC_PROTO = pathlib.Path('/usr/share/grpc-proto')
GOOGLE = pathlib.Path('/usr/include')
IMPORTS = [f'-I{PROTOS}', f'-I{SOURCE}/include', f'-I{GOOGLE}', f'-I{GRPC_PROTO}']
INCLUDES = [f'-I{SOURCE}/include', f'-I{BUILD}/codegen/wkt']
STRICT = ['-Wall', '-Wextra', '-Werror', '-Wpedantic']
# Before anything else: a generated name that is one of these libraries' macros must not matter.
LIBRARY = [word for header in ('assert.h', 'errno.h', 'limits.h', 'math.h', 'signal.h', 'stddef.h',
                               'stdio.h', 'stdlib.h', 'string.h', 'time.h')
           for word in ('-include', header)]

# Both generators; protoc-gen-c's output for these compiles.
SAME = ['kinds2.proto', 'kinds3.proto', 'code_size.proto', 'lite.proto',
        'protobuf_c_options.proto', 'protobuf_c_helpers.proto', 'foo-bar.proto', 'foo_bar.proto',
        '1st.proto', 'a.b.proto', 'Foo.proto', 'package_public.proto',
        'package_register_int.proto']
# Of installed packages. google/rpc/code.proto and envoy's are missing for the others.
INSTALLED = [str(path.relative_to(root)) for root in (GRPC_PROTO, GOOGLE)
             for path in sorted(root.glob('**/*.proto'))
             if (root == GRPC_PROTO or 'google/protobuf/' in str(path))
             and not re.search(r'service_config|meshca', str(path))]
OURS = ['Bar/Foo.proto', 'optional3.proto', 'groups.proto', 'hard_defaults.proto',
        'names_fields.proto', 'names_services.proto', 'no_generate.proto', 'slab_options.proto']
# proto or protos (and parameters) -> what the error says, in this order.
REFUSED = {
    'refused/nested.proto':
        [r'^refused/nested\.proto:3:15: .*"Foo\.Bar_Blubb".*"Foo_Bar\.Blubb" \(refused/nested\.proto:2:19\)'],
    'refused/methods.proto':
        [r'^refused/methods\.proto:6:3: .*"p\.S\.get".*"p\.S\.Get" \(refused/methods\.proto:5:3\)'],
    'refused/messages.proto':
        [r'^refused/messages\.proto:4:1: message "p\.foo" and message "p\.Foo" .*P__Foo'],
    'refused/fields.proto':
        [r'^refused/fields\.proto:5:3: .*"p\.M\.FOOBAR".*"p\.M\.fooBar".*foobar'],
    'refused/escaped.proto': [r'^refused/escaped\.proto:5:3: .*"p\.M\.int_".*"p\.M\.int"'],
    'refused/values.proto': [r'^refused/values\.proto:4:1: .*"p\.HTTPkind".*"p\.HTTPKind"'],
    'refused/oneof_type.proto':
        [r'^refused/oneof_type\.proto:3:13: message "p\.M\.KindCase" and oneof "p\.M\.kind"'],
    'refused/defaults.proto':
        [r'^refused/defaults\.proto:5:3: field "p\.M\.foo_bar" and field "p\.M\.fooBar"'],
    'refused/eof.proto': [r'^refused/eof\.proto:2:1: .*EOF', r'^refused/eof\.proto:3:1: .*NULL'],
    'refused/digit.proto': [r'^refused/digit\.proto:2:1: .*"_1"'],
    'refused/pk.proto': [r'^refused/pk\.proto:3:1: .*"pk\.Call"'],
    'refused/mempool.proto': [r'^refused/mempool\.proto:4:1: .*"p\.M".*slab.*mempool'],
    'refused/service_and_message.proto':
        [r'proto:4:19: method "p\.Greeter\.SayNew" and message "p\.GreeterSay"'],
    'refused/imported.proto':
        [r'^refused/imported\.proto:4:1: .*"p\.foo".*"p\.Foo" \(refused/imported_base\.proto:3:1\)'],
    # With messages=none the struct is protoc-gen-c's, and that one does not compile.
    'refused/no_messages.proto messages=none':
        [r'^refused/no_messages\.proto:5:3: .*"p\.M\.n_items".*the count of field "p\.M\.items"'],
    'foo-bar.proto,foo-bar.protodevel':
        [r'^foo-bar\.protodevel: "foo-bar\.protodevel" and "foo-bar\.proto" would both write '],
    'lite.proto colour=red': [r'^unknown parameter "colour"; there are: .*messages=all\|none'],
    'lite.proto messages=some': [r'^parameter messages=some: expected messages=all\|none'],
}


class Tap:
    def __init__(self):
        self.count = self.failed = 0

    def result(self, name, problems, skip=None):
        self.count += 1
        self.failed += bool(problems)
        print(f'{"not ok" if problems else "ok"} {self.count} - {name}'
              + (f' # SKIP {skip}' if skip else ''))
        for line in '\n'.join(problems).splitlines()[:40]:
            print(f'# {line}')
        sys.stdout.flush()


def run(*command, **options):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          timeout=300, **options)


def generate(out, protos, parameters=''):
    out.mkdir(parents=True, exist_ok=True)
    more = [f'--pekoe_opt={parameters}'] if parameters else []
    return run('protoc', *IMPORTS, f'--plugin=protoc-gen-pekoe={PLUGIN}', f'--pekoe_out={out}',
               *more, *protos)


def read_tree(root):
    return {str(path.relative_to(root)): path.read_bytes()
            for path in sorted(root.glob('**/*')) if path.is_file()}


def compile_all(folder, language='c'):
    """Every generated source of the folder, and every header alone; the compiler's complaints.

    x.pekoe.c is C only: its tables have designated initialisers.
    """
    compiler = ['gcc', '-std=c11'] if language == 'c' else ['g++', '-std=c++17', '-x', 'c++']
    problems = []
    for path in sorted(folder.glob('**/*.[ch]')):
        if language != 'c' and path.name.endswith('.pekoe.c'):
            continue
        if path.suffix == '.h':
            source = f'#include "{path.relative_to(folder)}"\n'
            command = [*compiler, *STRICT, *LIBRARY, *INCLUDES, f'-I{folder}', '-fsyntax-only']
            command += ['-'] if '-x' in compiler else ['-x', 'c', '-']
            result = run(*command, input=source)
        else:
            result = run(*compiler, *STRICT, *LIBRARY, f'-I{folder}', *INCLUDES,
                         '-fsyntax-only', path)
        if result.returncode != 0:
            problems.append(result.stderr)
    return problems


def normalise(text):
    """Takes out what is spelt otherwise on purpose."""
    text = re.sub(r'^# error .*\n', '', text, flags=re.MULTILINE)
    # A file in a folder that includes one from elsewhere.
    text = re.sub(r'^#include <(.*\.pb-c\.h)>$', r'#include "\1"', text, flags=re.MULTILINE)
    # The zero of a union, as C++ and -Wmissing-braces want it.
    text = re.sub(r'__NOT_SET, \{ (\{0,NULL\}|\(\w+\) 0) \}', '__NOT_SET, {0}', text)
    # An empty service: ISO C has no empty array.
    text = re.sub(r'#define (\w+)__method_descriptors NULL\n#define \w+ NULL\n',
                  r'static const ProtobufCMethodDescriptor \1__method_descriptors[0] =\n{\n};\n'
                  r'const unsigned \1__method_indices_by_name[] = {\n};\n', text)
    return text


def compare_text(reference, ours):
    problems = []
    left, right = read_tree(reference), read_tree(ours)
    right = {name: data for name, data in right.items() if '.pb-c.' in name}
    if left.keys() != right.keys():
        problems.append(f'files: {sorted(left)} and {sorted(right)}')
    for name in left.keys() & right.keys():
        a, b = (normalise(tree[name].decode()).splitlines() for tree in (left, right))
        if a != b:
            at = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
            problems.append(f'{name}: line {at + 1}\n- {"".join(a[at:at + 1])}\n'
                            f'+ {"".join(b[at:at + 1])}')
    return problems


def shared_object(folder, work, name):
    """All of the folder's pb-c code as one shared object; what it imports comes from the library."""
    target = work / name
    sources = sorted(folder.glob('**/*.pb-c.c'))
    result = run('gcc', '-shared', '-fPIC', '-w', '-O0', f'-I{folder}', *INCLUDES, '-o', target,
                 *sources, *(BUILD / 'codegen/wkt').glob('libpekoe-wkt.a'), '-lprotobuf-c')
    return target, [result.stderr] if result.returncode else []


def compare_descriptors(reference, ours, work):
    left, problems = shared_object(reference, work, 'reference.so')
    right, more = shared_object(ours, work, 'ours.so')
    if problems or more:
        return problems + more
    symbols = run('nm', '-D', '--defined-only', left).stdout
    names = re.findall(r'^\w+ [DR] (\w+__descriptor)$', symbols, re.MULTILINE)
    if not names:
        return []
    result = run(COMPARE, left, right, *names)
    return [result.stdout + result.stderr] if result.returncode else []


def imports_of(proto):
    """The protos of PROTOS and GRPC_PROTO that it needs, itself included, as protoc names them."""
    needed = [proto]
    for name in needed:
        path = next((root / name for root in (PROTOS, GRPC_PROTO, GOOGLE) if (root / name).exists()),
                    None)
        text = path.read_text() if path else ''
        needed += [other for other in re.findall(r'^import\s+(?:public\s+)?"(.*?)"', text,
                                                 re.MULTILINE)
                   if other not in needed and (not other.startswith('google/protobuf/') or
                                               other.startswith('google/protobuf/compiler'))
                   and other not in ('protobuf-c/protobuf-c.proto', 'pekoe/options.proto')]
    return needed


def check_same(tap, work):
    if not shutil.which('protoc-gen-c'):
        tap.result('same as protoc-gen-c', [], skip='protoc-gen-c is not installed')
        return
    for proto in SAME + INSTALLED:
        with tempfile.TemporaryDirectory(dir=work) as folder:
            folder = pathlib.Path(folder)
            reference, ours = folder / 'reference', folder / 'ours'
            reference.mkdir()
            needed = imports_of(proto)
            result = run('protoc', *IMPORTS, f'--c_out={reference}', *needed)
            problems = [result.stderr] if result.returncode else []
            result = generate(ours, needed)
            problems += [result.stderr] if result.returncode else []
            if not problems:
                problems = compare_text(reference, ours)
                problems += compare_descriptors(reference, ours, folder)
            tap.result(f'{proto}: text and descriptors are protoc-gen-c\'s', problems)


def check_compiles(tap, work):
    for number, proto in enumerate(SAME + OURS + ['grpc/testing/test.proto',
                                                  'grpc/reflection/v1/reflection.proto']):
        folder = work / f'compiles{number}'
        result = generate(folder, imports_of(proto))
        problems = [result.stderr] if result.returncode else []
        tap.result(f'{proto}: compiles as C', problems or compile_all(folder))
        tap.result(f'{proto}: compiles as C++', problems or compile_all(folder, 'c++'))


def check_together(tap, work):
    folder = work / 'together'
    protos = ['foo_bar.proto', 'foo-bar.proto', '1st.proto', 'a.b.proto', 'Foo.proto',
              'Bar/Foo.proto', 'names_fields.proto', 'names_services.proto']
    result = generate(folder, protos)
    problems = [result.stderr] if result.returncode else []
    main = folder / 'main.c'
    main.write_text(''.join(f'#include "{p[:-6]}.pb-c.h"\n' for p in protos)
                    + 'int main(void) { return 0; }\n')
    if not problems:
        result = run('gcc', *STRICT, '-o', folder / 'main', main, *folder.glob('**/*.pb-c.c'),
                     f'-I{folder}', *INCLUDES, '-lprotobuf-c')
        problems = [result.stderr] if result.returncode else []
    tap.result('files whose names differ little compile and link together', problems)


def check_refused(tap, work):
    for key, patterns in REFUSED.items():
        proto, _, parameters = key.partition(' ')
        out = work / 'refused'
        result = generate(out, proto.split(','), parameters)
        lines = [line.removeprefix('--pekoe_out: ') for line in result.stderr.splitlines()
                 if 'warning' not in line]
        problems = [] if result.returncode else ['it was accepted']
        if len(lines) != len(patterns):
            problems.append(f'{len(patterns)} lines expected')
        problems += [f'{pattern} is not in:' for pattern, line in zip(patterns, lines)
                     if not re.search(pattern, line)]
        problems += lines if problems else []
        problems += [f'wrote {name}' for name in read_tree(out)]
        tap.result(f'{key}: refused, and it says why', problems)


def check_repeatable(tap, work):
    protos = ['kinds3.proto', 'kinds2.proto', 'names_fields.proto', 'optional3.proto',
              'Bar/Foo.proto', 'Foo.proto']
    outs = [work / f'again{i}' for i in range(4)]
    results = [generate(outs[0], protos), generate(outs[1], protos),
               generate(outs[2], protos[::-1])]
    results += [generate(outs[3], [proto]) for proto in protos]
    problems = [result.stderr for result in results if result.returncode]
    first = read_tree(outs[0])
    for name, out in zip(('again', 'in another order', 'one by one'), outs[1:]):
        if read_tree(out) != first:
            problems.append(f'differs when run {name}')
    tap.result('the output is the same from run to run', problems)


def why_not_link():
    """What keeps a plain program from linking the library; None = nothing."""
    library = BUILD / 'libpekoe.so'
    if not library.exists():
        return 'libpekoe.so is missing'
    if re.search(r'__(asan|tsan|ubsan)_', run('nm', '-D', library).stdout):
        return 'libpekoe.so wants the runtime of a sanitizer'
    return None


def check_own_copies(tap, work):
    """A program with its own timestamp.pb-c.[ch] takes the rest from the library."""
    reason = why_not_link() or (not shutil.which('protoc-gen-c') and
                                'protoc-gen-c is not installed')
    if reason:
        tap.result('a program may bring its own well-known types', [], skip=reason)
        return
    folder = work / 'own'
    folder.mkdir()
    result = run('protoc', f'-I{GOOGLE}', f'--c_out={folder}', 'google/protobuf/timestamp.proto')
    problems = [result.stderr] if result.returncode else []
    main = folder / 'main.c'
    main.write_text('''
#include "google/protobuf/struct.pb-c.h"
#include "google/protobuf/timestamp.pb-c.h"
int main(void)
{
    Google__Protobuf__Timestamp time = GOOGLE__PROTOBUF__TIMESTAMP__INIT;
    Google__Protobuf__Struct tree = GOOGLE__PROTOBUF__STRUCT__INIT;
    time.seconds = 1;
    return google__protobuf__timestamp__get_packed_size(&time) == 2 &&
           google__protobuf__struct__get_packed_size(&tree) == 0 ? 0 : 1;
}
''')
    for kind, library in (('shared', ['-L' + str(BUILD), '-lpekoe', f'-Wl,-rpath,{BUILD}']),
                          ('static', [BUILD / 'libpekoe.a'])):
        program = folder / kind
        result = run('gcc', *STRICT, '-o', program, main, *folder.glob('**/*.pb-c.c'),
                     f'-I{folder}', *INCLUDES, *library, '-lprotobuf-c')
        if result.returncode == 0:
            result = run(program)
        if result.returncode:
            problems.append(f'{kind}: {result.returncode} {result.stderr}')
    tap.result('a program may bring its own well-known types', problems)


def check_well_known(tap, work):
    """A program that uses well-known types links the library and nothing more."""
    folder = work / 'clock'
    result = generate(folder, ['clock.proto'])
    problems = [result.stderr] if result.returncode else []
    main = folder / 'main.c'
    main.write_text('#include "clock.pekoe.h"\n'
                    'int main(void) { return clock_clock_service.method_count == 1 ? 0 : 1; }\n')
    if why_not_link():
        tap.result('well-known types come from the library', problems, skip=why_not_link())
        return
    if not problems:
        result = run('gcc', *STRICT, '-o', folder / 'main', main, folder / 'clock.pb-c.c',
                     folder / 'clock.pekoe.c', f'-I{folder}', *INCLUDES, '-L' + str(BUILD),
                     '-lpekoe', f'-Wl,-rpath,{BUILD}', '-lprotobuf-c')
        result = run(folder / 'main') if result.returncode == 0 else result
        problems = [f'{result.returncode} {result.stderr}'] if result.returncode else []
    tap.result('well-known types come from the library', problems)


def check_none(tap, work):
    """messages=none: pekoe's code stands on protoc-gen-c's structs."""
    protos = ['kinds2.proto', 'kinds3.proto', 'code_size.proto', 'package_register_int.proto']
    out = work / 'none'
    result = generate(out, protos, 'messages=none')
    problems = [result.stderr] if result.returncode else []
    problems += [f'wrote {name}' for name in read_tree(out) if '.pb-c.' in name]
    tap.result('messages=none writes no pb-c files', problems)
    if not shutil.which('protoc-gen-c'):
        tap.result('messages=none: compiles', [], skip='protoc-gen-c is not installed')
        return
    result = run('protoc', *IMPORTS, f'--c_out={out}', *protos)
    problems = [result.stderr] if result.returncode else []
    for path in sorted(out.glob('*.pekoe.c')):
        result = run('gcc', '-std=c11', *STRICT, '-Wno-missing-braces', f'-I{out}', *INCLUDES,
                     '-fsyntax-only', path)
        problems += [result.stderr] if result.returncode else []
    tap.result('messages=none: compiles with protoc-gen-c\'s structs', problems)


def check_paths(tap, work):
    """Whatever the C names are, a path is made of the exact proto names."""
    paths = {'package_register_int.proto': ['/register.int.Svc/Feed', '/register.int.Svc/Talk'],
             'Foo.proto': ['/Svc/Method'],
             'Bar/Foo.proto': ['/bar.Svc/Method'],
             'names_services.proto': ['/names.services.Words/Default', '/names.services.Taken/Init',
                                      '/names.services.Own/Serve', '/names.services.int/default'],
             'kinds2.proto': ['/kinds.two.Greeter/HTTPChat']}
    out = work / 'paths'
    problems = [generate(out, list(paths)).stderr]
    for proto, wanted in paths.items():
        text = (out / proto.replace('.proto', '.pekoe.c')).read_text()
        problems += [f'{proto}: {path} is missing' for path in wanted if f'"{path}"' not in text]
    tap.result('a path keeps the exact proto names', [p for p in problems if p])


def main():
    tap = Tap()
    os.environ['LC_ALL'] = 'C'
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        for check in (check_refused, check_none, check_paths, check_repeatable, check_together,
                      check_well_known, check_own_copies, check_compiles, check_same):
            check(tap, work)
    print(f'1..{tap.count}')
    return 1 if tap.failed else 0


if __name__ == '__main__':
    sys.exit(main())
