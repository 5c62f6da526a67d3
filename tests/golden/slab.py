#!/usr/bin/python3
"""Which messages get slab decoders, and that their code stands alone. TAP on stdout.

usage: slab.py PLUGIN SOURCE_ROOT BUILD_ROOT
"""
import pathlib
import subprocess
import sys
import tempfile

PLUGIN, SOURCE, BUILD = (pathlib.Path(a).resolve() for a in sys.argv[1:4])
INCLUDES = [f'-I{SOURCE}/include', f'-I{BUILD}/codegen/wkt']
STRICT = ['-std=gnu11', '-Wall', '-Wextra', '-Werror', '-Wno-unused-parameter']

BASE = '''syntax = "proto3"; package shop;
message Item { string name = 1; repeated Item parts = 2; map<string, Price> prices = 3; }
message Price { sint64 micros = 1; }
message Basket { repeated Item items = 1; }
message Lonely { Price price = 1; }
'''
SERVICE = '''syntax = "proto3"; package shop;
import "base.proto";
import "google/protobuf/empty.proto";
message Order { Basket basket = 1; oneof pay { string card = 2; Price cash = 3; } }
service Shop { rpc Buy(Order) returns (Basket); rpc Look(google.protobuf.Empty) returns (Order); }
'''
SECOND = '''syntax = "proto3"; package shop;
import "base.proto";
message Return { Basket basket = 1; repeated Item items = 2; }
service Back { rpc Give(Return) returns (Basket); }
'''
ZERO = '''syntax = "proto3"; package shop;
import "pekoe/options.proto";
message Large { option (pekoe.zero_copy) = true; bytes data = 1; }
message Small { bytes data = 1; }
'''
GROUPS = '''syntax = "proto2"; package g;
message HasGroup { optional group Part = 1 { optional string text = 2; } }
message Above { repeated HasGroup all = 1; }
message Plain { optional string text = 1; }
'''

checks = []


def check(claim, holds, *details):
    checks.append(holds)
    print('%s %d - %s' % ('ok' if holds else 'not ok', len(checks), claim))
    if not holds:
        for detail in details:
            print('\n'.join('# ' + line for line in str(detail).splitlines()[:20]))


class Folder:
    """A folder of .proto files and what was generated from them."""

    def __init__(self, path, **protos):
        self.path = pathlib.Path(path)
        for name, text in protos.items():
            (self.path / (name + '.proto')).write_text(text)

    def generate(self, out, *protos, options=()):
        folder = self.path / out
        folder.mkdir(exist_ok=True)
        run = subprocess.run(
            ['protoc', f'--plugin=protoc-gen-pekoe={PLUGIN}', f'-I{self.path}',
             f'-I{SOURCE}/include', '-I/usr/include', f'--pekoe_out={folder}',
             *[f'--pekoe_opt={option}' for option in options],
             *[str(self.path / (proto + '.proto')) for proto in protos]],
            capture_output=True, text=True, check=False)
        self.error = run.stderr
        return run.returncode == 0

    def text(self, out, name):
        return (self.path / out / name).read_text()

    def decoders(self, out, name):
        return {line.split('(')[0].split('decode_root_')[1]
                for line in self.text(out, name + '.pekoe.c').splitlines()
                if line.startswith('static int decode_root_')}

    def links(self, out, *names):
        sources = [str(self.path / out / (name + ending)) for name in names
                   for ending in ('.pekoe.c', '.pb-c.c')]
        run = subprocess.run(
            ['cc', '-shared', '-fPIC', '-O1', *STRICT, f'-I{self.path / out}', *INCLUDES, *sources,
             '-o', str(self.path / 'linked.so'), f'-L{BUILD}', '-lpekoe', '-lprotobuf-c',
             '-Wl,--no-undefined'], capture_output=True, text=True, check=False)
        self.error = run.stderr
        return run.returncode == 0


def choices(folder):
    folder.generate('services', 'base', 'service')
    check('by default the messages of methods get decoders, and no others',
          folder.decoders('services', 'service') == {
              'shop__order', 'shop__basket', 'google__protobuf__empty'}
          and folder.decoders('services', 'base') == set(),
          folder.decoders('services', 'service'), folder.decoders('services', 'base'))
    folder.generate('all', 'base', 'service', options=['slab=all'])
    check('slab=all gives one to every message',
          folder.decoders('all', 'base') == {'shop__item', 'shop__price', 'shop__basket',
                                             'shop__lonely'})
    folder.generate('named', 'base', 'service',
                    options=['slab=opt-in', 'slab=shop.Lonely', 'slab=shop.Basket',
                             'slab-exclude=shop.Basket'])
    check('names add and exclude', folder.decoders('named', 'base') == {'shop__lonely'},
          folder.decoders('named', 'base'))
    folder.generate('opt-in', 'base', 'service', options=['slab=opt-in'])
    folder.generate('opt-in-strategy', 'base', 'service',
                    options=['slab=opt-in', 'slab-reserve=prescan'])
    check('opt-in with nothing opted in leaves not one byte of slabs',
          folder.decoders('opt-in', 'service') == set()
          and all(folder.text('opt-in', name) == folder.text('opt-in-strategy', name)
                  for name in ('service.pekoe.c', 'base.pekoe.c'))
          and folder.text('opt-in', 'base.pekoe.c') == folder.text('services', 'base.pekoe.c')
          and 'pk_decode' not in folder.text('opt-in', 'service.pekoe.c'))
    check('a name that no message has is an error that says so',
          not folder.generate('wrong', 'base', options=['slab=shop.Itme'])
          and 'slab=shop.Itme' in folder.error, folder.error)
    check('zero-copy is off until it is asked for',
          'ZERO_COPY' not in folder.text('all', 'base.pekoe.c'))
    folder.generate('zero', 'base', 'service', 'zero',
                    options=['slab-zero-copy=services', 'slab=shop.Lonely',
                             'slab-zero-copy=shop.Lonely'])
    check('the option gives a decoder and zero-copy; the parameter takes services and names',
          folder.decoders('zero', 'zero') == {'shop__large'}
          and folder.text('zero', 'zero.pekoe.c').count('PK_MESSAGE_ZERO_COPY') == 1
          and folder.text('zero', 'base.pekoe.c').count('PK_MESSAGE_ZERO_COPY') == 1
          and folder.text('zero', 'service.pekoe.c').count('PK_MESSAGE_ZERO_COPY') == 3,
          folder.error, folder.decoders('zero', 'zero'))
    check('zero-copy without a slab decoder is an error that names the message',
          not folder.generate('wrong', 'base', options=['slab-zero-copy=shop.Item'])
          and 'shop.Item' in folder.error, folder.error)
    folder.generate('groups', 'groups', options=['slab=opt-in', 'slab-exclude=g.HasGroup'])
    check('what has a group, or may hold one, always gets a decoder',
          folder.decoders('groups', 'groups') == {'g__has_group', 'g__above'},
          folder.decoders('groups', 'groups'))


def linking(folder):
    separate = (folder.generate('separate', 'base', options=['slab=opt-in'])
                and folder.generate('separate', 'service')
                and folder.generate('separate', 'second', options=['slab-reserve=lookahead']))
    check('separate runs with different parameters link: two roots over one foreign closure',
          separate and folder.links('separate', 'base', 'service', 'second'), folder.error)
    check('each strategy compiles',
          all(folder.generate('s-' + strategy, 'base', 'service', 'second',
                              options=['slab=all', 'slab-reserve=' + strategy])
              and folder.links('s-' + strategy, 'base', 'service', 'second')
              for strategy in ('growth', 'lookahead', 'prescan')), folder.error)
    check('groups compile', folder.links('groups', 'groups'), folder.error)


def main():
    with tempfile.TemporaryDirectory() as path:
        folder = Folder(path, base=BASE, service=SERVICE, second=SECOND, zero=ZERO,
                        groups=GROUPS)
        choices(folder)
        linking(folder)
    print('1..%d' % len(checks))


main()
