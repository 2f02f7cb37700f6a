"""What is done to the node and by whom, as a function of the seed."""

import random
from dataclasses import dataclass

import hostile

# Less of what would take the machine more than sentinel.
FEWER = {"sessions": 500, "headers": 300, "announce": 100, "frames": 100}
# Set-ups of their own.
LEFT_OUT = {"twin", "balanced", "places"}
# How often each comes, in twenty.
WEIGHTS = {"killed": 5, "stopped": 5, "slow": 5, "lying": 4, "another chain": 1}
# What comes besides in a soak.
UPKEEP = {"certificates": 3, "reload": 3, "disk full": 2}
LIES = ("garbage", "nameless", "desync", "endless")


@dataclass
class Fault:
    """At this second something happens, for so long."""

    at: float
    kind: str
    seconds: float
    delay_ms: int = 0
    lie: str | None = None

    def __str__(self):
        detail = f", {self.delay_ms} ms each way" if self.delay_ms else f", {self.lie}" if self.lie else ""
        return f"{self.at:.0f} s: {self.kind} for {self.seconds:.1f} s{detail}"


@dataclass
class Attack:
    at: float
    kind: str
    seconds: float
    count: int


def faults(seed, begin, end, weights):
    """Each kind once at first, in some order, then as they come; never two at once."""
    dice = random.Random(f"{seed} faults")
    first = list(weights)
    dice.shuffle(first)
    longest = min(20.0, (end - begin) / 12)
    at, found = begin, []
    while True:
        kind = first.pop() if first else dice.choices(list(weights), list(weights.values()))[0]
        # Now and then as long as writes may wait, or longer.
        is_long = kind == "stopped" and longest == 20.0 and dice.random() < 0.1
        fault = Fault(at, kind, 40.0 if is_long else dice.uniform(longest / 10, longest))
        if kind == "slow":
            fault.delay_ms = dice.choice((20, 50, 150, 400))
        elif kind == "lying":
            fault.lie = dice.choice(LIES)
        elif kind in ("another chain", "certificates", "reload"):
            fault.seconds = 0.0
        if at + fault.seconds > end:
            return found
        found.append(fault)
        at += fault.seconds + dice.uniform(longest / 4, longest)


def attacks(seed, begin, end):
    """One kind after another, with pauses."""
    dice = random.Random(f"{seed} attacks")
    kinds = [name for name in hostile.KINDS if name not in LEFT_OUT]
    at, found = begin, []
    while True:
        kind, seconds = dice.choice(kinds), dice.uniform(5, 20)
        if at + seconds > end:
            return found
        found.append(Attack(at, kind, seconds, FEWER.get(kind, hostile.KINDS[kind][1])))
        at += seconds + dice.uniform(1, 10)
