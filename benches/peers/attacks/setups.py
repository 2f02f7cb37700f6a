"""In what surroundings each attack is made: the node, sentinel's settings, the others' load, who is asked beside it."""

from dataclasses import dataclass, field

import hostile
import probes


@dataclass
class Setup:
    """What differs from the default: the built-in node, 1,000 writes a second of the others, and nothing beside."""

    # Settings of the built-in node, and flags of sentinel.
    node: list = field(default_factory=list)
    flags: list = field(default_factory=list)
    # The others' writes a second.
    rate: int = 1000
    buffer_mib: int = 64
    # A client that asks for more than its share in every variant: `greedy`, or the attacker's `twin`.
    beside: str | None = None
    # What the attacker's address does in the quiet variant: its honest part of what is short.
    instead: str | None = None
    # Honest requests beside, one each so many seconds.
    probe: object = None
    interval: float = 0.25
    # What of the attackers' own may be answered with 200 in a second, where that is the figure.
    most_served: int | None = None
    # What the gateway before the node answers under this attack; there are no hostile clients then.
    lie: str | None = None
    prepare: object = None
    # The node itself is the limit: the same without sentinel is measured, too, and is what it is compared with.
    direct: bool = False


# Blocks of a few hundred transactions, of which a greedy client wants more.
SMALL_BLOCKS = ["block_interval=500ms", "max_block_txs=200"]

SETUPS = {
    **{name: Setup() for name in hostile.KINDS if name not in ("greedy", "twin")},
    "gas": Setup(node=[*SMALL_BLOCKS, "max_block_gas=2000000"], rate=50, beside="twin", probe=probes.read),
    # The others want more than their share of a fixed pace: each waits for the end of the attacker's turns.
    "unpriced": Setup(
        node=["block_interval=500ms", "max_block_bytes=50000"], rate=800, instead="twin",
        flags=["--pace", "fixed", "--max-req", 500],
    ),
    "pill": Setup(rate=200),
    "folded": Setup(rate=200, probe=probes.subscribe, interval=0.5),
    "balanced": Setup(rate=200, flags=["--trusted-proxy", "127.0.0.66/32"], probe=probes.behind, interval=0.5),
    "places": Setup(rate=200, buffer_mib=256, probe=probes.read, prepare=probes.prepare_large_block, direct=True),
    "heads": Setup(rate=200, probe=probes.read),
    "unusual": Setup(node=["max_block_txs=40"], rate=10),
    # `check_tx` is refused by default, and then costs the node nothing.
    "checks": Setup(
        rate=20, most_served=100,
        flags=["--pace", "fixed", "--max-req", 100, "--set", "reads.refuse_methods=unsafe_*,dial_seeds,dial_peers"],
    ),
    "waiters": Setup(
        node=["block_interval=3s"], rate=50, probe=probes.commit, interval=1
    ),
    "signers": Setup(
        rate=20, flags=["--pace", "fixed", "--max-req", 200, "--set", "fair.order=account"], probe=probes.victim,
        interval=0.5,
    ),
    "sessions": Setup(rate=20, buffer_mib=16, flags=["--max-req", 500, "--set", "fair.queue_per_client=32"]),
    "desync": Setup(rate=200, lie="desync", probe=probes.twice),
    "endless": Setup(rate=200, lie="endless"),
}  # fmt: skip
