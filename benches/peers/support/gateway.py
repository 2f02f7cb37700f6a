"""A gateway before a node that delays, or lies: gateway.py PORT NODE_PORT CONTROL_PORT.

A datagram to the control port, such as {"delay_ms": 50, "lie": "garbage"}, says what it does from then on, and is
answered when it does so.

| lie | what it does |
|---|---|
| desync | answers /genesis with a length and with chunks, of which the length is the shorter one |
| endless | answers whoever asks for a block with a text that does not end |
| garbage | answers every HTTP request with half of an answer that has another id |
| nameless | takes the ids from what the node says over WebSockets |
"""

import asyncio
import json
import socket
import sys

PIECE = 1 << 16
# Pieces that are on their way in one direction.
MOST_PIECES = 64
# An endless answer ends here all the same.
ENDLESS_BYTES = 1 << 30
POISONED = b'{"a":1}HTTP/1.1 200 OK\r\nContent-Length: 23\r\n\r\n{"jsonrpc":"POISONED"}\r\n'
DESYNC = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 7\r\nTransfer-Encoding: chunked\r\n\r\n"
    + b"%x\r\n%b\r\n0\r\n\r\n" % (len(POISONED), POISONED)
)
HALF = b'{"jsonrpc":"2.0","id":-1,"result":{"a":['
GARBAGE = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(HALF), HALF)
STATE = {"delay_ms": 0, "lie": None}


class Control(asyncio.DatagramProtocol):
    def connection_made(self, transport):
        self.transport = transport

    def datagram_received(self, data, sender):
        STATE.update(json.loads(data))
        self.transport.sendto(data, sender)


async def serve(reader, writer, node_port):
    try:
        node_reader, node_writer = await asyncio.open_connection("127.0.0.1", node_port, limit=PIECE)
    except OSError:
        writer.close()
        return
    tasks = [
        asyncio.create_task(pass_answers(node_reader, writer)),
        asyncio.create_task(pass_requests(reader, writer, node_writer)),
    ]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
    for each in (writer, node_writer):
        each.close()


async def pass_requests(reader, client, node):
    async with asyncio.TaskGroup() as group:
        pieces = later(group, node)
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            lower = head.lower()
            _, _, rest = lower.partition(b"content-length:")
            body = await reader.readexactly(int(rest.partition(b"\r\n")[0] or 0))
            if b"\r\nupgrade:" in lower:
                await put(pieces, head)
                while piece := await reader.read(PIECE):
                    await put(pieces, piece)
                raise ConnectionResetError
            if not await lied(head, body, client):
                await put(pieces, head + body)


async def lied(head, body, client):
    """Whether it was answered here."""
    match STATE["lie"]:
        case "desync" if head.startswith(b"GET /genesis"):
            client.write(DESYNC)
        case "garbage":
            client.write(GARBAGE)
        case "endless" if b'"block"' in body or head.startswith(b"GET /block?"):
            client.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
            start = b'{"jsonrpc":"2.0","id":1,"result":"'
            client.write(b"%x\r\n%b\r\n" % (len(start), start))
            piece = b"%x\r\n%b\r\n" % (PIECE, b"A" * PIECE)
            for _ in range(ENDLESS_BYTES // PIECE):
                client.write(piece)
                await client.drain()
        case _:
            return False
    await client.drain()
    return True


async def pass_answers(reader, writer):
    async with asyncio.TaskGroup() as group:
        pieces = later(group, writer)
        while piece := await reader.read(PIECE):
            if STATE["lie"] == "nameless":
                piece = piece.replace(b'"id"', b'"ix"')
            await put(pieces, piece)
        raise ConnectionResetError


def later(group, writer):
    """A queue whose pieces are written when their delay is over, in order."""
    pieces = asyncio.Queue(MOST_PIECES)

    async def write():
        loop = asyncio.get_running_loop()
        while True:
            due, piece = await pieces.get()
            if due > loop.time():
                await asyncio.sleep(due - loop.time())
            writer.write(piece)
            await writer.drain()

    group.create_task(write())
    return pieces


async def put(pieces, piece):
    due = asyncio.get_running_loop().time() + STATE["delay_ms"] / 1000
    await pieces.put((due, piece))


def tell(control_port, **orders):
    """Called by who started it: what the gateway does from now on."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.settimeout(5)
        asking.sendto(json.dumps(orders).encode(), ("127.0.0.1", control_port))
        asking.recv(PIECE)


async def main():
    port, node_port, control_port = map(int, sys.argv[1:4])
    loop = asyncio.get_running_loop()
    # What a connection ends with is no news.
    loop.set_exception_handler(lambda *_: None)
    await loop.create_datagram_endpoint(Control, ("127.0.0.1", control_port))

    async def accept(reader, writer):
        await serve(reader, writer, node_port)

    server = await asyncio.start_server(accept, "127.0.0.1", port, limit=PIECE, backlog=1000)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
