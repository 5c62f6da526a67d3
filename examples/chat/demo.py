"""Three clients in the chat room: what one says, all hear. Part of `./dev demo`."""
import queue
import sys


class Member:
    """A client that has joined."""

    def __init__(self, grpc, line, address, name):
        self.name = name
        self.line = line
        self.said = queue.Queue()
        self.channel = grpc.insecure_channel(address, options=[('grpc.enable_http_proxy', 0)])
        join = self.channel.stream_stream('/chat.Room/Join', line.SerializeToString,
                                          line.FromString)
        self.heard = join(iter(self.said.get, None), timeout=30)
        self.heard.initial_metadata()  # comes when the room has taken it in

    def say(self, text):
        self.said.put(self.line(name=self.name, text=text))

    def hear(self):
        line = next(self.heard)
        return f'{line.name}: {line.text}'

    def leave(self):
        """Ends its side; the rest of what it hears."""
        self.said.put(None)
        rest = [f'{line.name}: {line.text}' for line in self.heard]
        self.channel.close()
        return rest


def chat(build, server_class, check):
    """`check(what, got, wanted)` hears of each result."""
    sys.path.insert(0, str(build / 'examples/chat'))
    import grpc
    from chat_pb2 import Line

    server = server_class([str(build / 'examples/chat/chat-server'), '--listen', '127.0.0.1:0'])
    print(f'\nThe chat room on {server.address}, three clients on connections of their own')
    anna, bo, cem = (Member(grpc, Line, server.address, name) for name in ('Anna', 'Bo', 'Cem'))
    anna.say('Hello, all')
    check('Anna says "Hello, all"', ' | '.join(m.hear() for m in (anna, bo, cem)),
          ' | '.join(['Anna: Hello, all'] * 3))
    bo.say('Hello, Anna')
    check('Bo says "Hello, Anna"', ' | '.join(m.hear() for m in (anna, bo, cem)),
          ' | '.join(['Bo: Hello, Anna'] * 3))
    check('Bo leaves, and hears no more', bo.leave(), [])
    cem.say('Bye')
    check('Cem says "Bye"', ' | '.join(m.hear() for m in (anna, cem)), 'Cem: Bye | Cem: Bye')
    check('the others leave', anna.leave() + cem.leave(), [])
    check('the chat server, asked to end, ends with', server.stop(), 0)
