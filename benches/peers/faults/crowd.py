"""Clients that come, do one thing and go, each from an address of its own: crowd.py PORT SECONDS SEED CLIENTS.

They come in turn over TLS, a hundred a second: with a write, a read, a WebSocket that stays a while, or a long body whose
last byte does not come, so that its buffer is held.
"""

import asyncio
import base64
import collections
import itertools
import json
import os
import random
import socket
import ssl
import sys

from attacker import UPGRADE, answer, frame, post, write_of

COMING_PER_SECOND = 100
# Of a hundred that come.
KINDS = {"write": 35, "read": 25, "websocket": 15, "long body": 25}
BODY_BYTES = 900_000
# Below the time in which a body has to come.
MOST_STAY_SECONDS = 9
PATIENCE_SECONDS = 30
STATUS = '{"jsonrpc":"2.0","id":1,"method":"status"}'


def context():
    """Certificates are replaced by others of nobody's; who needs them right looks at them."""
    made = ssl.create_default_context()
    made.check_hostname, made.verify_mode = False, ssl.CERT_NONE
    return made


def address_of(client):
    return f"127.{1 + (client >> 16)}.{client >> 8 & 255}.{client & 255}"


async def visit(port, client, kind, stay, tls):
    connection = socket.socket()
    connection.setblocking(False)
    connection.bind((address_of(client), 0))
    await asyncio.get_running_loop().sock_connect(connection, ("127.0.0.1", port))
    reader, writer = await asyncio.open_connection(sock=connection, ssl=tls, server_hostname="x")
    try:
        if kind == "write":
            writer.write(post(write_of(250, "broadcast_tx_sync")))
            return (await answer(reader))[0].split()[1].decode()
        if kind == "read":
            writer.write(post(STATUS))
            return (await answer(reader))[0].split()[1].decode()
        if kind == "websocket":
            writer.write(UPGRADE.encode())
            await reader.readuntil(b"\r\n\r\n")
            writer.write(frame(STATUS.encode()))
            await reader.readexactly(2)
            await asyncio.sleep(stay)
            return "stayed"
        writer.write(post(base64.b64encode(bytes(BODY_BYTES * 3 // 4)).decode())[:-1])
        await writer.drain()
        await asyncio.sleep(stay)
        return "stayed"
    finally:
        writer.close()


async def main():
    port, seconds, seed, clients = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    dice, tls = random.Random(f"{seed} crowd"), context()
    order = list(range(clients))
    dice.shuffle(order)
    done, under_way = collections.Counter(), set()
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda *_: None)
    began = loop.time()

    async def come(client, kind, stay):
        try:
            how = await asyncio.wait_for(visit(port, client, kind, stay, tls), PATIENCE_SECONDS)
        except (OSError, asyncio.IncompleteReadError, asyncio.TimeoutError, ValueError) as error:
            how = type(error).__name__
        done[f"{kind}: {how}"] += 1

    for number, client in enumerate(itertools.cycle(order)):
        due = number / COMING_PER_SECOND
        if due > seconds:
            break
        await asyncio.sleep(max(0.0, began + due - loop.time()))
        (kind,) = dice.choices(list(KINDS), list(KINDS.values()))
        task = asyncio.create_task(come(client, kind, dice.uniform(0, MOST_STAY_SECONDS)))
        under_way.add(task)
        task.add_done_callback(under_way.discard)
    print(json.dumps({"clients": min(number, clients), "visits": done}), flush=True)
    os._exit(0)


if __name__ == "__main__":
    asyncio.run(main())
