"""Honest clients: each write is its own, sent once, and what was answered is kept."""

import asyncio
import base64
import json
import socket
import threading
import time
from dataclasses import dataclass

from attacker import UPGRADE, answer, frame, small_frame

METHODS = ("broadcast_tx_sync", "broadcast_tx_async", "broadcast_tx_commit")
TRANSPORTS = ("http", "websocket")
INTERVAL_SECONDS = 0.4
# Beyond what a write may wait in sentinel and for its block: then it is said to have no answer.
PATIENCE_SECONDS = 60
FIRST_ADDRESS = 100
MOST_BYTES = 1 << 20


@dataclass
class Write:
    """One transaction and its end, as its client knows it."""

    tx: bytes
    method: str
    transport: str
    sent: float
    # accepted, committed, refused (by the node), not forwarded, unknown, broken, unanswered, or another error's text
    answer: str = ""
    answered: float = 0.0
    text: str = ""


class Clients:
    """Two of each method and transport, on a loop of their own until the `with` block is left."""

    def __init__(self, port, prefix, tls=None):
        self.port, self.prefix, self.tls = port, prefix, tls
        self.writes = []
        self.ending = threading.Event()
        self.thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        """Nothing new is sent; every write waits for its answer."""
        self.ending.set()
        self.thread.join(PATIENCE_SECONDS * 2)

    async def _run(self):
        kinds = [(method, transport) for method in METHODS for transport in TRANSPORTS] * 2
        await asyncio.gather(*(self._client(number, *kind) for number, kind in enumerate(kinds)))

    async def _client(self, number, method, transport):
        connection, sent = None, 0
        while not self.ending.is_set():
            began = time.monotonic()
            try:
                connection = connection or await Connection.open((self.port, self.tls), number, transport)
            except (OSError, asyncio.IncompleteReadError, asyncio.TimeoutError):
                # Nothing was sent: that write does not exist.
                await asyncio.sleep(INTERVAL_SECONDS)
                continue
            tx = self.prefix + f"{number}.{sent}=x".encode()
            sent += 1
            write = Write(tx, method, transport, time.time())
            self.writes.append(write)
            try:
                status, text = await asyncio.wait_for(connection.ask(request(tx, method, sent)), PATIENCE_SECONDS)
                write.answer, write.text = judged(method, status, text), text[:300]
            except asyncio.TimeoutError:
                write.answer = "unanswered"
            except (OSError, asyncio.IncompleteReadError, ValueError) as error:
                write.answer, write.text = "broken", repr(error)
            write.answered = time.time()
            if write.answer in ("unanswered", "broken") or (transport == "http" and connection.is_closed):
                connection.writer.close()
                connection = None
            await asyncio.sleep(max(0.0, INTERVAL_SECONDS - (time.monotonic() - began)))


def request(tx, method, number):
    params = {"tx": base64.b64encode(tx).decode()}
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params})


class Connection:
    """One request at a time, over HTTP or a WebSocket."""

    def __init__(self, reader, writer, transport):
        self.reader, self.writer, self.transport, self.is_closed = reader, writer, transport, False

    @classmethod
    async def open(cls, to, number, transport):
        port, tls = to
        plain = socket.socket()
        plain.setblocking(False)
        plain.bind((f"127.0.0.{FIRST_ADDRESS + number}", 0))
        loop = asyncio.get_running_loop()
        await asyncio.wait_for(loop.sock_connect(plain, ("127.0.0.1", port)), 5)
        reader, writer = await asyncio.open_connection(sock=plain, ssl=tls, server_hostname="x" if tls else None)
        if transport == "websocket":
            writer.write(UPGRADE.encode())
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE_SECONDS)
            if b" 101 " not in head.partition(b"\r\n")[0]:
                writer.close()
                raise ConnectionRefusedError
        return cls(reader, writer, transport)

    async def ask(self, text):
        if self.transport == "http":
            self.writer.write(f"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {len(text)}\r\n\r\n{text}".encode())
            return await self._http()
        self.writer.write(frame(text.encode()))
        return 200, await self._message()

    async def _http(self):
        head, body = await answer(self.reader)
        self.is_closed = b"connection: close" in head
        return int(head.split()[1]), body.decode(errors="replace")

    async def _message(self):
        while True:
            first, size = await self.reader.readexactly(2)
            if size >= 126:
                size = int.from_bytes(await self.reader.readexactly(2 if size == 126 else 8), "big")
            payload = await self.reader.readexactly(min(MOST_BYTES, size))
            if first & 0x0F == 9:
                self.writer.write(small_frame(payload, first=0x8A))
            elif first & 0x0F == 8:
                raise ConnectionResetError(payload[2:].decode(errors="replace"))
            else:
                return payload.decode(errors="replace")


def judged(method, status, text):
    """What the client has to think of its write."""
    answer = json.loads(text)
    result, error = answer.get("result"), answer.get("error")
    if result is not None:
        if method == "broadcast_tx_commit":
            code = result["check_tx"].get("code", 0)
            return "refused" if code else "committed" if int(result.get("height", 0)) else "accepted"
        return "refused" if result.get("code") else "accepted"
    data = f"{error.get('message', '')}: {error.get('data', '')}"
    if "not forwarded" in data:
        return "not forwarded"
    if "outcome unknown" in data:
        return "unknown"
    if "imed out waiting for tx" in data:
        return "accepted"
    return f"{status} {data}"[:80]
