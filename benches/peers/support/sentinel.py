"""sentinel as a process on free ports, and what is sampled beside a run."""

import contextlib
import os
import threading
import time
import urllib.request

from process import Child, Failed, free_port

READY_SECONDS = 15


class Sentinel:
    """sentinel in front of a node for as long as the `with` block lasts."""

    def __init__(self, program, upstream, folder, *flags):
        os.makedirs(folder, exist_ok=True)
        self.port, admin = free_port(), free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.admin = f"http://127.0.0.1:{admin}"
        command = [
            program, "--listen", f"127.0.0.1:{self.port}", "--admin", f"127.0.0.1:{admin}",
            "--upstream", upstream, *flags,
        ]  # fmt: skip
        self.process = Child("sentinel", command, os.path.join(folder, "sentinel.log"))

    def __enter__(self):
        try:
            self.process.wait_port(self.port)
            self._wait_ready()
        except BaseException:
            self.process.stop()
            raise
        return self

    def __exit__(self, *_):
        self.process.stop()

    def metrics(self):
        """/metrics as text; an empty text when it does not answer."""
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{self.admin}/metrics", timeout=10) as answer:
            return answer.read().decode()
        return ""

    def figures(self):
        """Every series with its value."""
        lines = (line for line in self.metrics().splitlines() if not line.startswith("#"))
        return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}

    def _wait_ready(self):
        deadline = time.monotonic() + READY_SECONDS
        while True:
            with contextlib.suppress(OSError), urllib.request.urlopen(f"{self.admin}/readyz", timeout=2):
                return
            if not self.process.running() or time.monotonic() > deadline:
                raise Failed(f"sentinel is not ready\n{self.process.tail()}")
            time.sleep(0.05)


class Sampler:
    """Calls `sample` at intervals from a thread of its own, until the `with` block is left."""

    def __init__(self, seconds):
        self.seconds = seconds
        self.done = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.done.set()
        self.thread.join()

    def _run(self):
        self.sample()
        while not self.done.wait(self.seconds):
            self.sample()

    def sample(self):
        raise NotImplementedError
