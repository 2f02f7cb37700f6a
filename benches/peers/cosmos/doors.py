"""A flood at each door of a chain of the Cosmos SDK and a polite client at each: doors.py RPC GRPC REST NODE SECONDS < transfers.

Transfers are those of `examples/signed_transfers.rs`. First the polite clients are alone, then the floods come too: each of
so many connections sends its account's next transfer when the one before was answered. Another polite client asks the node
itself (NODE: its RPC port), past sentinel: what it waits beside the floods is the node's part, whose blocks are full then.
Prints a table in Markdown.
"""

import asyncio
import base64
import collections
import itertools
import json
import socket
import sys

DOORS = ("rpc", "grpc", "rest")
# Connections of a flood, each with an account of its own.
FLOOD = 40
POLITE_PER_SECOND = 10
# Connections of a polite client, each with an account of its own: a wallet waits for its last transfer, others do not.
POLITE = 10
MOST_RATIO = 2.0


def post(path, kind, body):
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def request(door, tx):
    """A broadcast that waits for the check."""
    if door == "rpc":
        body = {"jsonrpc": "2.0", "id": 1, "method": "broadcast_tx_sync", "params": {"tx": tx}}
        return post("/", "application/json", json.dumps(body).encode())
    if door == "rest":
        body = {"tx_bytes": tx, "mode": "BROADCAST_MODE_SYNC"}
        return post("/cosmos/tx/v1beta1/txs", "application/json", json.dumps(body).encode())
    raw = base64.b64decode(tx)
    message = b"\x0a" + varint(len(raw)) + raw + b"\x10\x02"
    body = b"\0" + len(message).to_bytes(4, "big") + message
    return post("/cosmos.tx.v1beta1.Service/BroadcastTx", "application/grpc-web+proto", body)


def varint(number):
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def judged(door, body):
    """`accepted`, or why not."""
    if door == "grpc":
        # A `TxResponse` begins with a hash of 64 digits; where its code is not 0, a codespace (3) or the code (4) is next.
        message = body[5 : 5 + int.from_bytes(body[1:5], "big")] if body[:1] == b"\0" else b""
        is_accepted = message[2:4] == b"\x12\x40" and message[68:69] not in (b"\x1a", b"\x20")
        return "accepted" if is_accepted else "not accepted"
    answer = json.loads(body)
    result = answer.get("result") if door == "rpc" else answer.get("tx_response")
    if result is None:
        return "refused"
    return "accepted" if result["code"] == 0 else f"code {result['code']}"


class Client:
    """One connection from an address, with the transfers of one account."""

    def __init__(self, door, port, address, transfers):
        self.door, self.port, self.address, self.transfers = door, port, address, collections.deque(transfers)
        self.reader = self.writer = None

    async def connect(self):
        plain = socket.socket()
        plain.setblocking(False)
        plain.bind((self.address, 0))
        await asyncio.get_running_loop().sock_connect(plain, ("127.0.0.1", self.port))
        self.reader, self.writer = await asyncio.open_connection(sock=plain)

    async def send(self):
        self.writer.write(request(self.door, self.transfers[0]))
        head = (await self.reader.readuntil(b"\r\n\r\n")).lower()
        if b"transfer-encoding: chunked" in head:
            body = b""
            while size := int(await self.reader.readuntil(b"\r\n"), 16):
                body += (await self.reader.readexactly(size + 2))[:size]
            await self.reader.readexactly(2)
        else:
            body = await self.reader.readexactly(int(head.partition(b"content-length:")[2].partition(b"\r\n")[0] or 0))
        outcome = judged(self.door, body)
        if outcome == "accepted":
            self.transfers.popleft()
        return outcome


async def polite(clients, seconds):
    """Milliseconds from due to accepted; a transfer that is not accepted counts until it is."""
    loop = asyncio.get_running_loop()
    began, took = loop.time(), []

    async def in_turn(place, client):
        for number in range(place, int(seconds * POLITE_PER_SECOND), POLITE):
            due = began + number / POLITE_PER_SECOND
            await asyncio.sleep(max(0.0, due - loop.time()))
            while await client.send() != "accepted":
                await asyncio.sleep(0.05)
            took.append((loop.time() - due) * 1000)

    await asyncio.gather(*(in_turn(place, client) for place, client in enumerate(clients)))
    return sorted(took)


async def flood(client, until, counts):
    loop = asyncio.get_running_loop()
    while loop.time() < until and client.transfers:
        outcome = await client.send()
        counts[client.door, outcome] += 1
        if outcome != "accepted":
            await asyncio.sleep(0.05)


async def main():
    ports, seconds = dict(zip(DOORS, map(int, sys.argv[1:4]))), float(sys.argv[5])
    transfers = collections.defaultdict(list)
    for line in sys.stdin:
        account, tx = line.split()
        transfers[int(account)].append(tx)
    accounts = iter(sorted(transfers))
    quiet = {door: [Client(door, ports[door], f"127.0.0.{20 + place}", transfers[next(accounts)]) for _ in range(POLITE)]
             for place, door in enumerate(DOORS)}  # fmt: skip
    floods = [Client(door, ports[door], f"127.0.0.{10 + place}", transfers[next(accounts)])
              for place, door in enumerate(DOORS) for _ in range(FLOOD)]  # fmt: skip
    # The client at the node is no door of sentinel's; it is polite in the same way.
    quiet["node"] = [Client("rpc", int(sys.argv[4]), "127.0.0.30", transfers[next(accounts)]) for _ in range(POLITE)]
    for client in [*itertools.chain(*quiet.values()), *floods]:
        await client.connect()
    counts = collections.Counter()
    alone = await asyncio.gather(*(polite(clients, seconds) for clients in quiet.values()))
    until = asyncio.get_running_loop().time() + seconds + 2
    flooding = asyncio.gather(*(flood(client, until, counts) for client in floods))
    await asyncio.sleep(2)
    beside = await asyncio.gather(*(polite(clients, seconds) for clients in quiet.values()))
    await flooding
    print("| door | flood: accepted/s, others | polite p50, p99 alone, ms | beside the floods | p99 / alone | / at the node itself |\n|---|---|---|---|---|---|")
    p99 = {of: [took[len(took) * 99 // 100] for took in (alone[place], beside[place])] for place, of in enumerate(quiet)}
    for place, door in enumerate(quiet):
        others = ", ".join(f"{count} {outcome}" for (of, outcome), count in counts.items() if of == door and outcome != "accepted")
        flooded = "none" if door == "node" else f"{counts[door, 'accepted'] / (seconds + 2):.0f}, {others or 'none'}"
        cells = [f"{took[len(took) // 2]:.1f}, {took[len(took) * 99 // 100]:.1f}" for took in (alone[place], beside[place])]
        ratios = [p99[door][1] / p99[door][0], p99[door][1] / p99["node"][1]]
        marked = [("" if ratio <= MOST_RATIO else "**missed** ") + f"{ratio:.2f}" for ratio in ratios]
        print(f"| {door} | {flooded} | {' | '.join(cells)} | {' | '.join(marked)} |")


if __name__ == "__main__":
    asyncio.run(main())
