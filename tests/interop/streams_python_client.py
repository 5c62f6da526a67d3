#!/usr/bin/python3
"""python3-grpcio drives all streaming styles of the official test service.

streams_python_client.py ADDRESS, where interop-server listens. TAP on stdout.
"""
import pathlib
import queue
import sys
import threading
import time
import traceback

import grpc

from servers import test_data
import messages_pb2 as pb

SERVICE = '/grpc.testing.TestService/'
SENT = [27182, 8, 1828, 45904]
WANTED = [31415, 9, 2653, 58979]
MEGABYTE = 1_000_000


def open_channel(address):
    options = [('grpc.enable_http_proxy', 0)]
    if not test_data():
        return grpc.insecure_channel(address, options=options)
    options.append(('grpc.ssl_target_name_override', 'foo.test.google.fr'))
    root = pathlib.Path(test_data(), 'ca.pem').read_bytes()
    return grpc.secure_channel(address, grpc.ssl_channel_credentials(root), options=options)


class Client:
    def __init__(self, address):
        self.channel = open_channel(address)
        request, response = pb.StreamingOutputCallRequest, pb.StreamingOutputCallResponse
        self.down = self.channel.unary_stream(
            SERVICE + 'StreamingOutputCall', request.SerializeToString, response.FromString)
        self.up = self.channel.stream_unary(
            SERVICE + 'StreamingInputCall', pb.StreamingInputCallRequest.SerializeToString,
            pb.StreamingInputCallResponse.FromString)
        self.duplex = self.channel.stream_stream(
            SERVICE + 'FullDuplexCall', request.SerializeToString, response.FromString)
        self.half_duplex = self.channel.stream_stream(
            SERVICE + 'HalfDuplexCall', request.SerializeToString, response.FromString)


class Requests:
    """A stream of requests that the test feeds; None ends it."""

    def __init__(self):
        self.queue = queue.Queue()

    def __iter__(self):
        return iter(self.queue.get, None)

    def send(self, *sizes, payload=0, **more):
        self.queue.put(output(*sizes, payload=payload, **more))

    def end(self):
        self.queue.put(None)


def output(*sizes, payload=0, **more):
    return pb.StreamingOutputCallRequest(
        response_parameters=[{'size': size} for size in sizes],
        payload={'body': bytes(payload)}, **more)


def same(got, wanted):
    assert got == wanted, f'got {got!r}, wanted {wanted!r}'


def sizes_of(replies):
    return [len(reply.payload.body) for reply in replies]


def code_of(call):
    """How a call ended, of which the replies are not looked at."""
    try:
        for _ in call:
            pass
    except grpc.RpcError:
        pass
    return call.code()


def client_streaming(client):
    """client streaming: the sum of what was sent"""
    requests = [pb.StreamingInputCallRequest(payload={'body': bytes(n)}) for n in SENT]
    same(client.up(iter(requests), timeout=20).aggregated_payload_size, sum(SENT))


def server_streaming(client):
    """server streaming: replies in order"""
    same(sizes_of(client.down(output(*WANTED), timeout=20)), WANTED)


def ping_pong(client):
    """each message is answered before the next one is sent"""
    requests = Requests()
    replies = client.duplex(iter(requests), timeout=20)
    for sent, wanted in zip(SENT, WANTED):
        requests.send(wanted, payload=sent)
        same(len(next(replies).payload.body), wanted)
    requests.end()
    same(list(replies), [])
    same(replies.code(), grpc.StatusCode.OK)


def half_close_before_replies(client):
    """replies that come when the client has ended its side"""
    requests = [output(n) for n in WANTED]
    same(sizes_of(client.half_duplex(iter(requests), timeout=20)), WANTED)
    same(sizes_of(client.duplex(iter(requests), timeout=20)), WANTED)


def half_close_after_replies(client):
    """the client ends its side long after the last reply"""
    requests = Requests()
    replies = client.duplex(iter(requests), timeout=20)
    requests.send(*WANTED)
    same(sizes_of([next(replies) for _ in WANTED]), WANTED)
    time.sleep(0.2)
    requests.end()
    same(list(replies), [])
    same(replies.code(), grpc.StatusCode.OK)


def empty_streams(client):
    """streams without a message, each way and both ways"""
    same(client.up(iter([]), timeout=20).aggregated_payload_size, 0)
    same(list(client.down(output(), timeout=20)), [])
    for method in (client.duplex, client.half_duplex):
        same(list(method(iter([]), timeout=20)), [])
    same(sizes_of(client.duplex(iter([output(), output(0), output()]), timeout=20)), [0])


def many_up(client):
    """100,000 messages up"""
    request = pb.StreamingInputCallRequest(payload={'body': b'12345678'})
    same(client.up((request for _ in range(100_000)), timeout=120).aggregated_payload_size, 800_000)


def many_down(client):
    """100,000 messages down"""
    wanted = [n % 100 for n in range(100_000)]
    same(sizes_of(client.down(output(*wanted), timeout=120)), wanted)


def many_both_ways(client):
    """100,000 messages each way at once"""
    requests = (output(n % 50, payload=n % 40) for n in range(100_000))
    count = 0
    for reply in client.duplex(requests, timeout=170):
        assert len(reply.payload.body) == count % 50
        count += 1
    same(count, 100_000)


def megabytes(client):
    """messages of 1 MB each way"""
    requests = (output(MEGABYTE, payload=MEGABYTE) for _ in range(20))
    same(sizes_of(client.duplex(requests, timeout=60)), [MEGABYTE] * 20)


def slow_reader(client):
    """a client that does not read for a while gets all of it afterwards"""
    call = client.down(output(*[MEGABYTE] * 30), timeout=60)
    time.sleep(1)
    same(sizes_of(call), [MEGABYTE] * 30)


def cancel_after_first(client):
    """a call that is cancelled after its first reply, and the connection goes on"""
    for _ in range(20):
        requests = Requests()
        replies = client.duplex(iter(requests), timeout=20)
        requests.send(31415)
        same(len(next(replies).payload.body), 31415)
        replies.cancel()
        same(code_of(replies), grpc.StatusCode.CANCELLED)
        requests.end()
    server_streaming(client)


def short_deadline(client):
    """a deadline of 1 ms on a server that sleeps"""
    for _ in range(20):
        requests = Requests()
        replies = client.duplex(iter(requests), timeout=0.001)
        requests.send(payload=27182)
        same(code_of(replies), grpc.StatusCode.DEADLINE_EXCEEDED)
        requests.end()
    slow = pb.StreamingOutputCallRequest(
        response_parameters=[{'size': 1}, {'size': 1, 'interval_us': 30_000_000}])
    start = time.monotonic()
    same(code_of(client.down(slow, timeout=0.3)), grpc.StatusCode.DEADLINE_EXCEEDED)
    assert time.monotonic() - start < 5


def status_in_the_middle(client):
    """a status that ends the stream behind replies, while the client still sends"""
    requests = Requests()
    replies = client.duplex(iter(requests), timeout=20)
    requests.send(5, 6)
    same(sizes_of([next(replies), next(replies)]), [5, 6])
    requests.send(7, response_status={'code': 9, 'message': 'genug'})
    requests.send(8)
    same(code_of(replies), grpc.StatusCode.FAILED_PRECONDITION)
    same(replies.details(), 'genug')
    requests.end()


def interval(client):
    """replies come as far apart as they were asked for"""
    spaced = pb.StreamingOutputCallRequest(
        response_parameters=[{'size': 1, 'interval_us': 100_000} for _ in range(5)])
    start = time.monotonic()
    same(sizes_of(client.down(spaced, timeout=20)), [1] * 5)
    assert time.monotonic() - start >= 0.5


def metadata(client):
    """metadata is echoed by every style, in headers and trailers"""
    sent = [('x-grpc-test-echo-initial', 'value'), ('x-grpc-test-echo-trailing-bin', b'\xab' * 3)]
    for call in (client.down(output(1), metadata=sent, timeout=20),
                 client.duplex(iter([output(1)]), metadata=sent, timeout=20)):
        same(dict(call.initial_metadata()).get(sent[0][0]), 'value')
        same(code_of(call), grpc.StatusCode.OK)
        same(dict(call.trailing_metadata()).get(sent[1][0]), b'\xab' * 3)


def many_streams(client):
    """100 bidirectional streams at once, each with its own messages"""
    results = [None] * 100

    def run(n):
        requests = [output(n, n + 1, payload=n) for _ in range(20)]
        results[n] = sizes_of(client.duplex(iter(requests), timeout=60))

    threads = [threading.Thread(target=run, args=(n,)) for n in range(100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for n, result in enumerate(results):
        same(result, [n, n + 1] * 20)


CASES = [client_streaming, server_streaming, ping_pong, half_close_before_replies,
         half_close_after_replies, empty_streams, many_up, many_down, many_both_ways, megabytes,
         slow_reader, cancel_after_first, short_deadline, status_in_the_middle, interval, metadata,
         many_streams]


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
