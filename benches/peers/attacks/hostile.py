"""Hostile clients, one kind at a time: hostile.py KIND PORT SECONDS [CONNECTIONS]. See README.md."""

import asyncio
import base64
import itertools
import json
import os
import socket
import struct
import sys

ADDRESS = "127.0.0.66"
UPGRADE = (
    "GET /websocket HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
# What one request may have, less a little.
LARGE = 990_000
# Bytes that one attacker holds in the kernel, so that the proxy's buffers fill and not those.
SOCKET_BYTES = 4096
# An attacker that is thrown out comes back after this.
AGAIN_SECONDS = 0.1
NUMBERS = itertools.count(int.from_bytes(os.urandom(4), "big"))


# What was done: connections and pieces sent.
DONE = {"connections": 0, "sent": 0}


def addresses(count):
    return [f"127.0.0.{66 + number}" for number in range(count)]


def send(writer, data):
    DONE["sent"] += 1
    writer.write(data)


async def connect(port, address=ADDRESS):
    DONE["connections"] += 1
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SOCKET_BYTES)
    connection.setblocking(False)
    connection.bind((address, 0))
    await asyncio.get_running_loop().sock_connect(connection, ("127.0.0.1", port))
    return await asyncio.open_connection(sock=connection, limit=SOCKET_BYTES)


async def upgrade(port, address=ADDRESS):
    reader, writer = await connect(port, address)
    send(writer, UPGRADE.encode())
    await reader.readuntil(b"\r\n\r\n")
    return reader, writer


def frame(payload, first=0x81, announced=None):
    """A masked frame; one that announces more than it has is never complete."""
    size = len(payload) if announced is None else announced
    return struct.pack(">BBQI", first, 0xFF, size, 0) + payload


def post(body, extra=""):
    return f"POST / HTTP/1.1\r\nHost: x\r\n{extra}Content-Length: {len(body)}\r\n\r\n{body}".encode()


def write_of(size, method="broadcast_tx_async"):
    tx = f"h{next(NUMBERS)}=".encode()
    tx += b"x" * (size - len(tx))
    params = {"tx": base64.b64encode(tx).decode()}
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})


async def never(writer):
    """Holds the connection as long as the other side does."""
    while True:
        await asyncio.sleep(1)
        writer.write(b"")
        await writer.drain()


async def announce(port, _):
    _, writer = await connect(port)
    send(writer, f"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {LARGE}\r\n\r\n{{".encode())
    await never(writer)


async def frames(port, _):
    _, writer = await upgrade(port)
    send(writer, frame(b"{", announced=LARGE))
    await never(writer)


async def chunks(port, _):
    _, writer = await connect(port)
    send(writer, b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
    send(writer, f"{LARGE:x}\r\n".encode() + b" " * (LARGE - 1))
    await never(writer)


async def fragments(port, _):
    _, writer = await upgrade(port)
    send(writer, frame(b" " * LARGE, first=0x01))
    await never(writer)


async def elephant(port, _):
    _, writer = await connect(port)
    while True:
        send(writer, post(write_of(60_000)))
        await writer.drain()
        await asyncio.sleep(0.01)


async def subscribers(port, _):
    _, writer = await upgrade(port)
    params = {"query": "tm.event='NewBlock'"}
    send(writer, frame(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "subscribe", "params": params}).encode()))
    await never(writer)


async def questions(port, number):
    reader, writer = await upgrade(port, addresses(4)[number % 4])
    while True:
        send(writer, frame(b'{"jsonrpc":"2.0","id":1,"method":"status"}'))
        await reader.read(SOCKET_BYTES)
        await asyncio.sleep(1)


async def readers(port, number):
    _, writer = await connect(port, addresses(8)[number % 8])
    for _ in range(4):
        send(writer, post('{"jsonrpc":"2.0","id":1,"method":"block","params":{}}'))
    await never(writer)


async def headers(port, _):
    _, writer = await connect(port)
    send(writer, b"POST / HTTP/1.1\r\n")
    while True:
        send(writer, b"X-A: b\r\n")
        await writer.drain()
        await asyncio.sleep(1)


async def pipeline(port, _):
    _, writer = await connect(port)
    while True:
        send(writer, b"GET /status HTTP/1.1\r\nHost: x\r\n\r\n" * 100)
        await writer.drain()
        await asyncio.sleep(0.05)


async def resets(port, _):
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.setblocking(False)
    connection.bind((ADDRESS, 0))
    await asyncio.get_running_loop().sock_connect(connection, ("127.0.0.1", port))
    connection.close()
    DONE["connections"] += 1


async def pages(port, number):
    _, writer = await connect(port)
    while True:
        origin = f"Origin: https://{number}.{next(NUMBERS)}.example\r\n"
        send(writer, post(write_of(100, "broadcast_tx_sync"), origin))
        await writer.drain()
        await asyncio.sleep(0.05)


# How many of each at once.
KINDS = {
    announce: 300, frames: 300, chunks: 150, fragments: 150, elephant: 8, subscribers: 128, questions: 512,
    readers: 256, headers: 900, pipeline: 20, resets: 50, pages: 20,
}  # fmt: skip


async def again(kind, port, number):
    while True:
        try:
            await kind(port, number)
        except (OSError, asyncio.IncompleteReadError, ValueError):
            pass
        await asyncio.sleep(AGAIN_SECONDS)


async def main():
    name, port, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    kind, count = next((kind, count) for kind, count in KINDS.items() if kind.__name__ == name)
    count = int(sys.argv[4]) if len(sys.argv) > 4 else count
    attackers = [asyncio.create_task(again(kind, port, number)) for number in range(count)]
    await asyncio.wait(attackers, timeout=seconds)
    print(json.dumps(DONE), flush=True)
    os._exit(0)


if __name__ == "__main__":
    asyncio.run(main())
