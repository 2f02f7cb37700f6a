"""Each generator: how it is called, and how what it printed is read."""

import json
import os
import re
import shutil
import subprocess
import tempfile
import threading
import time

from process import Failed, die_with_parent, first_line

# A run that hangs is ended after its own length and this.
GRACE_SECONDS = 60


class Run:
    """A finished process: its output, and the CPU time of all its threads."""

    def __init__(self, command, seconds, environment=None):
        environment = {**os.environ, **(environment or {})}
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            began = time.monotonic()
            process = subprocess.Popen(command, stdout=out, stderr=err, env=environment, preexec_fn=die_with_parent)
            timer = threading.Timer(seconds + GRACE_SECONDS, process.kill)
            timer.start()
            _, status, usage = os.wait4(process.pid, 0)
            timer.cancel()
            self.wall_seconds = time.monotonic() - began
            process.returncode = os.waitstatus_to_exitcode(status)
            self.code = process.returncode
            self.cpu_seconds = usage.ru_utime + usage.ru_stime
            out.seek(0)
            err.seek(0)
            self.out, self.err = out.read(), err.read()
        self.command = " ".join(command)

    def expect(self, *codes):
        if self.code not in codes:
            raise Failed(f"{self.command}\nended with {self.code}\n{self.out[-2000:]}{self.err[-2000:]}")
        return self


class Generators:
    """The programs, the target, and the one request that all of them send."""

    def __init__(self, args, sink, body, scratch):
        self.args = args
        self.url = sink.url + "/"
        self.websocket = sink.url.replace("http://", "ws://") + "/websocket"
        self.endpoint = sink.url
        self.body = body
        self.scratch = scratch
        here = os.path.dirname(os.path.abspath(__file__))
        self.lua = os.path.join(here, "post.lua")
        self.script = os.path.join(here, "constant.js")

    def versions(self):
        args = self.args
        asked = {
            "txgen": [args.txgen, "--version"],
            "other": [args.other, "--version"],
            "wrk": [args.wrk, "-v"],
            "oha": [args.oha, "--version"],
            "k6": [args.k6, "version"],
        }
        return {name: first_line(command).split(" Copyright")[0] for name, command in asked.items() if command[0]}

    # Peak: as fast as the sink answers.

    def wrk_peak(self, connections, seconds, threads):
        command = [self.args.wrk, "-t", str(threads), "-c", str(connections), "-d", f"{seconds}s"]
        run = Run(
            [*command, "-s", self.lua, self.url], seconds, {"PEERS_BODY": self.body}
        ).expect(0)
        result = json.loads(re.search(r"^RESULT (.*)$", run.out, re.M).group(1))
        return peak(run, result["requests"], result["seconds"], result["errors"])

    def oha_peak(self, connections, seconds, more=()):
        run, answer = self._oha(connections, seconds, more)
        return peak(run, *answer)

    def txgen_flood(self, program, transport, connections, in_flight, count):
        run, summary = self._txgen(
            program,
            ["flood", "--concurrency", str(in_flight), "--count", str(count)],
            transport,
            connections,
            GRACE_SECONDS,
        )
        fate = summary["fate"]
        result = peak(run, fate["accepted"], summary["time"]["offered_s"], fate["sent"] - fate["accepted"])
        result["conservation"] = summary["conservation"]["holds"]
        return result

    # Precision: a rate that the sink could take several times over.

    def txgen_constant(self, program, rate, connections, seconds):
        run, summary = self._txgen(
            program,
            ["constant", "--rate", f"{rate}/s", "--duration", f"{seconds}s"],
            "http",
            connections,
            seconds,
        )
        latency, worst = summary["latency_ms"], summary["windows"]["ms_10"]["highest_ratio"]
        return {
            **precise(run, seconds),
            "claimed": summary["fate"]["accepted"],
            "own_rate_error": summary["rate"]["sent_tps"] / summary["rate"]["planned_tps"] - 1,
            "own_worst_window": worst and worst["sent"] / worst["planned"],
            "lateness_p50_us": latency["lateness"]["p50"] * 1000,
            "lateness_p99_us": latency["lateness"]["p99"] * 1000,
            "lateness_max_us": latency["lateness"]["max"] * 1000,
            "answer_p99_ms": latency["accept_response"]["p99"],
            "answer_from": "due",
            "verdict": summary["verdict"]["schedule"],
        }

    def oha_constant(self, rate, connections, seconds):
        run, (requests, _, _) = self._oha(
            connections, seconds, ["-q", str(rate), "--latency-correction"]
        )
        percentiles = json.loads(run.out)["latencyPercentiles"]
        return {
            **precise(run, seconds),
            "claimed": requests,
            "answer_p99_ms": percentiles["p99"] * 1000,
            "answer_from": "due",
        }

    def ticks_constant(self, rate, connections, seconds):
        address = self.endpoint.removeprefix("http://")
        command = [self.args.ticks, address, str(rate), str(connections), str(seconds), self.body]
        run = Run(command, seconds).expect(0)
        result = json.loads(run.out)
        late = {name: value for name, value in result.items() if name.startswith("lateness")}
        return {**precise(run, seconds), **late, "claimed": result["answered"], "answer_from": "-"}

    def k6_constant(self, rate, connections, seconds):
        summary = os.path.join(self.scratch, "k6.json")
        environment = {
            "PEERS_BODY": self.body,
            "PEERS_URL": self.url,
            "PEERS_RATE": str(rate),
            "PEERS_SECONDS": str(seconds),
            "PEERS_CONNECTIONS": str(connections),
            "PEERS_SUMMARY": summary,
        }
        command = [self.args.k6, "run", "--quiet", "--no-usage-report", "--no-color", self.script]
        run = Run(command, seconds, environment).expect(0)
        with open(summary, encoding="utf-8") as file:
            metrics = json.load(file)
        dropped = metrics.get("dropped_iterations", {"values": {"count": 0}})
        return {
            **precise(run, seconds),
            "claimed": metrics["http_reqs"]["values"]["count"],
            "dropped": dropped["values"]["count"],
            "answer_p99_ms": metrics["http_req_duration"]["values"]["p(99)"],
            "answer_from": "sent",
        }

    def _oha(self, connections, seconds, more):
        command = [
            self.args.oha, "--no-tui", "--output-format", "json", "-m", "POST",
            "-T", "application/json", "-d", self.body,
            "-c", str(connections), "-z", f"{seconds}s", *more, self.url,
        ]  # fmt: skip
        run = Run(command, seconds).expect(0)
        answer = json.loads(run.out)
        good = answer["statusCodeDistribution"].get("200", 0)
        # Requests under way when the time is over are aborted by design.
        errors = sum(
            count
            for error, count in answer["errorDistribution"].items()
            if "deadline" not in error
        )
        return run, (good, answer["summary"]["total"], errors)

    def _txgen(self, program, load, transport, connections, seconds):
        folder = os.path.join(self.scratch, "run")
        shutil.rmtree(folder, ignore_errors=True)
        endpoint = self.endpoint if transport == "http" else self.websocket
        command = [
            program, *load, "--endpoints", endpoint, "--connections", str(connections),
            "--size", str(self.args.size), "--seed", "1", "--no-follow", "--no-tui", "--out", folder,
        ]  # fmt: skip
        # 98: the schedule was not kept. That is a result here.
        run = Run(command, seconds).expect(0, 98)
        with open(os.path.join(folder, "summary.json"), encoding="utf-8") as file:
            summary = json.load(file)
        shutil.rmtree(folder, ignore_errors=True)
        return run, summary


def peak(run, requests, seconds, errors):
    return {
        "requests": requests,
        "seconds": seconds,
        "rate": requests / seconds,
        "errors": errors,
        "cpu_per_100k": run.cpu_seconds / requests * 100_000,
        "cpu_cores": run.cpu_seconds / run.wall_seconds,
    }


def precise(run, seconds):
    return {"cpu_share": run.cpu_seconds / seconds, "wall_seconds": run.wall_seconds}
