"""One honest request after another beside an attack, and how many were answered rightly. See README.md."""

import base64
import http.client
import itertools
import json
import os
import socket
import struct
import threading
import time

from attacker import UPGRADE, cosmos_tx, frame, kvstore_tx, request
from deciding import VICTIM_KEY

ADDRESS = "127.0.0.40"
# The trusted proxy of the set-up `balanced`, and another of its clients.
PROXY_ADDRESS = "127.0.0.66"
BEHIND = {"X-Forwarded-For": "203.0.113.20"}
# How long an honest client waits for an answer.
PATIENCE_SECONDS = 5
NUMBERS = itertools.count(int.from_bytes(os.urandom(3), "big"))


class Wrong(Exception):
    """Answered, and not as it should be."""


def ask(port, method, path, body=None, headers=None, address=ADDRESS, connection=None):
    kept = connection or http.client.HTTPConnection(
        "127.0.0.1", port, timeout=PATIENCE_SECONDS, source_address=(address, 0)
    )
    try:
        kept.request(method, path, body, headers or {})
        answer = kept.getresponse()
        text = answer.read()
        if answer.status != 200:
            raise Wrong(f"{answer.status} {text[:200]}")
        return text
    finally:
        if not connection:
            kept.close()


def checked(text):
    """The answer to a write that the node has taken."""
    result = json.loads(text)["result"]
    if result.get("code"):
        raise Wrong(text[:200])


def read(port):
    ask(port, "GET", "/status")


def behind(port):
    """A small and a large write of another client behind the trusted proxy."""
    for size in (200, 200_000):
        body = request(kvstore_tx(size), "broadcast_tx_sync")
        checked(ask(port, "POST", "/", body, BEHIND, PROXY_ADDRESS))


def commit(port):
    body = request(kvstore_tx(100), "broadcast_tx_commit")
    if "height" not in json.loads(ask(port, "POST", "/", body))["result"]:
        raise Wrong("no height")


def victim(port):
    """The owner of the key whose name others write; what the node says of it is the same in any case."""
    ask(port, "POST", "/", request(cosmos_tx(200_000, VICTIM_KEY, next(NUMBERS)), "broadcast_tx_sync"))


def twice(port):
    """Two questions over one connection: the second answer is the second question's."""
    with socket.create_connection(("127.0.0.1", port), PATIENCE_SECONDS, (ADDRESS, 0)) as connection:
        # Buffered once for both: what is left of the first answer is not forgotten.
        reader = connection.makefile("rb")
        connection.sendall(b"GET /genesis HTTP/1.1\r\nHost: x\r\n\r\n")
        if whole(reader) is None:
            raise Wrong("no answer")
        connection.sendall(b"GET /status HTTP/1.1\r\nHost: x\r\n\r\n")
        answer = whole(reader)
        if answer is None:
            # Closing after an answer that cannot be told from the next is right; the client asks again.
            read(port)
        elif b"node_info" not in answer:
            raise Wrong(f"the answer to another question: {answer[:100]}")


def whole(reader):
    """The body of the next answer; none when there is no other."""
    size, is_chunked, line = 0, False, reader.readline()
    if not line:
        return None
    while line not in (b"\r\n", b""):
        name, _, value = line.lower().partition(b":")
        size = int(value) if name == b"content-length" else size
        is_chunked = is_chunked or (name == b"transfer-encoding" and b"chunked" in value)
        line = reader.readline()
    if not is_chunked:
        return reader.read(size)
    body = b""
    while size := int(reader.readline(), 16):
        body += reader.read(size + 2)[:size]
    reader.readline()
    return body


def subscribe(port):
    """A query of its own."""
    with socket.create_connection(("127.0.0.1", port), PATIENCE_SECONDS, (ADDRESS, 0)) as connection:
        connection.sendall(UPGRADE.encode())
        reader = connection.makefile("rb")
        if b" 101 " not in reader.readline():
            raise Wrong("no WebSocket")
        while reader.readline() not in (b"\r\n", b""):
            pass
        query = f"tm.event='Tx' AND app.key='probe{next(NUMBERS)}'"
        params = {"jsonrpc": "2.0", "id": 1, "method": "subscribe", "params": {"query": query}}
        connection.sendall(frame(json.dumps(params).encode()))
        text = message(reader)
        if "result" not in json.loads(text):
            raise Wrong(text[:200])


def message(reader):
    """The next text frame."""
    while True:
        first, size = reader.read(2)
        if size == 126:
            (size,) = struct.unpack(">H", reader.read(2))
        elif size == 127:
            (size,) = struct.unpack(">Q", reader.read(8))
        payload = reader.read(size)
        if first & 0x0F == 1:
            return payload


class Probe:
    """Asks at intervals whatever has been answered, each from a thread of its own, until the `with` block is left."""

    def __init__(self, kind, port, interval):
        self.kind, self.port, self.interval = kind, port, interval
        self.done = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.asked, self.milliseconds, self.wrong = [], [], ""

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.done.set()
        self.thread.join()

    def figures(self):
        """What was asked, what was answered rightly, and how long that took; waits for the last answers."""
        self.done.set()
        self.thread.join()
        for each in self.asked:
            each.join(PATIENCE_SECONDS * 3)
        taken = sorted(self.milliseconds)
        return {
            "due": len(self.asked),
            "right": len(taken),
            "p50_ms": taken[len(taken) // 2] if taken else None,
            "max_ms": taken[-1] if taken else None,
            "wrong": self.wrong,
        }

    def _run(self):
        began = time.monotonic()
        while not self.done.wait(max(0.0, began + len(self.asked) * self.interval - time.monotonic())):
            self.asked.append(threading.Thread(target=self._ask, daemon=True))
            self.asked[-1].start()

    def _ask(self):
        began = time.monotonic()
        try:
            self.kind(self.port)
            self.milliseconds.append((time.monotonic() - began) * 1000)
        except (OSError, http.client.HTTPException, ValueError, KeyError, Wrong) as error:
            self.wrong = f"{type(error).__name__}: {error}"[:300]


def prepare_large_block(node_port):
    """A block of some megabytes at the node, past sentinel."""
    for _ in range(12):
        tx = base64.b64encode(kvstore_tx(700_000)).decode()
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "broadcast_tx_async", "params": {"tx": tx}})
        ask(node_port, "POST", "/", body)
