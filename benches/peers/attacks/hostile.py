"""Hostile clients, one kind at a time: hostile.py KIND PORT SECONDS [CONNECTIONS]. See README.md."""

import asyncio
import json
import os
import sys

import deciding
import sharing
from attacker import DONE

# An attacker that is thrown out comes back after this.
AGAIN_SECONDS = 0.1
KINDS = {kind.__name__: (kind, count) for kind, count in {**sharing.KINDS, **deciding.KINDS}.items()}


async def again(kind, port, number):
    while True:
        try:
            await kind(port, number)
        except (OSError, asyncio.IncompleteReadError, ValueError):
            pass
        await asyncio.sleep(AGAIN_SECONDS)


async def main():
    name, port, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    kind, count = KINDS[name]
    count = int(sys.argv[4]) if len(sys.argv) > 4 else count
    attackers = [asyncio.create_task(again(kind, port, number)) for number in range(count)]
    await asyncio.wait(attackers, timeout=seconds)
    print(json.dumps(DONE), flush=True)
    os._exit(0)


if __name__ == "__main__":
    asyncio.run(main())
