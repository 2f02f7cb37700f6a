"""An ABCI 0.38 application that does nothing but take its time: `slow_app.py PORT CHECK_SECONDS [COMMIT_SECONDS]`.

CometBFT keeps a connection for each purpose, and its checks come one after the other on one of them, as to
any application in another process; while it commits the node checks nothing. Messages are those of
cometbft/proto/tendermint/abci/types.proto at 0.38.
"""

import socketserver
import sys
import time

ECHO, CHECK_TX, COMMIT, PREPARE_PROPOSAL, PROCESS_PROPOSAL, FINALIZE_BLOCK = 1, 8, 11, 16, 17, 20
ACCEPT = b"\x08\x01"


class Connection(socketserver.StreamRequestHandler):
    def handle(self):
        while (length := self.read_length()) is not None:
            (number, payload), = fields(self.rfile.read(length))
            if number == CHECK_TX:
                time.sleep(self.server.check_seconds)
            elif number == COMMIT:
                time.sleep(self.server.commit_seconds)
            # The number of an answer is that of its request and one.
            self.send(field(number + 1, answer(number, payload)))

    def read_length(self):
        """None at the end of the connection."""
        value, shift = 0, 0
        while byte := self.rfile.read(1):
            value |= (byte[0] & 0x7F) << shift
            shift += 7
            if byte[0] < 0x80:
                return value
        return None

    def send(self, message):
        self.wfile.write(varint(len(message)) + message)


def answer(number, payload):
    if number == ECHO:
        return payload
    if number == PREPARE_PROPOSAL:
        return b"".join(field(1, tx) for at, tx in fields(payload) if at == 2)
    if number == PROCESS_PROPOSAL:
        return ACCEPT
    if number == FINALIZE_BLOCK:
        return b"".join(field(2, b"") for at, _ in fields(payload) if at == 1)
    return b""


def fields(message):
    """The length-delimited fields of a message, by number; others are passed over."""
    at = 0
    while at < len(message):
        key, at = read_varint(message, at)
        value, at = read_varint(message, at)
        if key & 7 == 2:
            yield key >> 3, message[at : at + value]
            at += value


def read_varint(message, at):
    value, shift = 0, 0
    while True:
        value |= (message[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if message[at - 1] < 0x80:
            return value, at


def varint(value):
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out) + bytes([value])


def field(number, value):
    return varint(number << 3 | 2) + varint(len(value)) + value


class Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True


if __name__ == "__main__":
    with Server(("127.0.0.1", int(sys.argv[1])), Connection) as server:
        server.check_seconds = float(sys.argv[2])
        server.commit_seconds = float(sys.argv[3]) if len(sys.argv) > 3 else 0.0
        server.serve_forever()
