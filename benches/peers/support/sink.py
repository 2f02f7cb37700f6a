"""The sink as a process, and the transactions that it counts by windows of 10 ms."""

import http.client
import json
import os

from process import Child, free_port


class Sink:
    """Runs the sink on a free port for as long as the `with` block lasts.

    The upstream of every comparison: it reads and answers every transaction at once, on one thread.
    """

    def __init__(self, program, folder):
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.process = Child("sink", [program, f"127.0.0.1:{self.port}"], os.path.join(folder, "sink.log"))

    def __enter__(self):
        self.process.wait_port(self.port)
        return self

    def __exit__(self, *_):
        self.process.stop()

    def start_counting(self):
        self._get("/arrivals/start")

    def counts(self):
        """Transactions in each window since start_counting; ends the counting."""
        answer = json.loads(self._get("/arrivals"))
        return Counts(answer["window_ms"], answer["counts"])

    def cpu_seconds(self):
        """User and system time of the sink so far."""
        return self.process.cpu_seconds()

    def _get(self, path):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request("GET", path)
            return connection.getresponse().read()
        finally:
            connection.close()


class Counts:
    """Transactions by window, from the first one on."""

    def __init__(self, window_ms, counts):
        first = next((at for at, count in enumerate(counts) if count), len(counts))
        self.window_ms = window_ms
        self.counts = counts[first:]

    def total(self):
        return sum(self.counts)

    def against(self, rate, seconds, skip_seconds):
        """How evenly `rate` arrived over `seconds`.

        The rate's error counts what came within the span of the plan, from the first transaction on,
        and two windows of grace. The windows are judged after `skip_seconds`, when every tool has
        opened its connections; the partial first and last ones are left out.
        """
        per_second = 1000 // self.window_ms
        planned = rate * seconds
        within = sum(self.counts[: seconds * per_second + 2])
        per_window = rate / per_second
        judged = self.counts[skip_seconds * per_second : seconds * per_second - 1]
        judged = sorted(judged) or [0]
        return {
            "planned": planned,
            "arrived_in_time": within,
            "arrived": self.total(),
            "rate_error": within / planned - 1,
            "worst_window": judged[-1] / per_window,
            "emptiest_window": judged[0] / per_window,
            "p99_window": judged[min(len(judged) - 1, len(judged) * 99 // 100)] / per_window,
        }
