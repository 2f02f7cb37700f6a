"""What hostile clients are made of: connections from chosen addresses, requests, frames, and a count of both."""

import asyncio
import base64
import itertools
import json
import os
import socket
import struct

ADDRESS = "127.0.0.66"
UPGRADE = (
    "GET /websocket HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
# What one request may have, less a little.
LARGE = 990_000
# Bytes that one attacker holds in the kernel, so that the proxy's buffers fill and not those.
SOCKET_BYTES = 4096
NUMBERS = itertools.count(int.from_bytes(os.urandom(4), "big"))


# What was done: connections, pieces sent, and what was answered with 200 to those who wait for their answers.
DONE = {"connections": 0, "sent": 0, "served": 0}


def addresses(count):
    return [f"127.0.0.{66 + number}" for number in range(count)]


def send(writer, data):
    DONE["sent"] += 1
    writer.write(data)


async def connect(port, address=ADDRESS, buffer=SOCKET_BYTES):
    DONE["connections"] += 1
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    connection.setblocking(False)
    connection.bind((address, 0))
    await asyncio.get_running_loop().sock_connect(connection, ("127.0.0.1", port))
    return await asyncio.open_connection(sock=connection, limit=buffer)


async def upgrade(port, address=ADDRESS, buffer=SOCKET_BYTES):
    reader, writer = await connect(port, address, buffer)
    send(writer, UPGRADE.encode())
    await reader.readuntil(b"\r\n\r\n")
    return reader, writer


def frame(payload, first=0x81, announced=None):
    """A masked frame; one that announces more than it has is never complete."""
    size = len(payload) if announced is None else announced
    return struct.pack(">BBQI", first, 0xFF, size, 0) + payload


def small_frame(payload, first=0x81):
    """A masked frame as browsers send it: at most 125 bytes, and a mask that changes nothing."""
    return struct.pack(">BBI", first, 0x80 | len(payload), 0) + payload


def post(body, extra=""):
    return f"POST / HTTP/1.1\r\nHost: x\r\n{extra}Content-Length: {len(body)}\r\n\r\n{body}".encode()


def kvstore_tx(size):
    tx = f"h{next(NUMBERS)}=".encode()
    return tx + b"x" * (size - len(tx))


def request(tx, method="broadcast_tx_async", id_=1):
    return json.dumps({"jsonrpc": "2.0", "id": id_, "method": method, "params": {"tx": base64.b64encode(tx).decode()}})


def write_of(size, method="broadcast_tx_async"):
    return request(kvstore_tx(size), method)


def cosmos_tx(gas, key=b"\x02" + b"\x11" * 32, sequence=0):
    """A `TxRaw` that nobody signed, with this gas limit, of whoever has this public key."""
    any_key = field(1, b"/cosmos.crypto.secp256k1.PubKey") + field(2, field(1, key))
    message = field(1, b"/cosmos.bank.v1beta1.MsgSend") + field(2, b"")
    body = field(1, message) + field(2, f"{next(NUMBERS)}".encode())
    signer = field(1, any_key) + varint(3 << 3) + varint(sequence)
    fee = varint(2 << 3) + varint(gas)
    return field(1, body) + field(2, field(1, signer) + field(2, fee)) + field(3, b"\x00" * 64)


def field(number, value):
    return varint(number << 3 | 2) + varint(len(value)) + value


def varint(number):
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


async def drop_answers(reader):
    """Reads on and forgets, so that the kernel's buffers never hold the other side back."""
    while await reader.read(1 << 16):
        pass
    raise ConnectionResetError


async def never(writer):
    """Holds the connection as long as the other side does."""
    while True:
        await asyncio.sleep(1)
        writer.write(b"")
        await writer.drain()


async def beside_answers(reader, writing):
    """Writes, and reads what is answered, until either ends."""
    tasks = [asyncio.create_task(drop_answers(reader)), asyncio.create_task(writing)]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()


async def answer(reader):
    """Head, in small letters, and body of one HTTP answer."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    DONE["served"] += head.startswith(b"http/1.1 200")
    if b"transfer-encoding: chunked" not in head:
        _, _, rest = head.partition(b"content-length:")
        return head, await reader.readexactly(int(rest.partition(b"\r\n")[0] or 0))
    body = b""
    while True:
        size = int(await reader.readuntil(b"\r\n"), 16)
        body += (await reader.readexactly(size + 2))[:size]
        if not size:
            return head, body
