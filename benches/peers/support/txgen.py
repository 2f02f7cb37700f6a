"""txgen as a load: started in the background, read when it has ended."""

import csv
import json
import os
import signal

from process import Child, Failed

# What a run may take beyond its length: preflight, drain, reports.
GRACE_SECONDS = 90
# 98 says that the schedule was not kept. Under overload that is a result.
GOOD_CODES = (0, 98)


class Load(Child):
    """One txgen process and its run folder."""

    # On SIGTERM it would wait for responses and commits that are no longer needed.
    stop_signals = (signal.SIGKILL,)

    def __init__(self, name, program, arguments, folder, nice=0):
        self.folder = os.path.join(folder, name)
        command = [program, *arguments, "--no-tui", "--out", self.folder]
        super().__init__(name, command, os.path.join(folder, f"{name}.log"), nice)

    def accept_ms(self):
        """What each accepted transaction took from when it was due."""
        with open(os.path.join(self.folder, "txs.csv"), encoding="utf-8") as file:
            rows = [row for row in csv.DictReader(file) if row["accepted_ns"]]
        return [(int(row["accepted_ns"]) - int(row["due_ns"])) / 1e6 for row in rows]

    def summary(self, seconds):
        """Waits for the end; summary.json."""
        self.wait(seconds + GRACE_SECONDS)
        self.expect(*GOOD_CODES)
        try:
            with open(os.path.join(self.folder, "summary.json"), encoding="utf-8") as file:
                return json.load(file)
        except OSError as error:
            raise Failed(f"{self.name} left no summary: {error}\n{self.tail()}") from error
