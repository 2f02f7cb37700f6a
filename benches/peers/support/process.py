"""Processes that a measurement starts: stopped by their own id; their CPU time and memory."""

import contextlib
import ctypes
import os
import pathlib
import signal
import socket
import subprocess
import threading
import time

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
# How long a process may take to end after it was asked to.
STOP_SECONDS = 10
PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)


class Failed(Exception):
    """A program did not do what was asked; the text says what it printed."""


class Child:
    """A running program, its output in a file. Leaving the `with` block stops it."""

    # In this order, each after a while.
    stop_signals = (signal.SIGTERM, signal.SIGKILL)

    def __init__(self, name, command, log, nice=0):
        self.name = name
        self.command = [str(part) for part in command]
        if nice:
            self.command = ["nice", "-n", str(nice), *self.command]
        self.log = log
        self.usage = None
        # CPU time and memory are sampled from another thread than the one that waits for the end.
        self.waiting = threading.Lock()
        with open(log, "ab") as output:
            # A session of its own: Ctrl-C reaches the script alone, which then stops everything in order.
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=die_with_parent,
            )
        self.pid = self.process.pid

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def running(self):
        with self.waiting:
            if self.usage is None:
                pid, status, usage = os.wait4(self.pid, os.WNOHANG)
                if pid:
                    self.process.returncode = os.waitstatus_to_exitcode(status)
                    self.usage = usage
            return self.usage is None

    def wait(self, seconds):
        """Waits for the end; the exit code. Stops it when it takes longer."""
        deadline = time.monotonic() + seconds
        while self.running():
            if time.monotonic() > deadline:
                self.stop()
                raise Failed(f"{self.name} did not end within {seconds:.0f} s\n{self.tail()}")
            time.sleep(0.05)
        return self.process.returncode

    def stop(self):
        """Asks it to end, then makes it."""
        for order in self.stop_signals:
            if not self.running():
                return
            os.kill(self.pid, order)
            deadline = time.monotonic() + STOP_SECONDS
            while self.running() and time.monotonic() < deadline:
                time.sleep(0.02)

    def expect(self, *codes):
        if self.process.returncode not in codes:
            raise Failed(f"{self.name} ended with {self.process.returncode}\n{self.tail()}")

    def tail(self, size=2000):
        with open(self.log, "rb") as file:
            file.seek(max(0, os.path.getsize(self.log) - size))
            text = file.read().decode(errors="replace")
        return f"{' '.join(self.command)}\n{text}"

    def cpu_seconds(self):
        """User and system time so far, of the process and its children."""
        if not self.running():
            return self.usage.ru_utime + self.usage.ru_stime
        return sum(ticks_of(pid) for pid in self.family()) / TICKS_PER_SECOND

    def core_seconds(self):
        """How long its threads ran, and how long they were ready and waited for a core."""
        ran = waited = 0
        for pid in self.family():
            for task in pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat"):
                with contextlib.suppress(OSError):
                    times = task.read_text().split()
                    ran, waited = ran + int(times[0]), waited + int(times[1])
        return ran / 1e9, waited / 1e9

    def rss_bytes(self):
        """Resident memory of the process and its children; 0 once it has ended."""
        return sum(rss_of(pid) for pid in self.family()) if self.running() else 0

    def descriptors(self):
        """Open files of the process; 0 once it has ended."""
        try:
            return len(os.listdir(f"/proc/{self.pid}/fd"))
        except OSError:
            return 0

    def family(self):
        """The process and its direct children: nginx has a master and workers."""
        try:
            with open(f"/proc/{self.pid}/task/{self.pid}/children", encoding="ascii") as file:
                return [self.pid, *map(int, file.read().split())]
        except OSError:
            return [self.pid]

    def wait_port(self, port, seconds=15, host="127.0.0.1"):
        """Waits until it listens."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                socket.create_connection((host, port), timeout=1).close()
                return self
            except OSError:
                if not self.running() or time.monotonic() > deadline:
                    raise Failed(f"{self.name} does not listen on port {port}\n{self.tail()}") from None
                time.sleep(0.02)


def die_with_parent():
    """Runs in the child: a script that is killed outright leaves nothing behind either."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def ticks_of(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
            fields = stat.read().rpartition(")")[2].split()
    except OSError:
        return 0
    return int(fields[11]) + int(fields[12])


def rss_of(pid):
    try:
        with open(f"/proc/{pid}/statm", encoding="ascii") as statm:
            return int(statm.read().split()[1]) * PAGE_BYTES
    except OSError:
        return 0


def first_line(command):
    """The first line that a program prints when it is asked for its version."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = (done.stdout or done.stderr).splitlines()
    if not lines:
        raise Failed(f"{' '.join(map(str, command))} printed nothing and ended with {done.returncode}")
    return lines[0].strip()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def exit_on_sigterm():
    """SIGTERM ends the script as Ctrl-C does: through every `with` block."""

    def interrupt(*_):
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
