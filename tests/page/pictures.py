#!/usr/bin/env python3
"""Takes pictures of the live page of a real cluster: idle, busy, and wounded (one worker killed, one
stopped).

  tests/page/pictures.py --troupe build/deploy/troupe --out deploy/pictures

Four nodes on the loopback serve the demo world to clients that this program starts. While a browser
waits, its virtual time runs faster than the clock. So it asks through a proxy that delays each read of
the cluster's state by the page's polling interval; the rates on the page are then right.
"""
import argparse
import http.server
import json
import pathlib
import random
import signal
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "page"), str(ROOT / "tests" / "bench")]
import browser
import loopback

DEMO = ROOT / "deploy" / "demo"
POLL_S = 2


def proxy_to(port):
    class Proxy(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            import http.client

            link = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            link.request("GET", self.path)
            reply = link.getresponse()
            body = reply.read()
            if self.path == "/v1/cluster":
                time.sleep(POLL_S)
            self.send_response(reply.status)
            for name in ("content-type", "content-security-policy"):
                if reply.getheader(name):
                    self.send_header(name, reply.getheader(name))
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}/"


class Load:
    """Requests of recurring users at a steady rate, for the tenants search and ads."""

    def __init__(self, port, per_second):
        self.port, self.pause, self.on, self.answered = port, 4 / per_second, True, 0
        self.requests = [
            json.loads(line) for line in (DEMO / "world" / "requests.jsonl").read_text().splitlines()
        ]
        self.threads = [threading.Thread(target=self.run, args=(i,), daemon=True) for i in range(4)]
        for thread in self.threads:
            thread.start()

    def run(self, seed):
        draw = random.Random(seed)
        while self.on:
            request = self.requests[min(len(self.requests) - 1, int(draw.expovariate(1 / 40)))]
            body = {
                "user": request["user"],
                "candidates": request["candidates"],
                "policy": draw.choice(["planner", "planner", "bat", "user"]),
            }
            try:
                self.answered += loopback.ask(self.port, "POST", "/v1/rank", body, limit=20)[0] == 200
            except OSError:
                pass
            time.sleep(self.pause * draw.expovariate(1))

    def stop(self):
        self.on = False
        for thread in self.threads:
            thread.join()


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--troupe", required=True, type=pathlib.Path)
    parser.add_argument("--out", required=True, type=pathlib.Path)
    parser.add_argument("--rate", type=float, default=60)
    parser.add_argument("--seconds", type=float, default=30)
    arguments = parser.parse_args()
    missing = loopback.missing() or ("" if browser.chromium() else "chromium")
    if missing:
        print(f"skipped: there is no {missing}")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        settings = [
            f"model: {{directory: {DEMO / 'model'}}}",
            "router: {policy: planner, deadline: 5s}",
            "pool: {memory: 12MiB}",
        ]
        cluster = loopback.Cluster(arguments.troupe.resolve(), folder, 3, settings)
        try:
            cluster.up(DEMO / "world")
            port = cluster.http_port["front"]
            url = proxy_to(port)

            def shoot(name):
                picture = arguments.out / f"page-{name}.png"
                browser.shoot(url, picture, height=1560, seconds=arguments.seconds)
                browser.shrink(picture)

            shoot("idle")
            load = Load(port, arguments.rate)
            time.sleep(20)
            shoot("busy")
            cluster.processes["worker-2"].send_signal(signal.SIGSTOP)
            cluster.processes["worker-3"].kill()
            time.sleep(5)
            shoot("wounded")
            load.stop()
            print(f"{load.answered} requests were answered")
            cluster.processes["worker-2"].send_signal(signal.SIGCONT)
        finally:
            for process in cluster.processes.values():
                process.kill()
    return 0


if __name__ == "__main__":
    sys.exit(main())
