"""A client with one subscription over TLS: subscriber.py PORT AUTHORITY QUERY.

When its connection ends it connects and subscribes anew at once. On SIGTERM it prints, for each connection, how many events of
which height came, and how long it took to be subscribed again.
"""

import asyncio
import collections
import json
import re
import signal
import ssl
import sys
import time

from attacker import UPGRADE, frame, small_frame

HEIGHT = re.compile(rb'"height":"(\d+)"')
ERROR_BYTES = 300
MOST_BYTES = 1 << 26


async def message(reader, writer):
    """The next text; none at the end of the connection."""
    while True:
        first, size = await reader.readexactly(2)
        if size >= 126:
            size = int.from_bytes(await reader.readexactly(2 if size == 126 else 8), "big")
        payload = await reader.readexactly(size)
        match first & 0x0F:
            case 9:
                writer.write(small_frame(payload, first=0x8A))
            case 8:
                return None
            case _:
                return payload


async def read(port, tls, query, connections):
    """One connection from its begin to its end."""
    began = time.monotonic()
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls, limit=MOST_BYTES)
    writer.write(UPGRADE.encode())
    await reader.readuntil(b"\r\n\r\n")
    writer.write(frame(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "subscribe", "params": {"query": query}}).encode()))
    # Its answer comes before the first event.
    await message(reader, writer)
    events = collections.Counter()
    connections.append({"after_ms": (time.monotonic() - began) * 1000, "events": events})
    while (text := await message(reader, writer)) is not None:
        found = HEIGHT.search(text)
        if not found:
            connections.append({"error": text.decode()[:ERROR_BYTES]})
            break
        events[int(found[1])] += 1
    writer.close()


async def main():
    port, authority, query = int(sys.argv[1]), sys.argv[2], sys.argv[3]
    tls, connections = ssl.create_default_context(cafile=authority), []

    async def for_ever():
        while True:
            try:
                await read(port, tls, query, connections)
            except (OSError, asyncio.IncompleteReadError) as error:
                connections.append({"error": repr(error)})

    task = asyncio.create_task(for_ever())
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    await asyncio.wait([task])
    print(json.dumps(connections))


if __name__ == "__main__":
    asyncio.run(main())
