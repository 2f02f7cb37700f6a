"""The five measures. Each starts its proxies afresh and returns plain figures of one run."""

import statistics
import time

# Far above what any load here offers: nobody waits and nobody is refused.
UNPACED = ("--max-req", "1000000")
# One client asks all.
UNLIMITED = ("--set", "reads.rate_per_client=1000000/s")
# The user's card, and the share that the fairness measures assume.
PACED = ("--max-req", "2000")
# A tiny rate and a queue that is full at once: over HTTP what comes then is refused, a WebSocket is
# not read any further.
REFUSING = ("--max-req", "10", "--queue-per-client", "4")
# The sink makes no blocks, so accepted transactions are kept for a node's restart up to their bound, an eighth of the
# buffers: as little as these can have.
COUNTING_CLIENTS = ("--trusted-proxy", "127.0.0.1/32", "--buffer-bytes", "8MiB")
# In flight over all connections of a WebSocket flood.
WS_CONNECTIONS = 4
WS_IN_FLIGHT = 1024
LATENCY_RATE = 2_000
LATENCY_CONNECTIONS = 16
POLITE_ADDRESS = "127.0.0.3"
POLITE_RATE = 10
FLOOD_ADDRESS = "127.0.0.2"
FLOOD_RATE = 100_000
# The polite client begins when the flood has come up.
FLOOD_LEAD_SECONDS = 2
CLIENTS = 100_000
MEMORY_SAMPLE_SECONDS = 0.5


class Measures:
    """Runs one thing at a time."""

    def __init__(self, args, proxies, loads, behind):
        self.args = args
        self.proxies = proxies
        self.loads = loads
        # Where a measure needs another node than the sink.
        self.grpc_node, self.node = behind

    def forward(self, name):
        """(a) Writes a second for each core of proxy CPU, as fast as the answers come."""
        with self.proxies.start(name, *UNPACED) as front:
            self.loads.wrk(front, 1)
            return costed(front, lambda: self.loads.wrk(front, self.args.seconds))

    def forward_ws(self, name):
        """(a) The same over WebSocket: sentinel alone, since the others do not look into frames."""

        def flood(front):
            load = self.loads.txgen(
                "flood", "--concurrency", WS_IN_FLIGHT, "--count", self.args.ws_count,
                "--endpoints", front.websocket, "--connections", WS_CONNECTIONS,
            )  # fmt: skip
            with load:
                summary = load.summary(self.args.ws_seconds)
            fate = summary["fate"]
            return {
                "requests": fate["accepted"], "refused": fate["rejected"],
                "seconds": summary["time"]["offered_s"], "errors": fate["errors"] + fate["unanswered"],
            }  # fmt: skip

        with self.proxies.start(name, *UNPACED) as front:
            return costed(front, lambda: flood(front))

    def spoken(self, name, spoken):
        """(f) Writes a second for each core of proxy CPU over TLS, over HTTP/2 and TLS, and calls of gRPC in clear text."""
        upstream = self.grpc_node.port if spoken == "grpc" else None
        with self.proxies.start(name, *UNPACED, *UNLIMITED, spoken=spoken, upstream=upstream) as front:
            load = self.loads.wrk if spoken == "tls" else lambda front, seconds: self.loads.h2load(front, seconds, spoken)
            load(front, 1)
            return costed(front, lambda: load(front, self.args.seconds))

    def threads(self, count):
        """(g) What sentinel forwards with so many threads."""
        with self.proxies.start("sentinel", *UNPACED, "--threads", str(count)) as front:
            self.loads.wrk(front, 1)
            return costed(front, lambda: self.loads.wrk(front, self.args.seconds))

    def kept(self, name):
        """(h) Answers a second for each core of CometBFT, and of sentinel, which keeps the answer."""
        flags = "--trusted-proxy", "127.0.0.1/32"
        front = self.node if name == "CometBFT" else self.proxies.start("sentinel", *flags, upstream=self.node.port)
        with front:
            height = self.node.height
            self.loads.wrk_kept(front, 1, height)
            return costed(front, lambda: self.loads.wrk_kept(front, self.args.seconds, height))

    def latency(self, name):
        """(b) Service times of an open loop far below anybody's limit, in milliseconds."""
        seconds = self.args.seconds
        with self.proxies.start(name, *UNPACED) as front:
            load = self.loads.txgen(
                "constant", "--rate", f"{LATENCY_RATE}/s", "--duration", f"{seconds}s", "--warmup", "1s",
                "--endpoints", front.url, "--connections", LATENCY_CONNECTIONS,
            )  # fmt: skip
            with load:
                return served(load.summary(seconds))

    def polite(self, name, flooded):
        """(c) What a small client waits, with a flood from another address or without."""
        seconds = self.args.polite_seconds
        with self.proxies.start(name, *PACED) as front:
            flooding = seconds + 2 * FLOOD_LEAD_SECONDS
            flood = self._flood(front, flooding, "ws") if flooded == "flooded" else None
            try:
                time.sleep(FLOOD_LEAD_SECONDS)
                load = self.loads.txgen(
                    "constant", "--rate", f"{POLITE_RATE}/s", "--duration", f"{seconds}s",
                    "--endpoints", front.url, "--connections", 4, "--source-address", POLITE_ADDRESS,
                )  # fmt: skip
                with load:
                    result = served(load.summary(seconds))
                if flood:
                    result["flood"] = offered(flood.summary(flooding), flooding)
                return result
            finally:
                if flood:
                    flood.stop()

    def refuse(self):
        """(d) Answers to a client far over its share, over HTTP: the cost of each."""
        with self.proxies.start("sentinel", *REFUSING) as front:
            self.loads.wrk(front, 1)
            return costed(front, lambda: self.loads.wrk(front, self.args.seconds))

    def flooded(self, transport):
        """(d) A client that offers 100,000/s and may send ten: the cost by what was offered, answered or not."""
        seconds = self.args.seconds

        def flood(front):
            with self._flood(front, seconds, transport) as load:
                summary = load.summary(seconds)
            fate, planned = summary["fate"], summary["offered"]["planned"]
            return {
                "requests": planned, "refused": fate["rejected"] + fate["errors_by_kind"]["http_status"],
                "seconds": float(seconds), "sent": fate["sent"], "accepted": fate["accepted"],
            }  # fmt: skip

        with self.proxies.start("sentinel", *REFUSING) as front:
            return costed(front, lambda: flood(front))

    def memory(self):
        """(e) Resident memory: fresh, under load of one client, with 100,000 clients seen, and over time."""
        with self.proxies.start("sentinel", *UNPACED, *COUNTING_CLIENTS) as front:
            time.sleep(1)
            empty = front.rss_bytes()
            self._rotate(front, 1, CLIENTS)
            warm = front.rss_bytes()
            rate = self._rotate(front, CLIENTS, CLIENTS)
            seen = front.rss_bytes()
            entries = front.gauge("sentinel_client_table_entries")
            buffered = front.gauge("sentinel_buffered_bytes")
            samples = self._sampled(front, self.args.flat_seconds)
        quarter = max(1, len(samples) // 4)
        return {
            "empty_bytes": empty,
            "one_client_bytes": warm,
            "many_clients_bytes": seen,
            "clients": int(entries),
            "buffered_bytes": int(buffered),
            "per_client_bytes": (seen - warm) / entries,
            "rate": rate,
            "flat_seconds": self.args.flat_seconds,
            "second_quarter_bytes": statistics.median(samples[quarter : 2 * quarter] or samples),
            "last_quarter_bytes": statistics.median(samples[-quarter:]),
            "samples": samples,
        }

    def _rotate(self, front, clients, requests):
        """At least so many requests, each from the next client of a rotation; the rate."""
        sent, seconds = 0, 0.0
        while sent < requests:
            run = self.loads.wrk(front, 5, clients)
            sent += run["requests"] - run["errors"]
            seconds += run["seconds"]
        return sent / seconds

    def _sampled(self, front, seconds):
        """Resident memory while twice as many clients come as the table holds."""
        samples = []
        deadline = time.monotonic() + seconds
        with self.loads.wrk_under_way(front, seconds, 2 * CLIENTS):
            while time.monotonic() < deadline:
                samples.append(front.rss_bytes())
                time.sleep(MEMORY_SAMPLE_SECONDS)
        return samples

    def _flood(self, front, seconds, transport):
        """An open loop from an address of its own."""
        connections = WS_CONNECTIONS if transport == "ws" else self.args.connections
        return self.loads.txgen(
            "constant", "--rate", f"{FLOOD_RATE}/s", "--duration", f"{seconds}s",
            "--endpoints", front.websocket if transport == "ws" else front.url,
            "--connections", connections, "--source-address", FLOOD_ADDRESS,
            # A tenth of a second's worth: the flood does not grow a backlog of its own.
            "--max-in-flight", FLOOD_RATE // 10,
        )  # fmt: skip


def costed(front, load):
    """A load with what it cost the proxy."""
    before = front.cpu_seconds()
    run = load()
    cpu = front.cpu_seconds() - before
    run["rate"] = run["requests"] / run["seconds"]
    run["cpu_cores"] = cpu / run["seconds"]
    run["per_core"] = run["requests"] / cpu if cpu else None
    run["cpu_us"] = cpu / run["requests"] * 1e6 if cpu else None
    return run


def served(summary):
    fate, service = summary["fate"], summary["latency_ms"]["accept_service"]
    return {
        "accepted": fate["accepted"],
        "not_accepted": summary["offered"]["planned"] - fate["accepted"],
        "p50_ms": service["p50"],
        "p99_ms": service["p99"],
        "max_ms": service["max"],
        "verdict": summary["verdict"]["schedule"],
    }


def offered(summary, seconds):
    fate = summary["fate"]
    return {
        "sent_per_s": fate["sent"] / seconds,
        "accepted_per_s": fate["accepted"] / seconds,
        "refused_per_s": fate["rejected"] / seconds,
        "errors": fate["errors"],
        "unsent": summary["offered"]["unsent"],
    }
