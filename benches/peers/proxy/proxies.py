"""The proxies under measure, each with one worker, keep-alive on both sides, and the sink behind them."""

import getpass
import os
import subprocess
import urllib.request

from process import Child, Failed, free_port

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
        listen 127.0.0.1:{port} {listen};
        ssl_protocols TLSv1.3;
        ssl_certificate {pair};
        ssl_certificate_key {pair};
        http2_max_concurrent_streams 128;
        proxy_http_version 1.1;
        location / {{
            {pass_on};
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
    bind 127.0.0.1:{port} {bind}
    default_backend node
backend node
    server node 127.0.0.1:{upstream} {server}
"""
# How each is told what is spoken: nginx's listener and way to the node, haproxy's listener and server. All listeners with
# TLS have one certificate, one version and the cipher that clients put first, and clients keep their connections.
SPOKEN = {
    "http": ("", "proxy_pass http://node", "", ""),
    "tls": ("ssl", "proxy_pass http://node", "ssl crt {pair} ssl-min-ver TLSv1.3 alpn http/1.1", ""),
    "http2": ("ssl http2", "proxy_pass http://node", "ssl crt {pair} ssl-min-ver TLSv1.3 alpn h2", ""),
    "grpc": ("http2", "grpc_pass grpc://node", "proto h2", "proto h2"),
}


class Proxies:
    """Starts a proxy by its name. `direct` is none: the load goes to the sink."""

    def __init__(self, args, sink, folder):
        self.args = args
        self.sink = sink
        self.folder = folder
        self.pair = os.path.join(folder, "pair.pem")
        make_pair(self.pair)

    def start(self, name, *flags, spoken="http", upstream=None):
        """A running `Front`; `flags` are for sentinel."""
        front = self._start(name, flags, spoken, upstream or self.sink.port)
        if spoken in ("tls", "http2"):
            front.url = front.url.replace("http:", "https:")
        return front

    def _start(self, name, flags, spoken, upstream):
        if name == "direct":
            return Front(upstream, None)
        if name == "nginx":
            return self._configured(NGINX, lambda file: [self.args.nginx, "-c", file, "-p", self.folder], spoken, upstream)
        if name == "haproxy":
            return self._configured(HAPROXY, lambda file: [self.args.haproxy, "-db", "-f", file], spoken, upstream)
        sentinel = self.args.other if name == OTHER else self.args.sentinel
        if spoken == "grpc":
            port = free_port()
            flags = *flags, "--set", f"grpc.listen=127.0.0.1:{port}", "--set", f"grpc.node=http://127.0.0.1:{upstream}"
            return self._sentinel(sentinel, *flags).at(port)
        if spoken != "http":
            flags = *flags, "--set", f"tls.certificates={self.pair}"
        if upstream != self.sink.port:
            flags = *flags, "--upstream", f"http://127.0.0.1:{upstream}"
        return self._sentinel(sentinel, *flags)

    def _sentinel(self, program, *flags):
        port, admin = free_port(), free_port()
        command = [
            program, "--listen", f"127.0.0.1:{port}", "--admin", f"127.0.0.1:{admin}",
            "--pace", "fixed", *flags,
        ]  # fmt: skip
        if "--upstream" not in flags:
            command += ["--upstream", f"http://127.0.0.1:{self.sink.port}"]
        process = Child("sentinel", command, os.path.join(self.folder, "sentinel.log"))
        return Front(port, process, f"http://127.0.0.1:{admin}/metrics")

    def _configured(self, template, command, spoken, upstream):
        port = free_port()
        listen, pass_on, bind, server = SPOKEN[spoken]
        file = os.path.join(self.folder, f"proxy-{port}.conf")
        with open(file, "w", encoding="utf-8") as out:
            out.write(template.format(
                port=port, upstream=upstream, folder=self.folder, endless=ENDLESS, user=getpass.getuser(), pair=self.pair,
                listen=listen, pass_on=pass_on, bind=bind.format(pair=self.pair), server=server,
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

    def at(self, port):
        """The same where its clients come to another port."""
        return Front(port, self.process, self.metrics)

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


def make_pair(path):
    """A certificate and its key in one file."""
    key = f"{path}.key"
    made = subprocess.run([
        "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "30",
        "-subj", "/CN=localhost", "-keyout", key, "-out", path,
    ], capture_output=True, text=True, check=False)  # fmt: skip
    if made.returncode:
        raise Failed(made.stderr)
    with open(key, encoding="ascii") as text, open(path, "a", encoding="ascii") as pair:
        pair.write(text.read())
