#!/usr/bin/python3
"""Who may include whom: the folder table of the design, held against every #include.

Two kinds of rule: a folder includes only from folders above it, and it does not include what its
row says that it must not know. Each rule is also tried on a small made-up tree that breaks it, so
that a rule which can no longer fail is seen. TAP on stdout.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]

# From the top down: a folder includes only from itself and from those before it.
ORDER = ['include/pekoe', 'core', 'future', 'marshalling', 'handlers', 'services', 'transport',
         'gateway']
# Not part of the order. codegen is a build tool and knows nothing of the runtime; examples are
# what a user would write, so they see public and generated headers only.
PRIVATE_FREE = ['codegen', 'examples']
LIBRARY = ORDER + PRIVATE_FREE

SOCKETS = r'sys/socket\.h|sys/un\.h|netinet/.*|arpa/inet\.h|netdb\.h|openssl/.*|ares.*\.h'
HTTP = r'nghttp2/.*'
MESSAGES = r'protobuf-c/.*|google/protobuf-c/.*|.*\.pb-c\.h'

# folder -> pattern of what none of its files includes, be it a system or a private header.
MUST_NOT_KNOW = {
    'include/pekoe': rf'{HTTP}|{SOCKETS}|ev\.h|zlib\.h',
    'core': rf'{HTTP}|{SOCKETS}|{MESSAGES}',
    'future': rf'{HTTP}|{SOCKETS}|{MESSAGES}',
    'marshalling': rf'{HTTP}|{SOCKETS}|handlers/.*',
    'handlers': rf'{HTTP}|{SOCKETS}',
    'transport': rf'{MESSAGES}|marshalling/.*',
    'gateway': MESSAGES,
    'codegen': r'pekoe/(?!options).*|core/.*|future/.*|marshalling/.*|handlers/.*|transport/.*',
    'handlers/unary': r'handlers/streaming/.*',
    'handlers/streaming': r'handlers/unary/.*',
}

# header -> the only files that include it.
ONLY_IN = {
    r'ev\.h': r'core/loop[^/]*\.[ch]|examples/.*', # a program's own watchers
    r'zlib\.h': r'marshalling/compressor[^/]*\.c',
    r'openssl/.*': r'(transport|gateway)/tls[^/]*\.[ch]',
    r'ares\.h': r'(transport|gateway)/resolver[^/]*\.c',
    r'nghttp2/.*': r'transport/http2_session_private\.h',
    r'transport/http2_session_private\.h': r'transport/http2_session[^/]*\.c',
}

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(["<])([^">]+)[">]', re.MULTILINE)


def folder_of(path):
    return next((f for f in LIBRARY if path.startswith(f + '/')), None)


def folder_of_header(header):
    """The library folder that a header belongs to, or None for one from outside."""
    if header.startswith('pekoe/'):
        return 'include/pekoe'
    return folder_of(header)


def upward(path, _quote, header, _files):
    """a folder includes only from folders above it"""
    here, there = folder_of(path), folder_of_header(header)
    if there is None or here == there:
        return False
    if here in PRIVATE_FREE:
        return there != 'include/pekoe'
    return there not in ORDER or ORDER.index(there) > ORDER.index(here)


def unknown(path, _quote, header, _files):
    """a folder includes nothing that its row says it must not know"""
    return any(path.startswith(folder + '/') and re.fullmatch(pattern, header)
               for folder, pattern in MUST_NOT_KNOW.items())


def only_in(path, _quote, header, _files):
    """ev.h, zlib.h, openssl, ares.h and nghttp2 are each known to their own files only"""
    return any(re.fullmatch(pattern, header) and not re.fullmatch(where, path)
               for pattern, where in ONLY_IN.items())


def router_is_apart(path, _quote, header, _files):
    """what stands directly in handlers/ includes neither of its two sub-folders"""
    return (re.fullmatch(r'handlers/[^/]+', path) is not None
            and re.match(r'handlers/(unary|streaming)/', header) is not None)


def from_root(path, quote, header, files):
    """a quoted header is named from the root, never by ../"""
    if header.startswith('../') or '/../' in header:
        return True
    generated = re.fullmatch(r'.*\.(pb-c|pekoe)\.h', header) is not None
    return quote == '"' and not generated and header not in files


RULES = [upward, unknown, only_in, router_is_apart, from_root]

# Each rule, and made-up trees that break it in one place.
BREACHES = [
    (upward, {'core/a.c': '#include "future/b.h"', 'future/b.h': ''}),
    (upward, {'include/pekoe/a.h': '#include "core/b.h"', 'core/b.h': ''}),
    (upward, {'examples/x/main.c': '#include "core/b.h"', 'core/b.h': ''}),
    (upward, {'services/x.c': '#include "transport/b.h"', 'transport/b.h': ''}),
    (unknown, {'transport/a.c': '#  include "marshalling/m.h"', 'marshalling/m.h': ''}),
    (unknown, {'future/a.c': '#include <protobuf-c/protobuf-c.h>'}),
    (unknown, {'handlers/a.c': '#include <sys/socket.h>'}),
    (unknown, {'codegen/a.c': '#include <pekoe/base.h>'}),
    (unknown, {'handlers/unary/a.c': '#include "handlers/streaming/b.h"',
               'handlers/streaming/b.h': ''}),
    (only_in, {'transport/a.c': '#include <ev.h>'}),
    (only_in, {'transport/a.c': '#include <nghttp2/nghttp2.h>'}),
    (only_in, {'transport/http2_exchange.c': '#include "transport/http2_session_private.h"'}),
    (router_is_apart, {'handlers/router.c': '#include "handlers/unary/u.h"',
                       'handlers/unary/u.h': ''}),
    (from_root, {'core/a.c': '#include "../core/b.h"', 'core/b.h': ''}),
    (from_root, {'core/a.c': '#include "b.h"', 'core/b.h': ''}),
]


def breaches(rule, files):
    return [f'{path}: {header}' for path, text in sorted(files.items()) if folder_of(path)
            for quote, header in INCLUDE.findall(text) if rule(path, quote, header, files)]


def source_files():
    return {str(p.relative_to(ROOT)): p.read_text(errors='replace')
            for folder in LIBRARY for p in sorted((ROOT / folder).rglob('*.[ch]'))}


def main():
    files = source_files()
    results = [(rule.__doc__, breaches(rule, files)) for rule in RULES]
    for rule, tree in BREACHES:
        found = len(breaches(rule, tree))
        results.append((f'a made-up breach is seen: {rule.__doc__}',
                        [] if found == 1 else [f'{found} found in {tree}']))
    for number, (name, wrong) in enumerate(results, 1):
        print(f'{"not ok" if wrong else "ok"} {number} - {name}')
        for line in wrong:
            print(f'# {line}')
            print(line, file=sys.stderr)
    print(f'1..{len(results)}')
    return any(wrong for _, wrong in results)


if __name__ == '__main__':
    sys.exit(main())
