"""An HTTP/2 server on python3-h2 that misbehaves as a test tells it to.

A Server listens on the loopback; each connection runs on a thread of its own. A test gives it
`on_request(connection, stream)`, which is called when a request is complete, and looks afterwards
at what was counted.
"""
import socket
import struct
import threading

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.settings

HEAD = [(':status', '200'), ('content-type', 'application/grpc')]


def message(payload=b'', flag=0):
    return struct.pack('>BI', flag, len(payload)) + payload


class Connection:
    """One connection; its functions are called from its own thread."""

    def __init__(self, server, sock, number):
        self.server = server
        self.sock = sock
        self.number = number
        self.requests = []  # streams whose request is complete, in order
        self.resets = {}    # stream -> error code
        self.pings_acked = 0
        self.open = set()
        self.open_most = 0
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
        if server.settings:
            self.h2.local_settings = h2.settings.Settings(client=False,
                                                          initial_values=server.settings)
        self.h2.initiate_connection()
        self.flush()

    def flush(self):
        data = self.h2.data_to_send()
        if data:
            self.sock.sendall(data)

    def head(self, stream, fields=HEAD, end=False):
        self.h2.send_headers(stream, fields, end_stream=end)

    def data(self, stream, data, end=False, pad=None):
        self.h2.send_data(stream, data, end_stream=end, pad_length=pad)

    def trailers(self, stream, status='0', text=None):
        fields = [('grpc-status', status)] + ([('grpc-message', text)] if text else [])
        self.h2.send_headers(stream, fields, end_stream=True)

    def reply(self, stream, payload=b''):
        self.head(stream)
        self.data(stream, message(payload))
        self.trailers(stream)
        self.open.discard(stream)

    def reset(self, stream, code):
        self.h2.reset_stream(stream, code)
        self.open.discard(stream)

    def goaway(self, last, code=0):
        self.h2.close_connection(code, last_stream_id=last)
        # h2 takes a closed connection seriously; the server only says goodbye.
        self.h2.state_machine.state = h2.connection.ConnectionState.CLIENT_OPEN

    def close(self):
        self.sock.close()

    def run(self):
        try:
            self.server.on_connect(self)
            while True:
                data = self.sock.recv(65536)
                if not data:
                    break
                for event in self.h2.receive_data(data):
                    self.take(event)
                self.flush()
        except (OSError, h2.exceptions.ProtocolError) as error:
            self.server.errors.append(repr(error))

    def take(self, event):
        if isinstance(event, h2.events.RequestReceived):
            self.open.add(event.stream_id)
            self.open_most = max(self.open_most, len(self.open))
            self.server.heads.append(dict(event.headers))
        elif isinstance(event, h2.events.DataReceived):
            self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, h2.events.StreamEnded):
            self.requests.append(event.stream_id)
            self.server.request_count += 1
            self.server.on_request(self, event.stream_id)
        elif isinstance(event, h2.events.StreamReset):
            self.resets[event.stream_id] = event.error_code
            self.open.discard(event.stream_id)
        elif isinstance(event, h2.events.PingAckReceived):
            self.pings_acked += 1
        elif isinstance(event, h2.events.WindowUpdated):
            self.server.on_window(self)


class Server:
    def __init__(self, on_request, settings=None, on_window=None, on_connect=None):
        self.on_request = on_request
        self.on_window = on_window or (lambda connection: None)
        self.on_connect = on_connect or (lambda connection: None)
        self.settings = settings or {}
        self.connections = []
        self.request_count = 0
        self.heads = []
        self.errors = []
        self.listener = socket.socket()
        self.listener.bind(('127.0.0.1', 0))
        self.listener.listen(16)
        self.target = '127.0.0.1:%d' % self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            connection = Connection(self, sock, len(self.connections) + 1)
            self.connections.append(connection)
            threading.Thread(target=connection.run, daemon=True).start()

    def stop(self):
        self.listener.close()
        for connection in self.connections:
            try:
                connection.sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
