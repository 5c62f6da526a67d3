#!/usr/bin/python3
"""Reflection of the greeter, as python3-grpcio and python3-protobuf see it.

reflection_client.py ADDRESS, where greeter-server listens. python-protobuf rebuilds every file that
comes and says which symbols it declares; each of them is then asked for. TAP on stdout.
"""
import sys
import traceback

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool

from reflection_pb2 import ServerReflectionRequest, ServerReflectionResponse

SERVICES = ['grpc.health.v1.Health', 'grpc.reflection.v1.ServerReflection',
            'grpc.reflection.v1alpha.ServerReflection', 'helloworld.Greeter']


class Client:
    def __init__(self, address):
        self.channel = grpc.insecure_channel(address, options=[('grpc.enable_http_proxy', 0)])

    def ask(self, *requests, version='v1'):
        """The answers to requests of one stream."""
        method = self.channel.stream_stream(
            f'/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo',
            ServerReflectionRequest.SerializeToString, ServerReflectionResponse.FromString)
        return list(method((ServerReflectionRequest(**r) for r in requests), timeout=20))

    def files(self, answer):
        return [descriptor_pb2.FileDescriptorProto.FromString(data)
                for data in answer.file_descriptor_response.file_descriptor_proto]


def same(got, wanted):
    assert got == wanted, f'got {got!r}, wanted {wanted!r}'


def symbols_of(file):
    """Every full name that a file declares."""
    def of_enum(scope, enum):
        yield scope + enum.name
        yield from (scope + value.name for value in enum.value)

    def of_message(scope, message):
        name = scope + message.name
        yield name
        inner = name + '.'
        for member in (*message.field, *message.oneof_decl, *message.extension):
            yield inner + member.name
        for enum in message.enum_type:
            yield from of_enum(inner, enum)
        for nested in message.nested_type:
            yield from of_message(inner, nested)

    scope = file.package + '.' if file.package else ''
    for message in file.message_type:
        yield from of_message(scope, message)
    for enum in file.enum_type:
        yield from of_enum(scope, enum)
    for service in file.service:
        yield scope + service.name
        yield from (f'{scope}{service.name}.{method.name}' for method in service.method)
    yield from (scope + extension.name for extension in file.extension)


def services(client):
    """both versions list all services"""
    for version in ('v1', 'v1alpha'):
        answer, = client.ask({'list_services': '', 'host': 'me'}, version=version)
        same(sorted(s.name for s in answer.list_services_response.service), SERVICES)
        same(answer.valid_host, 'me')
        same(answer.original_request, ServerReflectionRequest(list_services='', host='me'))


def symbols(client):
    """every symbol of every file leads to the file that declares it, and the files fit together"""
    pool, known = descriptor_pool.DescriptorPool(), {}
    for service in SERVICES:
        answer, = client.ask({'file_containing_symbol': service})
        for file in client.files(answer):
            known[file.name] = file

    def add(file):
        for name in file.dependency:
            add(known[name])
        pool.Add(file)

    for file in known.values():
        add(file)
    for service in SERVICES:
        pool.FindServiceByName(service)
    wanted = [(symbol, file.name) for file in known.values() for symbol in symbols_of(file)]
    answers = client.ask(*({'file_containing_symbol': symbol} for symbol, _ in wanted))
    for (symbol, name), answer in zip(wanted, answers, strict=True):
        assert name in [file.name for file in client.files(answer)], symbol


def names_of_files(client):
    """a file is found by its name"""
    answer, = client.ask({'file_by_filename': 'helloworld.proto'})
    same([file.name for file in client.files(answer)], ['helloworld.proto'])


def errors(client):
    """what is not known gets an error_response, and the stream goes on"""
    answers = client.ask({'file_containing_symbol': 'helloworld.Nobody'},
                         {'file_by_filename': 'nothing.proto'},
                         {'file_containing_extension': {'containing_type': 'helloworld.HelloReply',
                                                        'extension_number': 7}},
                         {'all_extension_numbers_of_type': 'helloworld.Greeter'},
                         {'all_extension_numbers_of_type': 'helloworld.HelloReply'})
    same([a.WhichOneof('message_response') for a in answers],
         ['error_response'] * 4 + ['all_extension_numbers_response'])
    same({a.error_response.error_code for a in answers[:4]}, {grpc.StatusCode.NOT_FOUND.value[0]})
    same(answers[4].all_extension_numbers_response.base_type_name, 'helloworld.HelloReply')
    same(list(answers[4].all_extension_numbers_response.extension_number), [])


def nothing(client):
    """a request that asks for nothing ends the stream with INVALID_ARGUMENT"""
    try:
        client.ask({'host': 'me'})
        raise AssertionError('the call succeeded')
    except grpc.RpcError as error:
        same(error.code(), grpc.StatusCode.INVALID_ARGUMENT)


CASES = [services, symbols, names_of_files, errors, nothing]


def main():
    client = Client(sys.argv[1])
    failures = 0
    for number, case in enumerate(CASES, 1):
        try:
            case(client)
            print(f'ok {number} - {case.__doc__}', flush=True)
        except Exception:  # a case reports any failure and lets the next one run
            failures += 1
            print(f'not ok {number} - {case.__doc__}', flush=True)
            traceback.print_exc()
    print(f'1..{len(CASES)}')
    return failures != 0


if __name__ == '__main__':
    sys.exit(main())
