#!/usr/bin/python3
"""Only the protocol layer knows what gRPC's bytes look like.

The names below may occur in the code (not in the comments) of the protocol files, negotiation,
status and CORS, and nowhere else in the library. A made-up breach of each is tried as well.
TAP on stdout.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ['include/pekoe', 'core', 'future', 'marshalling', 'handlers', 'services', 'transport']

ALLOWED = re.compile(r'marshalling/(protocol|negotiat)[^/]*|(core|marshalling)/status[^/]*'
                     r'|(handlers|gateway)/cors[^/]*')
KNOWLEDGE = {
    'grpc-status': r'grpc-status',
    'application/grpc': r'application/grpc',
    'frame flags': r'PK_FRAME_(FLAG_)?(COMPRESSED|TRAILERS?)\b',
}
TOKEN = re.compile(r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)


def without_comments(text):
    return TOKEN.sub(lambda m: ' ' if m.group().startswith('/*') else m.group(), text)


def breaches(pattern, files):
    return [path for path, text in sorted(files.items())
            if not ALLOWED.fullmatch(path) and re.search(pattern, without_comments(text), re.I)]


def main():
    files = {str(p.relative_to(ROOT)): p.read_text(errors='replace')
             for folder in FOLDERS for p in (ROOT / folder).rglob('*.[ch]')}
    made_up = {'transport/a.c': '/* grpc-status */ x("grpc-status", "application/grpc");\n'
                                'y(PK_FRAME_COMPRESSED);',
               'core/a.c': '/* grpc-status "application/grpc" PK_FRAME_TRAILERS */',
               'marshalling/protocol_grpc.c': '"grpc-status application/grpc"'}
    results = []
    for name, pattern in KNOWLEDGE.items():
        results.append((f'{name}: only in the protocol layer', breaches(pattern, files)))
        seen = breaches(pattern, made_up)
        results.append((f'{name}: a made-up breach is seen',
                        [] if seen == ['transport/a.c'] else [f'found in {seen}']))
    for number, (name, wrong) in enumerate(results, 1):
        print(f'{"not ok" if wrong else "ok"} {number} - {name}')
        for line in wrong:
            print(f'# {line}')
            print(line, file=sys.stderr)
    print(f'1..{len(results)}')
    return any(wrong for _, wrong in results)


if __name__ == '__main__':
    sys.exit(main())
