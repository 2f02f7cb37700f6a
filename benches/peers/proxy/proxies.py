"""The proxies under measure, each with one worker, keep-alive on both sides, and the sink behind them."""

import getpass
import os
import urllib.request

from process import Child, free_port

# The sentinel of another commit (--other).
OTHER = "sentinel other"

# More requests on one connection than any run sends: reconnecting is not what is measured.
ENDLESS = 1_000_000_000

NGINX = """
daemon off;
user {user};
worker_processes 1;
pid {folder}/nginx.pid;
error_log stderr error;
events {{ worker_connections 4096; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    keepalive_requests {endless};
    upstream node {{
        server 127.0.0.1:{upstream};
        keepalive 256;
        keepalive_requests {endless};
    }}
    server {{
        listen 127.0.0.1:{port};
        proxy_http_version 1.1;
        location / {{
            proxy_pass http://node;
            proxy_set_header Connection "";
        }}
        location /websocket {{
            proxy_pass http://node;
            proxy_set_header Upgrade $http_upgrade;
            proxy_set_header Connection upgrade;
        }}
    }}
}}
"""

HAPROXY = """
global
    nbthread 1
    maxconn 4096
defaults
    mode http
    http-reuse always
    timeout connect 5s
    timeout client 60s
    timeout server 60s
    timeout tunnel 1h
frontend front
    bind 127.0.0.1:{port}
    default_backend node
backend node
    server node 127.0.0.1:{upstream}
"""


class Proxies:
    """Starts a proxy by its name. `direct` is none: the load goes to the sink."""

    def __init__(self, args, sink, folder):
        self.args = args
        self.sink = sink
        self.folder = folder

    def start(self, name, *flags):
        """A running `Front`; `flags` are for sentinel."""
        if name == "direct":
            return Front(self.sink.port, None)
        if name == "nginx":
            return self._configured(NGINX, lambda file: [self.args.nginx, "-c", file, "-p", self.folder])
        if name == "haproxy":
            return self._configured(HAPROXY, lambda file: [self.args.haproxy, "-db", "-f", file])
        return self._sentinel(self.args.other if name == OTHER else self.args.sentinel, *flags)

    def _sentinel(self, program, *flags):
        port, admin = free_port(), free_port()
        command = [
            program, "--listen", f"127.0.0.1:{port}", "--admin", f"127.0.0.1:{admin}",
            "--upstream", f"http://127.0.0.1:{self.sink.port}", "--pace", "fixed",
            *flags,
        ]  # fmt: skip
        process = Child("sentinel", command, os.path.join(self.folder, "sentinel.log"))
        return Front(port, process, f"http://127.0.0.1:{admin}/metrics")

    def _configured(self, template, command):
        port = free_port()
        file = os.path.join(self.folder, f"proxy-{port}.conf")
        with open(file, "w", encoding="utf-8") as out:
            out.write(template.format(
                port=port, upstream=self.sink.port, folder=self.folder, endless=ENDLESS,
                user=getpass.getuser(),
            ))  # fmt: skip
        process = Child(os.path.basename(command(file)[0]), command(file), f"{file}.log")
        return Front(port, process)


class Front:
    """Where a load goes, and whose CPU time it costs. Leaving the `with` block stops it."""

    def __init__(self, port, process, metrics=None):
        self.port = port
        self.process = process
        self.metrics = metrics
        self.url = f"http://127.0.0.1:{port}"
        self.websocket = f"ws://127.0.0.1:{port}/websocket"

    def __enter__(self):
        if self.process:
            try:
                self.process.wait_port(self.port)
            except BaseException:
                self.process.stop()
                raise
        return self

    def __exit__(self, *_):
        if self.process:
            self.process.stop()

    def cpu_seconds(self):
        return self.process.cpu_seconds() if self.process else 0.0

    def rss_bytes(self):
        return self.process.rss_bytes() if self.process else 0

    def gauge(self, name):
        """What the proxy says of itself; sentinel only."""
        with urllib.request.urlopen(self.metrics, timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        return float(next(line.split()[1] for line in lines if line.startswith(f"{name} ")))
