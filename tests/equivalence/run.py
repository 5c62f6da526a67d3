"""Compares decoding and packing with python3-protobuf; TAP on standard output.

usage: run.py ECHO CORPUS [ROUNDS]

Random messages of every kind of field are decoded and packed again by each way that echo.c knows;
python's parse of the result must be python's parse of the original. Then the samples are cut at
every offset and changed at every byte: the verdict and the contents must be python's, but for the
accepted differences below. CORPUS is that of fuzz_decode: its inputs are judged by python too, as they
are, cut and changed.
"""
import importlib
import os
import pathlib
import random
import struct
import subprocess
import sys
import warnings

from google.protobuf import descriptor as d
from google.protobuf.message import DecodeError

# An end-group tag without its start is a warning there, and an error everywhere else.
warned = []
warnings.simplefilter('always', RuntimeWarning)
warnings.showwarning = lambda *arguments, **_: warned.append(arguments)

sys.path.insert(0, os.environ['KINDS_PATH'])
kinds2 = importlib.import_module('kinds2_pb2')
kinds3 = importlib.import_module('kinds3_pb2')

TYPES = [kinds3.Everything, kinds2.Everything, kinds3.Scalars, kinds3.Repeated,
         kinds3.FewRepeated, kinds3.Maps, kinds3.Choice, kinds3.Tree, kinds3.HighNumbers,
         kinds2.Enums, kinds2.Groups, kinds2.Required, kinds2.Defaults, kinds3.Small,
         kinds3.Tiny, kinds2.Inner, kinds3.Forest]
DECODE, IN_PLACE, MERGE, LOOKAHEAD, PRESCAN, COPY, BY_PROTOBUF_C, GUARDED = range(8)
# What the first byte of an input means to fuzz_decode.c.
FUZZED = [*range(14), TYPES.index(kinds3.Forest), TYPES.index(kinds2.Inner)]
FUZZED_STRATEGIES = [IN_PLACE, LOOKAHEAD, PRESCAN]
GROUPED = {kinds2.Groups, kinds2.Everything}
LIMIT, MALFORMED = 4, 5


class Echo:
    def __init__(self, path):
        self.process = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, operation, type_index, first, second=b''):
        request = struct.pack('<BB', operation, type_index)
        for piece in (first, second):
            request += struct.pack('<I', len(piece)) + piece
        self.process.stdin.write(request)
        self.process.stdin.flush()
        head = self.process.stdout.read(5)
        if len(head) != 5:
            raise SystemExit('echo ended with %s after operation %d, type %s: %s %s'
                             % (self.process.wait(), operation, TYPES[type_index].DESCRIPTOR.name,
                                first.hex(), second.hex()))
        error, length = struct.unpack('<BI', head)
        return error, self.process.stdout.read(length)


# --- Random messages ----------------------------------------------------------------------------

INTEGERS = {
    d.FieldDescriptor.TYPE_INT32: (32, True), d.FieldDescriptor.TYPE_SINT32: (32, True),
    d.FieldDescriptor.TYPE_SFIXED32: (32, True), d.FieldDescriptor.TYPE_INT64: (64, True),
    d.FieldDescriptor.TYPE_SINT64: (64, True), d.FieldDescriptor.TYPE_SFIXED64: (64, True),
    d.FieldDescriptor.TYPE_UINT32: (32, False), d.FieldDescriptor.TYPE_FIXED32: (32, False),
    d.FieldDescriptor.TYPE_UINT64: (64, False), d.FieldDescriptor.TYPE_FIXED64: (64, False),
}
ALPHABET = 'abcXYZ 09-_/\u00e9\u20ac\U0001d11e\n\x7f\x01'


def value_of(field, rng):
    kind = field.type
    if kind in INTEGERS:
        bits, signed = INTEGERS[kind]
        number = rng.getrandbits(rng.choice([1, 7, 8, 14, 15, 21, 28, 31, bits, bits]))
        number &= (1 << bits) - 1
        if signed and number >= 1 << (bits - 1):
            number -= 1 << bits
        return -number if signed and rng.random() < 0.2 and number < 1 << (bits - 2) else number
    if kind == d.FieldDescriptor.TYPE_BOOL:
        return rng.random() < 0.5
    if kind in (d.FieldDescriptor.TYPE_FLOAT, d.FieldDescriptor.TYPE_DOUBLE):
        return rng.choice([0.0, -0.0, 1.5, -2.25, float('inf'), 3.0e10])
    if kind == d.FieldDescriptor.TYPE_ENUM:
        return rng.choice(field.enum_type.values).number
    if kind == d.FieldDescriptor.TYPE_STRING:
        length = rng.choice([0, 1, 3, 8, 15, 16, 17, 31, 32, 33, 64, 130])
        return ''.join(rng.choice(ALPHABET) for _ in range(rng.randint(0, length)))
    return bytes(rng.getrandbits(8) for _ in range(rng.choice([0, 1, 4, 16, 40, 200])))


def fill(message, rng, depth):
    for field in message.DESCRIPTOR.fields:
        required = field.label == d.FieldDescriptor.LABEL_REQUIRED
        if not required and rng.random() < 0.45:
            continue
        nested = field.message_type
        if nested and not required and depth <= 0:
            continue
        if nested and nested.GetOptions().map_entry:
            entries = getattr(message, field.name)
            key, value = nested.fields_by_name['key'], nested.fields_by_name['value']
            for _ in range(rng.randint(0, 3)):
                chosen = value_of(key, rng)
                if value.message_type:
                    fill(entries[chosen], rng, depth - 1)
                else:
                    entries[chosen] = value_of(value, rng)
        elif field.label == d.FieldDescriptor.LABEL_REPEATED:
            for _ in range(rng.choice([1, 2, 3, 9, 20]) if not nested else rng.randint(1, 3)):
                if nested:
                    fill(getattr(message, field.name).add(), rng, depth - 1)
                else:
                    getattr(message, field.name).append(value_of(field, rng))
        elif nested:
            child = getattr(message, field.name)
            child.SetInParent()
            fill(child, rng, depth - 1)
        else:
            setattr(message, field.name, value_of(field, rng))


UNKNOWN = [b'\xa2\xbf\x05\x03abc', b'\xa0\xbf\x05\x01', b'\xa5\xbf\x05abcd', b'\xa1\xbf\x05abcdefgh',
           b'\xa3\xbf\x05\x08\x01\x13\x0a\x01x\x14\xa4\xbf\x05']


def sample(type_, rng, unknown):
    message = type_()
    fill(message, rng, 3)
    bytes_ = message.SerializeToString()
    if unknown:
        bytes_ += b''.join(rng.sample(UNKNOWN, rng.randint(1, 3)))
    return bytes_


def parse(type_, bytes_):
    """The message and all of its unknown fields, in a form that compares; None where refused."""
    message = type_()
    warned.clear()
    try:
        message.ParseFromString(bytes_)
    except (DecodeError, RecursionError):
        return None
    if warned or not message.IsInitialized():
        return None
    return message.SerializeToString(deterministic=True)


# --- Checks -------------------------------------------------------------------------------------

checks = []


def check(claim, problems):
    checks.append(not problems)
    print('%s %d - %s' % ('not ok' if problems else 'ok', len(checks), claim))
    for problem in problems[:5]:
        print('# ' + problem[:600])
    sys.stdout.flush()


def compare(echo, rng, rounds, operation, with_unknown):
    problems = []
    for round_ in range(rounds):
        index = round_ % len(TYPES)
        type_ = TYPES[index]
        first = sample(type_, rng, with_unknown)
        second = sample(type_, rng, with_unknown) if operation == MERGE else b''
        error, packed = echo.ask(operation, index, first, second)
        expected = parse(type_, first + second)
        got = None if error else parse(type_, packed)
        if expected != got:
            problems.append('%s: %s %s gave %s %s' % (type_.DESCRIPTOR.full_name, first.hex(),
                                                      second.hex(), error,
                                                      packed if error else packed.hex()))
    return problems


ACCEPTED = {
    'a NUL in a string is refused, since a char * holds none':
        lambda error, packed: error and b'NUL' in packed,
    'a map entry without its value has an empty message, whose required fields are written':
        lambda error, packed: not error and b'\x12\x04\x08\x00\x1a\x00' in packed,
}


def accepted(error, packed):
    """The differences that docs/messages.md lists: which of them this is, else None."""
    for difference, holds in ACCEPTED.items():
        if holds(error, packed):
            return difference
    return None


def damaged(rng, bytes_):
    for cut in range(len(bytes_)):
        yield bytes_[:cut]
    for at in range(len(bytes_)):
        for byte in (bytes_[at] ^ 1 << rng.randint(0, 7), rng.getrandbits(8)):
            yield bytes_[:at] + bytes([byte]) + bytes_[at + 1:]


class Verdicts:
    """What was judged by python, and where its verdict or its message was another."""

    def __init__(self, echo):
        self.echo = echo
        self.cases = 0
        self.accepted = dict.fromkeys(ACCEPTED, 0)
        self.problems = []

    def judge(self, operation, index, bytes_):
        type_ = TYPES[index]
        self.cases += 1
        error, packed = self.echo.ask(operation, index, bytes_)
        expected = parse(type_, bytes_)
        got = None if error else parse(type_, packed)
        if expected == got or not error and packed == expected:
            return
        difference = accepted(error, packed)
        if difference:
            self.accepted[difference] += 1
        else:
            self.problems.append('%s: %s gave %s %s, expected %s'
                                 % (type_.DESCRIPTOR.full_name, bytes_.hex(), error,
                                    packed if error else packed.hex(),
                                    expected and expected.hex()))

    def tell(self):
        print('# %d judged' % self.cases)
        for difference, count in self.accepted.items():
            print('# %d accepted: %s' % (count, difference))
        return self.problems


def compare_damaged(echo, rng, samples):
    verdicts = Verdicts(echo)
    for index, type_ in enumerate(TYPES):
        for _ in range(samples):
            whole = sample(type_, rng, True)
            while len(whole) > 1500:
                whole = sample(type_, rng, True)
            for bytes_ in damaged(rng, whole):
                verdicts.judge(IN_PLACE, index, bytes_)
    return verdicts.tell()


def compare_corpus(echo, rng, folder):
    """Every input as fuzz_decode.c takes it, then damaged."""
    verdicts = Verdicts(echo)
    inputs = [path.read_bytes() for path in sorted(pathlib.Path(folder).iterdir())]
    if not inputs:
        return ['%s is empty' % folder]
    for input_ in filter(None, inputs):
        index = FUZZED[input_[0] % len(FUZZED)]
        strategy = FUZZED_STRATEGIES[input_[0] // len(FUZZED) % len(FUZZED_STRATEGIES)]
        verdicts.judge(strategy, index, input_[1:])
        # One that libFuzzer found is one of thousands, and damaged by itself.
        if len(inputs) < 100:
            for bytes_ in damaged(rng, input_[1:]):
                verdicts.judge(strategy, index, bytes_)
    return verdicts.tell()


def compare_with_protobuf_c(echo, rng, rounds):
    problems = []
    for round_ in range(rounds):
        index = round_ % len(TYPES)
        if TYPES[index] in GROUPED:
            continue
        bytes_ = sample(TYPES[index], rng, True)
        ours = echo.ask(DECODE, index, bytes_)
        theirs = echo.ask(BY_PROTOBUF_C, index, bytes_)
        if ours != theirs and not minus_zero(bytes_):
            problems.append('%s: %s' % (TYPES[index].DESCRIPTOR.full_name, bytes_.hex()))
    return problems


def minus_zero(bytes_):
    """proto3: -0.0 is not the default and is written, which protobuf-c forgets."""
    return b'\x00\x00\x00\x80' in bytes_


def silence_protobuf():
    """Its C++ part tells of each refused message on the error stream, which says nothing new."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def main():
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 510
    rng = random.Random(20)
    silence_protobuf()
    echo = Echo(sys.argv[1])
    for name, operation in (('decode and pack', DECODE), ('decode in place', IN_PLACE),
                            ('merge of two pieces', MERGE), ('lookahead', LOOKAHEAD),
                            ('prescan', PRESCAN), ('a copy that outlives its arena', COPY)):
        check('%s, as python does' % name, compare(echo, rng, rounds, operation, False))
        check('%s with unknown fields, as python does' % name,
              compare(echo, rng, rounds, operation, True))
    check('packing gives the bytes of protobuf_c_message_pack',
          compare_with_protobuf_c(echo, rng, rounds))
    check('truncated and corrupted messages, as python does',
          compare_damaged(echo, rng, max(1, rounds // 240)))
    check("the fuzz target's inputs, as python does", compare_corpus(echo, rng, sys.argv[2]))
    echo.process.stdin.close()
    check('the program ended well', [] if echo.process.wait() == 0 else ['no'])
    print('1..%d' % len(checks))


main()
