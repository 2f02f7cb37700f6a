"""BEP-10's loop in Python: loops.py FILE SECONDS prints how often it went round, the time, and the
processor time."""

import sys
import time

from cryptoconditions import Fulfillment

text = open(sys.argv[1], encoding="ascii").read()
seconds = float(sys.argv[2])
rounds, start, before = 0, time.perf_counter(), time.process_time()
while time.perf_counter() - start < seconds:
    for _ in range(10):
        assert Fulfillment.from_uri(text).serialize_uri() == text
    rounds += 10
print(rounds, time.perf_counter() - start, time.process_time() - before)
