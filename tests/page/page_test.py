#!/usr/bin/env python3
"""Checks that the live page shows the state of a cluster, and that text from outside stays text on it.

  tests/page/page_test.py --troupe build/deploy/troupe [--pictures FOLDER]

Chromium opens the pages of imitated clusters (one whose names are all scripts, an idle, a busy and a
wounded one) and of a real node that serves the demo world to clients with hostile names. Exit status 1 if
a script in a name ran, a name became an element, or expected text is missing; 77 without chromium.
"""
import argparse
import http.client
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, str(pathlib.Path(__file__).parent))
sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
import browser
import mock_server
from served_node import await_port

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEMO = ROOT / "deploy" / "demo"
HOSTILE = mock_server.HOSTILE
faults = []


def expect(holds, what):
    print(("ok    " if holds else "WRONG ") + what)
    if not holds:
        faults.append(what)


def body_of(document):
    """Returns the visible part of the document; the page's own script follows it."""
    return document[document.index("<body>") : document.index("<script>")]


def check_harmless(where, document, console):
    body = body_of(document)
    expect(
        "pwned" not in re.search("<title>(.*?)</title>", document, re.S).group(1),
        f"{where}: no script in a name ran",
    )
    expect("<img" not in body and "<script" not in body, f"{where}: no name became an element")
    expect("&lt;img src=x" in body, f"{where}: names are shown as text")
    expect("Content Security Policy" not in console, f"{where}: the page keeps its own policy")
    expect("Uncaught" not in console, f"{where}: the page's script runs without an error")


def play(kind, pictures):
    server = mock_server.make_server(kind)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/"
    document, console = browser.document(url)
    if pictures:
        browser.shoot(url, pictures / f"page-{kind}.png", seconds=30)
    server.shutdown()
    return document, console


def check_keys():
    """Where there are keys, the page opens, asks for one, keeps it, and does not try a bad one again."""
    asked = []
    server = mock_server.make_server("idle", key="good", asked=asked)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for path, words, form in (
        ("/", "Enter a key made with --admin", True),
        ("/enter?bad", "does not belong to this server, or was revoked", True),
        ("/enter?user", "may not see the whole cluster", True),
        ("/enter?good", "All 8 nodes are healthy.", False),
    ):
        asked.clear()
        body = body_of(browser.document(f"http://127.0.0.1:{server.server_port}{path}")[0])
        expect(words in body, f"keys: {path}: the page says {words}")
        expect(
            bool(re.search('<form class="card" id="login">', body)) == form,
            f"keys: {path}: the form is {form}",
        )
        tries = asked.count("/v1/cluster")
        expect(tries == 1 if form else tries > 1, f"keys: {path}: {tries} tries")
    server.shutdown()


class Node:
    def __init__(self, troupe, folder, *settings):
        port_file = folder / "port"
        model = ["--model", DEMO / "model", "--data-dir", folder / "data"]
        subprocess.run(
            [troupe, "import", *model, "--data", DEMO / "world"], check=True, stdout=subprocess.DEVNULL
        )
        self.process = subprocess.Popen(
            [troupe, "serve", *model, *settings, "--port", "0", "--port-file", port_file],
            stdout=subprocess.DEVNULL,
        )
        self.port = await_port(self.process, port_file)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(40)

    def ask(self, method, path, body=None, **headers):
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        link.request(method, path, None if body is None else json.dumps(body), headers)
        reply = link.getresponse()
        return reply.status, dict((k.lower(), v) for k, v in reply.getheaders()), reply.read().decode()


def check_node(troupe, pictures):
    with tempfile.TemporaryDirectory() as folder, Node(troupe, pathlib.Path(folder)) as node:
        item, tenant = "<img src=x>", "<img/src=x/onerror=document.title='pwned'>"
        shop = json.loads((DEMO / "world" / "items.jsonl").read_text().splitlines()[0])["id"]
        node.ask(
            "PUT", "/v1/items/%3Cimg%20src%3Dx%3E", {"title": HOSTILE, "tokens": [5, 6], "identifier": 7}
        )
        node.ask("PUT", "/v1/users/eve", {"history": [item, shop]}, **{"x-troupe-tenant": tenant})
        for _ in range(20):
            status, _, text = node.ask(
                "POST",
                "/v1/rank",
                {"user": "eve", "candidates": [item, shop]},
                **{"x-troupe-tenant": tenant, "x-request-id": tenant},
            )
            if status != 200:
                expect(False, "a tenant with a hostile name is served: " + text[:120])
        status, headers, html = node.ask("GET", "/")
        expect(status == 200 and headers["content-type"] == "text/html; charset=utf-8", "GET / is a page")
        expect(
            headers["content-security-policy"] == mock_server.security_of(html),
            "its policy has the hashes of its script and style",
        )
        document, console = browser.document(f"http://127.0.0.1:{node.port}/")
        check_harmless("a single node", document, console)
        body = body_of(document)
        expect("The node is healthy." in body, "a single node: it is healthy")
        for words in ("cache", "inference", "allocator", "computing", "tokens saved", "pages of its pool"):
            expect(words in body, f"a single node: the page says {words}")
        if pictures:
            browser.shoot(f"http://127.0.0.1:{node.port}/", pictures / "page-box.png", seconds=30)


def check_node_with_keys(troupe):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        add = [troupe, "keys", "add", folder / "keys.jsonl", "--admin"]
        key = subprocess.run(add, check=True, capture_output=True, text=True).stdout.strip()
        with Node(troupe, folder, "--set", f"http.api_keys={folder / 'keys.jsonl'}") as node:
            expect(node.ask("GET", "/")[0] == 200, "with keys: GET / is the page")
            expect(node.ask("GET", "/v1/cluster")[0] == 401, "with keys: its data needs a key")
            status = node.ask("GET", "/v1/cluster", authorization="Bearer " + key)[0]
            expect(status == 200, "with keys: an admin's key opens it")
            document, _ = browser.document(f"http://127.0.0.1:{node.port}/")
            expect('<form class="card" id="login">' in document, "with keys: the page asks for one")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--troupe", required=True)
    parser.add_argument("--pictures", type=pathlib.Path, help="write pictures of the pages to this folder")
    arguments = parser.parse_args()
    if not browser.chromium():
        print("skipped: there is no chromium (apt-get install chromium)")
        return 77
    check_harmless("hostile names", *play("hostile", None))
    for kind, words in (
        ("idle", ("All 8 nodes are healthy.", "No request yet.")),
        ("busy", ("All 8 nodes are healthy.", "queue at the router", "camp-0037")),
        (
            "wounded",
            (
                "2 of 8 nodes are unhealthy: worker-2, worker-3.",
                "does not answer",
                "6.4 times as long as predicted",
                "its disk is not used",
            ),
        ),
    ):
        document, console = play(kind, arguments.pictures)
        for word in words:
            expect(word in body_of(document), f"{kind}: the page says {word}")
        expect("Uncaught" not in console, f"{kind}: the page's script runs without an error")
    check_keys()
    check_node(arguments.troupe, arguments.pictures)
    check_node_with_keys(arguments.troupe)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
