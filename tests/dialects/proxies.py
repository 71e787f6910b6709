#!/usr/bin/env python3
"""Checks a node as curl, haproxy and nginx use it: probes, checks and requests through a proxy.

  tests/dialects/proxies.py --troupe build/deploy/troupe

The node serves the demo world with API keys. curl asks for all probes. haproxy checks the node with its
default (OPTIONS /), with HEAD and with GET, must find it up, and passes requests on; so does nginx. When the
node drains, haproxy's checks must find that out while requests are still answered. Each part is skipped with
a line where its package is missing (curl, haproxy, nginx-light); then the exit status is 77, unless another
check failed.
"""
import argparse
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time

from served import ServedDemo

SKIPPED, WAIT_SECONDS = 77, 30
LIVE, READY = ["/v2/health/live", "/livez", "/healthz"], ["/v2/health/ready", "/readyz", "/health", "/ping"]
RANK = {"user": "ana", "candidates": ["camp-0001", "camp-0002", "camp-0003"]}
CHECKS = {  # of a backend; the first is haproxy's default
    "options": "option httpchk",
    "head": "option httpchk HEAD /health",
    "get": "option httpchk\n  http-check send meth GET uri /readyz ver HTTP/1.1 hdr Host balancer",
}
wrong, skipped = [], []


def check(holds, what):
    print(("ok      " if holds else "FAILED  ") + what)
    wrong.extend([] if holds else [what])


def found(program):
    """Returns whether the program is installed; else prints a line."""
    where = shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin")
    if not where:
        print(f"skipped: {program} is not installed")
        skipped.append(program)
    return where


def until(holds, seconds=WAIT_SECONDS):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if value := holds():
            return value
        time.sleep(0.05)
    return None


class Node(ServedDemo):
    def __init__(self, troupe):
        super().__init__(troupe, "node.drain_notice=10min")
        self.address = self.url.split("//")[1]

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait(40)
        self.folder.cleanup()


def curl(*words):
    """Returns status, headers and body."""
    run = subprocess.run(["curl", "-sS", "-m", "30", "-i", *words], capture_output=True, text=True)
    head, _, body = run.stdout.partition("\n\n")  # text mode reads CRLF as LF
    status = head.split(" ")[1] if head.startswith("HTTP/") else "0 " + run.stderr
    return status, head.lower(), body


def asks(socket_path, key):
    """Returns what a request through the proxy at a Unix socket is answered."""
    return curl(
        "--unix-socket", socket_path, "http://localhost/v1/rank", "-H", "Authorization: Bearer " + key,
        "-d", json.dumps(RANK),
    )  # fmt: skip


# ---- curl ----


def try_curl(node):
    for path in LIVE + READY:
        check(curl(node.url + path)[0] == "200", f"GET {path} needs no key")
        status, _, body = curl("-I", node.url + path)
        check(status == "200" and body == "", f"HEAD {path}")
        status, head, _ = curl("-X", "POST", "-d", "{}", node.url + path)
        check(status == "405" and "allow: get, head" in head, f"POST {path} is refused with what is offered")
    check(curl("-X", "OPTIONS", node.url + "/")[0] == "200", "OPTIONS / needs no key")
    key = ["-H", "Authorization: Bearer " + node.key]
    status, head, _ = curl("-X", "OPTIONS", *key, node.url + "/v1/rank")
    check(status == "200" and "allow: post, options" in head, "OPTIONS lists the methods of a path")
    preflight = ["-H", "Origin: http://other.example", "-H", "Access-Control-Request-Method: POST"]
    head = curl("-X", "OPTIONS", *preflight, *key, node.url + "/v1/rank")[1]
    check("access-control-allow" not in head, "a page of another site is allowed nothing")
    check(curl("--http2-prior-knowledge", node.url + "/readyz")[0] == "200", "a probe over HTTP/2")
    check(curl("-0", node.url + "/readyz")[0] == "200", "a probe over HTTP/1.0")
    check(curl("-H", "Host: balancer.internal", node.url + "/health")[0] == "200", "a probe by another name")
    status, _, body = curl(*key, node.url + "/v1/rank", "-d", json.dumps(RANK))
    check(status == "200" and len(json.loads(body)["items"]) == 3, "a ranking")
    asked = {"query": "ana", "documents": [*RANK["candidates"], "nothing"]}
    status, _, body = curl(*key, node.url + "/v1/rerank", "-d", json.dumps(asked))
    check(
        status == "404" and json.loads(body)["error"]["where"] == "documents[3]",
        "one unknown document of several is named",
    )


# ---- haproxy ----


class Proxy:
    """A proxy in the foreground, until the block ends."""

    def __init__(self, words, log):
        self.log = log
        self.process = subprocess.Popen(words, stdout=open(log, "w"), stderr=subprocess.STDOUT)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(20)


def haproxy_text(node):
    backends = "".join(
        f"backend {name}\n  {check_lines}\n  server node {node.address} check inter 200ms fall 1 rise 1\n"
        for name, check_lines in CHECKS.items()
    )
    fronts = "".join(
        f"frontend f_{name}\n  bind unix@{node.at(name + '.sock')}\n  default_backend {name}\n"
        for name in CHECKS
    )
    return (
        f"global\n  stats socket {node.at('stats.sock')} mode 600 level admin\n"
        "defaults\n  mode http\n  timeout connect 5s\n  timeout client 30s\n  timeout server 30s\n"
        + fronts
        + backends
    )


def states(node):
    """Returns the state of the server in each backend, as haproxy's statistics say it."""
    with socket.socket(socket.AF_UNIX) as stats:
        stats.connect(node.at("stats.sock"))
        stats.sendall(b"show stat\n")
        text = b"".join(iter(lambda: stats.recv(65536), b"")).decode()
    rows = [line.split(",") for line in text.splitlines() if line]
    state = rows[0].index("status")
    return {row[0]: row[state] for row in rows[1:] if row[1] == "node"}


def try_haproxy(node, haproxy):
    with open(node.at("haproxy.cfg"), "w") as file:
        file.write(haproxy_text(node))
    with Proxy([haproxy, "-db", "-f", node.at("haproxy.cfg")], node.at("haproxy.log")) as proxy:
        if not until(lambda: os.path.exists(node.at("stats.sock")) or proxy.process.poll() is not None):
            return check(False, "haproxy starts: " + open(proxy.log).read()[-300:])
        settled = until(lambda: {name: "UP" for name in CHECKS} == states(node), 10)
        check(settled, f"haproxy finds the node up: {states(node)}")
        for name in CHECKS:
            status, _, body = asks(node.at(name + ".sock"), node.key)
            check(
                status == "200" and len(json.loads(body)["items"]) == 3, f"a ranking through haproxy, {name}"
            )
        node.process.send_signal(signal.SIGTERM)  # drains: not ready, and requests are still served
        down = until(lambda: all(state.startswith("DOWN") for state in states(node).values()), 10)
        check(down, f"haproxy finds out that the node drains: {states(node)}")
        check(curl(node.url + "/livez")[0] == "200", "a draining node lives")
        status, _, _ = curl(
            node.url + "/v1/rank", "-H", "Authorization: Bearer " + node.key, "-d", json.dumps(RANK)
        )
        check(status == "200", "a draining node answers what still reaches it")


# ---- nginx ----


def nginx_text(node):
    user = "user root;\n" if os.geteuid() == 0 else ""
    paths = "".join(
        f"  {name}_temp_path {node.at('nginx-' + name)};\n"
        for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    return (
        f"{user}daemon off;\npid {node.at('nginx.pid')};\nerror_log stderr;\nevents {{}}\n"
        f"http {{\n  access_log off;\n{paths}"
        f"  upstream troupe {{ server {node.address}; keepalive 4; }}\n"
        f"  server {{\n    listen unix:{node.at('nginx.sock')};\n    location / {{\n"
        "      proxy_pass http://troupe;\n      proxy_http_version 1.1;\n"
        '      proxy_set_header Connection "";\n      proxy_set_header Host $host;\n    }\n  }\n}\n'
    )


def try_nginx(node, nginx):
    with open(node.at("nginx.conf"), "w") as file:
        file.write(nginx_text(node))
    words = [nginx, "-p", node.folder.name, "-c", node.at("nginx.conf"), "-e", "stderr"]
    with Proxy(words, node.at("nginx.log")) as proxy:
        if not until(lambda: os.path.exists(node.at("nginx.sock")) or proxy.process.poll() is not None):
            return check(False, "nginx starts: " + open(proxy.log).read()[-300:])
        through = ["--unix-socket", node.at("nginx.sock")]
        for path in LIVE + READY:
            check(curl(*through, "http://localhost" + path)[0] == "200", f"GET {path} through nginx")
        for round in range(3):
            status, _, body = asks(node.at("nginx.sock"), node.key)
            check(
                status == "200" and len(json.loads(body)["items"]) == 3,
                f"ranking {round} through nginx, on a kept connection",
            )
        lines = "".join(json.dumps(RANK) + "\n" for _ in range(20))
        status, _, body = curl(
            *through, "http://localhost/v1/rank", "-H", "Authorization: Bearer " + node.key,
            "-H", "Content-Type: application/x-ndjson", "--data-binary", lines,
        )  # fmt: skip
        check(status == "200" and body.count('"status":200') == 20, "many rankings through nginx")
        check(
            curl(*through, "http://localhost/v1/rank")[0] in ("401", "405"), "a refusal comes back as it is"
        )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--troupe", required=True)
    arguments = parser.parse_args()
    if not found("curl"):
        return SKIPPED
    with Node(arguments.troupe) as node:
        try_curl(node)
        if nginx := found("nginx"):
            try_nginx(node, nginx)
        if haproxy := found("haproxy"):
            try_haproxy(node, haproxy)  # the last: the node drains
    return 1 if wrong else SKIPPED if skipped else 0


if __name__ == "__main__":
    sys.exit(main())
