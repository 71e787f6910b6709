"""A server that imitates clusters, to look at the live page: idle, busy, wounded, and one with hostile names.

    python3 tests/page/mock_server.py --cluster busy --port 8090      # then open it in a browser
"""
import argparse
import base64
import hashlib
import http.server
import json
import math
import pathlib
import random
import re
import time

PAGE = pathlib.Path(__file__).resolve().parents[2] / "server" / "observability" / "page.html"
HOSTILE = "<img src=x onerror=\"document.title='pwned'\"></script><script>document.title='pwned'</script>"
STAGES = ("features", "lookup", "turn", "blocks", "queue", "compute")


def security_of(html):
    """Returns the content security policy that server/observability/page.cc makes for this page."""

    def sum_of(tag):
        text = re.search(f"<{tag}>(.*?)</{tag}>", html, re.S).group(1)
        return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"

    return (
        f"default-src 'none'; script-src {sum_of('script')}; style-src {sum_of('style')}; connect-src "
        "'self'; img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


class Cluster:
    """Two routers, two cache-metas, four workers; their figures depend on the seconds since the start."""

    def __init__(self, kind):
        self.kind, self.began, self.random = kind, time.monotonic(), random.Random(1)
        hostile = kind == "hostile"
        self.names = {
            n: HOSTILE if hostile else name
            for n, name in enumerate(
                ["front-1", "front-2", "meta-1", "meta-2", "worker-1", "worker-2", "worker-3", "worker-4"], 1
            )
        }
        self.rate = {"idle": 0, "busy": 850, "wounded": 640, "hostile": 10}[kind]

    def seconds(self):
        return time.monotonic() - self.began

    def actor(self, node, role, fields, ready=True):
        return {
            "node": node,
            "role": role,
            "ready": ready,
            "fields": [{"name": k, "value": str(v)} for k, v in fields],
        }

    def stages(self):
        if not self.rate:
            return []
        wobble = 1 + 0.2 * math.sin(self.seconds() / 3) + 0.1 * self.random.random()
        slow = 3 if self.kind == "wounded" else 1
        rows = {
            "features": (210, 900),
            "lookup": (140, 700),
            "turn": (900 * slow, 9000 * slow),
            "blocks": (120, 2600 * slow),
            "queue": (600, 4200 * slow),
            "compute": (2300, 6100),
            "total": (5200 * slow, 21000 * slow),
        }
        return [
            (
                "stage",
                f"{name}: p50 {int(p50 * wobble)} us, p99 {int(p99 * wobble)} us, "
                f"{int(self.rate * 30)} in the last minute",
            )
            for name, (p50, p99) in rows.items()
        ]

    def router(self, node):
        answered = int(
            self.rate / 2 * (self.seconds() + 600 * bool(self.rate)) + 7 * math.sin(self.seconds())
        )
        fields = [
            ("model_version", "fddb8a31c0e24f"),
            ("model_serves", "rank, score"),
            ("catalog_version", HOSTILE if self.kind == "hostile" else "c16859"),
            ("policy", "planner"),
            ("requests_in_flight", 9 if self.rate else 0),
            ("requests_waiting", 4 if self.kind == "wounded" else 0),
            ("requests_answered", answered),
            ("requests_refused", answered // 400 * (4 if self.kind == "wounded" else 1)),
            ("precompute", "done"),
            ("items_hot", 37 if self.rate else 0),
        ]
        for worker in range(5, 9):
            how, heard, slowness = "alive", 90, 1.03
            if self.kind == "wounded" and worker == 7:
                how, heard, slowness = "lost", 48200, 1.0
            if self.kind == "wounded" and worker == 6:
                how, slowness = "slow", 6.41
            fields.append(
                (
                    "worker",
                    f"{worker}: {how}, heard {heard} ms ago, takes {slowness:.2f} of what was "
                    f"predicted, 2 lanes, {1200 if self.rate else 0} us of work ahead",
                )
            )
        if self.kind == "hostile":
            fields.append(("tenant", f"\"{HOSTILE}\": 3 requests, 1 waiting with 12 ms of work, weight 1"))
        if self.kind == "busy":
            fields += [
                ("tenant", "\"search\": 6 requests, 0 waiting with 0 ms of work, weight 4"),
                ("tenant", "\"ads\": 3 requests, 2 waiting with 18 ms of work, weight 1"),
            ]
        for plan, share, reuse in (
            ("item", 0.71, 0.9),
            ("user", 0.22, 0.61),
            ("blocks", 0.06, 0.72),
            ("recompute", 0.01, 0),
        ):
            n = int(answered * share)
            if n:
                fields.append(
                    (
                        "plan",
                        f"{HOSTILE if self.kind == 'hostile' else plan}: {n} requests, {n * 452} "
                        f"tokens, {int(n * 452 * reuse)} reused",
                    )
                )
        return self.actor(node, "router", fields + self.stages())

    def worker(self, node):
        pages, drift = 16384, math.sin(self.seconds() / 9 + node)
        item = int(pages * (0.5 if not self.rate else 0.62 + 0.05 * drift))
        used = 0.9 if self.rate else 0.4
        hits = int(self.rate * 20 * (self.seconds() + 600))
        kv = [
            ("item_pages", item),
            ("item_pages_used", int(item * used)),
            ("item_hits", hits),
            ("item_misses", int(hits * 0.06)),
            ("user_pages", pages - item),
            ("user_pages_used", int((pages - item) * used * 0.8)),
            ("user_hits", hits // 40),
            ("user_misses", hits // 55),
            ("blocks_pulled", 412 * node),
            ("blocks_corrupt", 2 if self.kind == "wounded" and node == 8 else 0),
            ("kind", f"system: 1 blocks, 3 pages"),
            ("kind", f"item: {int(item * used / 2)} blocks, {int(item * used)} pages"),
            (
                "kind",
                f"user: {int((pages - item) * used / 14)} blocks, {int((pages - item) * used * .8)} pages",
            ),
            ("store", "resting after a failure" if self.kind == "wounded" and node == 8 else "on"),
            ("blocks_stored", 16859),
        ]
        inference = [
            ("lanes", 2),
            ("lanes_busy", 2 if self.rate else 0),
            ("plans_waiting", 5 if self.kind == "wounded" else 1 if self.rate else 0),
            ("draining", "no"),
        ]
        return [
            self.actor(node, "kv_worker", kv),
            self.actor(node, "inference_worker", inference),
            self.actor(node, "allocator", [("split_epoch", 3)]),
        ]

    def cluster(self):
        actors, silent = [self.router(1), self.router(2)], []
        for node in (3, 4):
            hot = (
                ", ".join(
                    f"{HOSTILE if self.kind == 'hostile' else 'camp-%04d' % (i * 37)} {90 / (i + 1):.1f}"
                    for i in range(8)
                )
                if self.rate
                else ""
            )
            actors.append(
                self.actor(
                    node,
                    "cache_meta",
                    [
                        ("index_blocks", 41234),
                        ("leader", "yes" if node == 3 else "no"),
                        ("drained", "no"),
                        ("hottest_items", hot),
                    ],
                )
            )
        for node in range(5, 9):
            if self.kind == "wounded" and node == 7:
                silent += [
                    {"node": node, "role": role} for role in ("kv_worker", "inference_worker", "allocator")
                ]
            else:
                actors += self.worker(node)
        return {"actors": actors, "silent": silent, "names": {str(n): name for n, name in self.names.items()}}

    def slowest(self):
        requests = []
        for i in range(14 if self.rate else 0):
            us = int(61000 / (1 + i * 0.35)) * (3 if self.kind == "wounded" else 1)
            shares = [self.random.random() ** 2 for _ in STAGES]
            timings = {stage: int(us * 0.92 * share / sum(shares)) for stage, share in zip(STAGES, shares)}
            expired = self.kind == "wounded" and i < 3
            name = HOSTILE if self.kind == "hostile" else ""
            requests.append(
                {
                    "request": name or f"{self.random.getrandbits(64):016x}",
                    "trace": "0" * 32,
                    "kind": "rank",
                    "tenant": name or ("search", "ads", "")[i % 3],
                    "model": name,
                    "code": "deadline_exceeded" if expired else "",
                    "plan": "" if expired else ("item", "user", "blocks")[i % 3],
                    "status": 504 if expired else 200,
                    "node": 0 if expired else 5 + i % 4,
                    "ago_ms": 900 + 7000 * i,
                    "us": us,
                    "tokens_total": 450,
                    "tokens_reused": 400,
                    "timings": {} if expired else timings,
                }
            )
        return {"requests": requests}


def entry(key):
    """A page of the same site that keeps a key as the login form does, and goes on to the live page."""
    return f"<script>sessionStorage.setItem('troupe-key', {json.dumps(key)}); location.replace('/')</script>"


def make_server(kind, port=0, key=None, asked=None):
    """With `key`, data needs that key: 401 without one, 403 with "user". `asked` gets the paths."""
    cluster, html = Cluster(kind), PAGE.read_text()

    def refusal(path, authorization):
        if not key or not path.startswith("/v1/") or authorization == "Bearer " + key:
            return 0
        return 403 if authorization == "Bearer user" else 401

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            answers = {
                "/": lambda: html,
                "/v1/cluster": lambda: json.dumps(cluster.cluster()),
                "/v1/slowest": lambda: json.dumps(cluster.slowest()),
            }
            if asked is not None:
                asked.append(self.path)
            if self.path.startswith("/enter?"):
                answers[self.path] = lambda: entry(self.path.partition("?")[2])
            answer = answers.get(self.path)
            refused = refusal(self.path, self.headers.get("authorization"))
            body = (answer() if answer and not refused else "{}").encode()
            self.send_response(refused or (200 if answer else 404))
            is_page = not self.path.startswith("/v1/")
            self.send_header("content-type", "text/html; charset=utf-8" if is_page else "application/json")
            if self.path == "/":
                self.send_header("content-security-policy", security_of(html))
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    return http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cluster", default="busy", choices=("idle", "busy", "wounded", "hostile"))
    parser.add_argument("--port", type=int, default=0)
    arguments = parser.parse_args()
    server = make_server(arguments.cluster, arguments.port)
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()
