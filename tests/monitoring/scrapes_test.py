#!/usr/bin/env python3
"""Checks scrapes of real nodes with `promtool check metrics` (Debian package prometheus).

  tests/monitoring/scrapes_test.py --troupe build/deploy/troupe

Scraped are a node before its first request, a node under load of tenants, some of whose names have to be
escaped or refused, and the router and a worker of a cluster with tenants (left out, with a line, without
etcd). promtool parses each scrape as Prometheus does, and objects to names, units and types that do not
follow its conventions. Exit status 77 without promtool.
"""
import argparse
import http.client
import json
import pathlib
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
try:
    import yaml  # noqa: F401  of series.py
except ImportError:
    print("skipped: no python3-yaml")
    sys.exit(77)
sys.path += [str(pathlib.Path(__file__).parent), str(pathlib.Path(__file__).parents[1] / "bench")]
import loopback
import series
import served

ACCENTED = "café"
# Names as bytes of the header x-troupe-tenant, with the status of a ranking of a history.
TENANTS = (
    *((name, 200) for name in (b"acme", b'quo"te', b"back\\slash", ACCENTED.encode())),
    (ACCENTED.encode("latin-1"), 400),
)
BODY = {"history": ["camp-0001"], "candidates": ["camp-0002", "camp-0003"]}
wrong = []


def expect(holds, what):
    print(("ok    " if holds else "WRONG ") + what)
    if not holds:
        wrong.append(what)


def objections(scrape):
    """Returns what promtool objects to; "" = nothing."""
    done = subprocess.run([series.promtool(), "check", "metrics"], input=scrape, capture_output=True)
    said = (done.stdout + done.stderr).decode(errors="replace").strip()
    return said or (f"exit status {done.returncode}" if done.returncode else "")


def get(port, path):
    link = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    link.request("GET", path)
    text = link.getresponse().read()
    link.close()
    return text


def rank_of(port, tenant):
    """Ranks for a tenant; returns the status."""
    link = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    link.request("POST", "/v1/rank", json.dumps(BODY), {"x-troupe-tenant": tenant.decode("latin-1")})
    status = link.getresponse().status
    link.close()
    return status


def check(what, port):
    scrape = get(port, "/metrics")
    expect(scrape.count(b"\n# TYPE ") > 20, f"{what}: the scrape has metrics")
    said = objections(scrape)
    expect(not said, f"{what}: promtool objects to nothing{': ' + said if said else ''}")
    return scrape


def check_tenants(what, port):
    for tenant, status in TENANTS:
        expect(rank_of(port, tenant) == status, f"{what}: a ranking for {tenant!r} is {status}")
    scrape = check(f"{what}, with tenants", port)
    for label in (b'{tenant="acme"}', b'{tenant="quo\\"te"}', b'{tenant="back\\\\slash"}', "café".encode()):
        expect(label in scrape, f"{what}: the scrape has {label.decode()}")


def check_judge():
    """promtool finds what Prometheus would refuse, and what its conventions forbid."""
    for scrape, fault in (
        (b'a_total{tenant="caf\xe9"} 1\n', "invalid label value"),
        (b"# HELP a_us A.\n# TYPE a_us gauge\na_us 1\n", "abbreviated units"),
        (b"# HELP a A.\n# TYPE a counter\na 1\n", '"_total"'),
    ):
        expect(fault in objections(scrape), f"promtool finds: {fault}")


def check_node(troupe, folder):
    with served.Node(troupe, folder) as node:
        check("a node", node.port)
        node.rank(20)
        check_tenants("a node", node.port)


def check_cluster(troupe, folder):
    if lacks := loopback.missing():
        return print(f"left out: a cluster, this machine lacks {lacks}")
    settings = [f"model: {{directory: {served.DEMO / 'model'}}}", "pool: {memory: 64MiB}"]
    cluster = loopback.Cluster(troupe, folder, 1, settings)
    try:
        cluster.up(served.DEMO / "world")
        check_tenants("a router", cluster.http_port["front"])
        check("a worker", cluster.http_port["worker-1"])
    finally:
        cluster.end()


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--troupe", required=True, type=pathlib.Path)
    troupe = parser.parse_args().troupe.resolve()
    if not series.promtool():
        print("skipped: there is no promtool (apt-get install prometheus)")
        return 77
    check_judge()
    for part in (check_node, check_cluster):
        with tempfile.TemporaryDirectory() as folder:
            try:
                part(troupe, pathlib.Path(folder))
            except (RuntimeError, OSError) as error:
                expect(False, f"{part.__name__}: {error}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
