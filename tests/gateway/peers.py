"""Both ends of the gateway for its tests: a server that answers as the test says, a client that
speaks HTTP/1.1 byte by byte, and the program itself."""
import pathlib
import queue
import re
import signal
import socket
import subprocess
import threading
import time
import traceback

import h2.config
import h2.connection
import h2.events
import h2.exceptions

WAIT = 10  # seconds, for what must come


def message(payload, flags=0):
    return bytes([flags]) + len(payload).to_bytes(4, 'big') + payload


def messages_of(body):
    """[(flags, payload)] of a whole body."""
    found = []
    while body:
        length = int.from_bytes(body[1:5], 'big')
        assert len(body) >= 5 + length, f'a frame is cut: {body!r}'
        found.append((body[0], body[5:5 + length]))
        body = body[5 + length:]
    return found


class Stream:
    """One request at the upstream; its methods answer it."""

    def __init__(self, connection, number, headers):
        self.connection = connection
        self.number = number
        self.headers = [(k.decode(), v.decode('latin-1')) for k, v in headers]
        self.body = b''
        self.ended = False
        self.reset = None  # the code

    def header(self, name):
        return [v for k, v in self.headers if k == name]

    def wait(self, condition, what):
        limit = time.monotonic() + WAIT
        while not condition():
            assert time.monotonic() < limit, f'the upstream has not seen {what}'
            time.sleep(0.005)

    def send_headers(self, *fields, ended=False, status='200', content_type='application/grpc'):
        self.connection.do(lambda c: c.send_headers(
            self.number, [(':status', status), ('content-type', content_type), *fields],
            end_stream=ended))

    def send(self, data):
        self.connection.do(lambda c: c.send_data(self.number, data))

    def send_trailers(self, *fields):
        self.connection.do(lambda c: c.send_headers(self.number, fields, end_stream=True))

    def send_reset(self, code):
        self.connection.do(lambda c: c.reset_stream(self.number, code))

    def reply(self, payload, *trailers):
        self.send_headers()
        self.send(message(payload))
        self.send_trailers(('grpc-status', '0'), *trailers)


class Connection:
    def __init__(self, upstream, sock):
        self.upstream = upstream
        self.sock = sock
        self.lock = threading.Lock()
        self.streams = {}
        self.ended = False
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(
            client_side=False, header_encoding=None, validate_outbound_headers=False,
            normalize_outbound_headers=False))
        self.h2.initiate_connection()
        self.flush()
        threading.Thread(target=self.run, daemon=True).start()

    def flush(self):
        data = self.h2.data_to_send()
        if data:
            self.sock.sendall(data)

    def do(self, action):
        with self.lock:
            action(self.h2)
            self.flush()

    def run(self):
        try:
            while data := self.sock.recv(65536):
                with self.lock:
                    events = self.h2.receive_data(data)
                    self.flush()
                for event in events:
                    self.handle(event)
        except OSError:
            pass
        self.ended = True

    def handle(self, event):
        if isinstance(event, h2.events.RequestReceived):
            stream = Stream(self, event.stream_id, event.headers)
            self.streams[event.stream_id] = stream
            stream.ended = event.stream_ended is not None
            self.upstream.streams.put(stream)
            threading.Thread(target=self.upstream.serve, args=(stream,), daemon=True).start()
        elif isinstance(event, h2.events.DataReceived):
            self.streams[event.stream_id].body += event.data
            self.do(lambda c: c.acknowledge_received_data(event.flow_controlled_length,
                                                          event.stream_id))
        elif isinstance(event, h2.events.StreamEnded):
            self.streams[event.stream_id].ended = True
        elif isinstance(event, h2.events.StreamReset):
            self.streams[event.stream_id].reset = event.error_code


class Upstream:
    """A gRPC server whose answers are scripts: script(stream), one for each test."""

    def __init__(self, script=None):
        self.script = script or (lambda stream: stream.reply(b'hello'))
        self.streams = queue.Queue()  # those that have come
        self.problems = []
        self.listener = socket.create_server(('127.0.0.1', 0))
        self.address = '127.0.0.1:%d' % self.listener.getsockname()[1]
        self.connections = []
        self.closed = False
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        try:
            while True:
                sock, _ = self.listener.accept()
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self.connections.append(Connection(self, sock))
                if self.closed:  # close() may not have seen it
                    sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def serve(self, stream):
        try:
            self.script(stream)
        except (h2.exceptions.StreamClosedError, h2.exceptions.StreamIDTooLowError):
            pass  # the gateway has reset the stream meanwhile
        except Exception:
            if stream.reset is None:
                self.problems.append(traceback.format_exc())

    def close(self):
        self.closed = True
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for connection in self.connections:
            try:
                connection.sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # the gateway was first

    def next_stream(self):
        return self.streams.get(timeout=WAIT)


class Reply:
    def __init__(self, status, fields, body):
        self.status = status
        self.fields = fields  # [(name, value)], names in lower case
        self.body = body

    def field(self, name):
        return [v for k, v in self.fields if k == name]

    def trailers(self):
        """Of the last frame; None: there is none."""
        frames = messages_of(self.body)
        if not frames or not frames[-1][0] & 0x80:
            return None
        lines = frames[-1][1].decode().split('\r\n')
        assert lines.pop() == '', lines
        return [tuple(line.split(':', 1)) for line in lines]

    def grpc_status(self):
        """Where it stands, once: in the head or in the last frame."""
        in_head = self.field('grpc-status')
        in_body = [v for k, v in self.trailers() or [] if k == 'grpc-status']
        assert len(in_head) + len(in_body) == 1, (self.fields, self.body)
        return int((in_head + in_body)[0])


class Web:
    """A connection that speaks HTTP/1.1 as bytes."""

    def __init__(self, address, wrap=None):
        host, port = address.rsplit(':', 1)
        self.sock = socket.create_connection((host, int(port)), timeout=WAIT)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if wrap:
            self.sock = wrap(self.sock)
        self.buffer = b''

    def send_head(self, path='/a.B/C', *fields, method='POST',
                  content_type='application/grpc-web+proto'):
        lines = [f'{method} {path} HTTP/1.1', 'host: gateway.test']
        if content_type:
            lines.append(f'content-type: {content_type}')
        lines += [f'{k}: {v}' for k, v in fields]
        self.sock.sendall('\r\n'.join(lines + ['', '']).encode('latin-1'))

    def send_chunk(self, data):
        self.sock.sendall(b'%x\r\n%s\r\n' % (len(data), data))

    def end(self):
        self.sock.sendall(b'0\r\n\r\n')

    def read_until(self, mark):
        while mark not in self.buffer:
            data = self.sock.recv(65536)
            if not data:
                raise EOFError(self.buffer)
            self.buffer += data
        found, self.buffer = self.buffer.split(mark, 1)
        return found

    def read_exactly(self, length):
        while len(self.buffer) < length:
            data = self.sock.recv(65536)
            if not data:
                raise EOFError(self.buffer)
            self.buffer += data
        found, self.buffer = self.buffer[:length], self.buffer[length:]
        return found

    def read_head(self):
        lines = self.read_until(b'\r\n\r\n').decode('latin-1').split('\r\n')
        fields = [tuple(line.split(': ', 1)) for line in lines[1:]]
        return Reply(int(lines[0].split(' ')[1]), fields, b'')

    def read_chunk(self):
        """The next piece of a chunked body; empty at its end."""
        length = int(self.read_until(b'\r\n'), 16)
        data = self.read_exactly(length)
        assert self.read_exactly(2) == b'\r\n'
        return data

    def read_reply(self, head_only=False):
        reply = self.read_head()
        if head_only:
            return reply
        if reply.field('transfer-encoding') == ['chunked']:
            while piece := self.read_chunk():
                reply.body += piece
        else:
            reply.body = self.read_exactly(int((reply.field('content-length') or ['0'])[0]))
        return reply

    def call(self, body, *fields, path='/a.B/C', content_type='application/grpc-web+proto'):
        self.send_head(path, *fields, ('content-length', str(len(body))),
                       content_type=content_type)
        self.sock.sendall(body)
        return self.read_reply()

    def get(self, path, *fields, method='GET'):
        self.send_head(path, *fields, method=method, content_type=None)
        return self.read_reply(head_only=method == 'HEAD')

    def close(self):
        self.sock.close()


class Gateway:
    """The program, listening on a port of its own choice."""

    def __init__(self, command, *flags, environment=None):
        self.process = subprocess.Popen(
            [*command, '--listen=127.0.0.1:0', *flags], stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
        self.said = []
        self.lines = queue.Queue()
        threading.Thread(target=self.listen_to, daemon=True).start()
        self.places = {}
        self.read_places(1 + sum('admin' in f for f in flags)
                         + sum('static-listen' in f or 'listen-tls' in f for f in flags))
        self.address = self.places['listening']

    def listen_to(self):
        for line in self.process.stderr:
            self.said.append(line.rstrip('\n'))

    def read_places(self, count):
        for _ in range(count):
            line = self.process.stdout.readline()
            found = re.match(r'(listening with TLS|listening|files|admin) on (\S+)$', line)
            if not found:
                self.process.kill()
                self.process.wait()
                raise RuntimeError(f'the gateway says {line!r}, {self.said}')
            self.places[found.group(1)] = found.group(2)

    def connect(self):
        return Web(self.address)

    def wait_for(self, text):
        limit = time.monotonic() + WAIT
        while not any(text in line for line in self.said):
            assert time.monotonic() < limit, f'it has not said {text!r}, but {self.said}'
            time.sleep(0.01)

    def reload(self):
        before = len(self.said)
        self.process.send_signal(signal.SIGHUP)
        limit = time.monotonic() + WAIT
        while not any('configuration' in line for line in self.said[before:]):
            assert time.monotonic() < limit, 'it has not read its configuration again'
            time.sleep(0.01)
        return self.said[before:]

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(WAIT + 5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return None


def run(cases, *arguments):
    """Runs case(*arguments) one after the other. TAP; returns the exit code."""
    failures = 0
    for number, case in enumerate(cases, 1):
        name = (case.__doc__ or case.__name__).splitlines()[0].rstrip('.')
        try:
            case(*arguments)
            print(f'ok {number} - {name}', flush=True)
        except Exception:
            failures += 1
            print(f'not ok {number} - {name}')
            for line in traceback.format_exc().splitlines():
                print(f'# {line}', flush=True)
    print(f'1..{len(cases)}')
    return 1 if failures else 0


ROOT = pathlib.Path(__file__).resolve().parents[2]
