#!/usr/bin/env python3
"""Makes outages on real nodes, and checks that each leaves its trace.

  tests/monitoring/outages_test.py --troupe build/deploy/troupe [--only disk] [--table FILE]

A trace is a line in the log at the outage's begin and one at its end, a metric, a reason in the readiness,
which is gone afterwards, and, with promtool (Debian package prometheus), the alert of
deploy/monitoring/alerts.yaml that fires on what was scraped. Outages: Redis away while a router answers as
known last; etcd away; a worker killed; a disk full (as root); a certificate that expires; a node killed.
Each is left out, with a line, where this machine lacks what it needs.
"""
import argparse
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
try:
    import yaml  # of series.py
except ImportError:
    print("skipped: no python3-yaml")
    sys.exit(77)
sys.path += [str(pathlib.Path(__file__).parent), str(pathlib.Path(__file__).parents[1] / "bench")]
import loopback
import series
import served

SOON = 25  # seconds: the watch of disks and certificates looks every ten
wrong, table = [], []


class Missing(Exception):
    """This machine lacks what an outage needs."""


def expect(holds, what):
    print(("ok    " if holds else "WRONG ") + what)
    if not holds:
        wrong.append(what)


def holds_soon(is_there, seconds=5):
    """Returns whether it is so in time: a node writes its log behind."""
    until = time.monotonic() + seconds
    while not is_there() and time.monotonic() < until:
        time.sleep(0.05)
    return is_there()


def without_disks(scrape):
    return "\n".join(line for line in scrape.splitlines() if "troupe_disk_" not in line)


def expect_alerts(what, healthy, during, wanted, beside=frozenset(), with_disks=False):
    """`healthy`: two scrapes of before; `during`: two of the outage, and the seconds between; None = gone.

    `beside`: alerts that this outage may have, besides the `wanted` ones. `with_disks`: the outage is one
    of a disk; for others, this machine's own disks, which may be full, count as healthy.
    """
    if not series.promtool():
        return print(f"      {what}: alerts are left out, there is no promtool (apt-get install prometheus)")
    nodes = [series.Node(f"10.0.0.{i}:8080", *healthy) for i in (1, 2)]
    before = series.fired(nodes)
    if during and not with_disks:
        during = (without_disks(during[0]), without_disks(during[1]), during[2])
    nodes[0].show(*during) if during else nodes[0].vanish()
    found = series.fired(nodes)
    table.append((what, ", ".join(sorted(found)) or "–"))
    expect(not before, f"{what}: no alert before{''.join(', but ' + one for one in sorted(before))}")
    expect(wanted <= found <= wanted | beside, f"{what}: {', '.join(sorted(found)) or 'no alert'} fires")


def healthy_of(metrics, load):
    load(20)
    first = metrics()
    load(40)
    return first, metrics()


def scrapes_during(metrics, load=lambda count: None):
    first, begun = metrics(), time.monotonic()
    load(5)
    time.sleep(2)
    return first, metrics(), time.monotonic() - begun


def redis_away(troupe, folder):
    if not shutil.which("redis-server"):
        raise Missing("redis-server")
    (port,) = loopback.free_ports(1)
    words = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder), "--save", ""]
    words += ["--appendonly", "yes", "--appendfsync", "always", "--maxmemory-policy", "noeviction"]
    start = lambda: subprocess.Popen(words, stdout=subprocess.DEVNULL)
    redis = start()
    try:
        time.sleep(1)
        settings = (f"features.store=redis://127.0.0.1:{port}", "features.on_outage=last_known")
        with served.Node(troupe, folder, *settings) as node:
            healthy = healthy_of(node.metrics, node.rank)
            redis.kill()
            redis.wait()
            node.until(lambda: node.degraded(), "the node is degraded")
            expect("as known last" in node.degraded()[0], "Redis away: the readiness says so")
            expect(set(node.rank(20)) == {200}, "Redis away: users that were read are ranked")
            expect(len(node.events("features_away")) == 1, "Redis away: features_away is logged once")
            during = scrapes_during(node.metrics, node.rank)
            expect_alerts("Redis away", healthy, during, {"TroupeFeaturesStale", "TroupeStoreRefuses"})
            put = node.ask("PUT", "/v1/users/new", {"history": ["camp-0001"]})[0]
            node.until(lambda: node.events("writes_fail"), "writes_fail is logged")
            expect(put == 503, "Redis away: a write is refused, and writes_fail is logged")
            during = scrapes_during(node.metrics)
            wanted = {"TroupeFeaturesStale", "TroupeStoreRefuses", "TroupeWritesFail"}
            expect_alerts("Redis away, a write", healthy, during, wanted)
            redis = start()
            node.until(lambda: node.events("features_back"), "features_back is logged")
            node.until(
                lambda: node.ask("PUT", "/v1/users/new", {"history": ["camp-0001"]})[0] == 200,
                "a write succeeds",
            )
            node.until(lambda: node.degraded() == [], "the readiness names no reason any more")
            expect(node.events("writes_succeed") != [], "Redis back: writes_succeed is logged")
    finally:
        redis.kill()
        redis.wait()


def make_certificate(folder, life, left):
    """Makes the server's key and certificate, for `life` days, of which `left` are left."""
    work = pathlib.Path(tempfile.mkdtemp(dir=folder))
    (work / "index").touch()
    (work / "serial").write_text("01")
    (work / "config").write_text(
        f"[ca]\ndefault_ca=d\n[d]\ndatabase={work}/index\nserial={work}/serial\nnew_certs_dir={work}\n"
        "default_md=sha256\npolicy=p\n[p]\ncommonName=supplied\n"
    )
    day = lambda days: time.strftime("%Y%m%d%H%M%SZ", time.gmtime(time.time() + 86400 * days))
    key, request = folder / "http.key", work / "request"
    make = ["openssl", "req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    make += ["-subj", "/CN=localhost", "-keyout", key, "-out", request]
    sign = ["openssl", "ca", "-batch", "-selfsign", "-notext", "-config", work / "config", "-keyfile", key]
    sign += ["-in", request, "-out", folder / "http.pem"]
    sign += ["-startdate", day(left - life), "-enddate", day(left + 0.01)]
    for words in (make, sign):
        subprocess.run(words, check=True, capture_output=True)


def certificate_expires(troupe, folder):
    if not shutil.which("openssl"):
        raise Missing("openssl")
    make_certificate(folder, 100, 90)
    settings = (f"http.tls_certificate={folder / 'http.pem'}", f"http.tls_key={folder / 'http.key'}")
    with served.Node(troupe, folder, *settings, tls=True) as node:
        healthy = healthy_of(node.metrics, node.rank)
        expect(node.degraded() == [], "certificate: no reason before")
        make_certificate(folder, 100, 5)
        node.process.send_signal(signal.SIGHUP)
        node.until(lambda: node.degraded(), "the node is degraded", SOON)
        expect("the certificate of http expires" in node.degraded()[0], "certificate: the readiness says so")
        expect(len(node.events("certificate_expires")) == 1, "certificate: certificate_expires is logged")
        during = scrapes_during(node.metrics, node.rank)
        expect_alerts("certificate", healthy, during, {"TroupeCertificateExpires"})
        make_certificate(folder, 100, 90)
        node.process.send_signal(signal.SIGHUP)
        node.until(lambda: node.degraded() == [], "the readiness names no reason any more", SOON)
        expect(node.events("certificate_renewed") != [], "certificate: certificate_renewed is logged")


def disk_full(troupe, folder):
    disk = folder / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256m", "tmpfs", disk], capture_output=True)
    if mounted.returncode != 0:
        raise Missing("the right to mount a file system")
    try:
        with served.Node(troupe, folder, data=disk / "data") as node:
            healthy = healthy_of(node.metrics, node.rank)
            expect(node.degraded() == [], "disk: no reason before")
            subprocess.run(["dd", "if=/dev/zero", f"of={disk / 'filler'}", "bs=1M"], capture_output=True)
            put = lambda: node.ask("PUT", "/v1/users/new", {"history": ["camp-0001"]})
            node.until(lambda: put()[0] == 503, "writes fail")
            expect("storage_failed" in put()[1], "disk: a write is 503 storage_failed")
            node.until(lambda: node.events("disk_filling"), "disk_filling is logged", SOON)
            reasons = " ".join(node.degraded(with_disk=True))
            expect(
                "writes of profiles and items fail: storage_failed" in reasons, "disk: the readiness says so"
            )
            expect("the disk of" in reasons, "disk: the readiness names the disk")
            expect(len(node.events("writes_fail")) == 1, "disk: writes_fail is logged once")
            expect(set(node.rank(10)) == {200}, "disk: requests are answered")
            during = scrapes_during(node.metrics, node.rank)
            wanted, beside = {"TroupeWritesFail", "TroupeDiskFilling"}, {
                "TroupeRefuses",
                "TroupeBlocksNotSaved",
            }
            expect_alerts("disk", healthy, during, wanted, beside, with_disks=True)
            (disk / "filler").unlink()
            node.until(lambda: node.events("disk_has_space"), "disk_has_space is logged", SOON)
    finally:
        subprocess.run(["umount", disk], check=True)


def node_killed(troupe, folder):
    with served.Node(troupe, folder) as node:
        healthy = healthy_of(node.metrics, node.rank)
        node.process.kill()
        node.process.wait()
    expect_alerts("a node killed", healthy, None, {"TroupeNodeDown"})


def cluster_loses(troupe, folder):
    """A worker is killed and started again, and then etcd."""
    if lacks := loopback.missing():
        raise Missing(lacks)
    versions = folder / "versions"  # with it, a router reads in etcd which version it is to serve
    versions.mkdir()
    model = f"model: {{directory: {served.DEMO / 'model'}, versions: {versions}}}"
    settings = [model, "pool: {memory: 64MiB}"]
    cluster = loopback.Cluster(troupe, folder, 2, settings)
    router = cluster.http_port["front"]
    metrics = lambda: loopback.ask(router, "GET", "/metrics")[1]
    body = {"user": "ana", "candidates": ["camp-0001", "camp-0002"]}
    load = lambda count: [loopback.ask(router, "POST", "/v1/rank", body) for _ in range(count)]
    ready = lambda: loopback.ask(router, "GET", "/v2/health/ready")
    logged = lambda event: holds_soon(lambda: f'"event":"{event}"' in (folder / "front.log").read_text())
    try:
        cluster.up(served.DEMO / "world")
        healthy = healthy_of(metrics, load)
        cluster.kill("worker-2")
        cluster.wait("the loss is told", lambda: "workers are lost: node 3" in ready()[1])
        expect(ready()[0] == 200, "a worker killed: the router is ready, and degraded")
        expect(logged("worker_lost"), "a worker killed: worker_lost is logged")
        beside = {"TroupeLinks"}  # messages to it are lost until the router notices
        during = scrapes_during(metrics, load)
        expect_alerts("a worker killed", healthy, during, {"TroupeWorkerLost"}, beside)
        cluster.start("worker-2")
        cluster.wait("the worker is back", lambda: "lost" not in ready()[1] and ready()[0] == 200)
        expect(logged("worker_back"), "a worker back: worker_back is logged")
        cluster.kill("etcd")
        cluster.wait("the loss is told", lambda: "cannot be read" in ready()[1])
        expect(logged("coordination_unavailable"), "etcd away: coordination_unavailable is logged")
        expect_alerts("etcd away", healthy, scrapes_during(metrics, load), {"TroupeStoreRefuses"})
    finally:
        cluster.end()


OUTAGES = {
    "redis": redis_away,
    "certificate": certificate_expires,
    "disk": disk_full,
    "node": node_killed,
    "cluster": cluster_loses,
}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--troupe", required=True, type=pathlib.Path)
    parser.add_argument("--only", choices=OUTAGES)
    parser.add_argument("--table", type=pathlib.Path, help="write the outages and the alerts that fired")
    arguments = parser.parse_args()
    made = 0
    for name, outage in OUTAGES.items():
        if arguments.only not in (None, name):
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                outage(arguments.troupe.resolve(), pathlib.Path(folder))
                made += 1
            except Missing as lacks:
                print(f"left out: {name}, this machine lacks {lacks}")
            except (RuntimeError, OSError) as error:
                expect(False, f"{name}: {error}")
    if arguments.table:
        rows = "".join(f"| {outage} | {alerts} |\n" for outage, alerts in table)
        arguments.table.write_text("| outage | alerts that fired |\n| --- | --- |\n" + rows)
    return 1 if wrong else 0 if made else 77


if __name__ == "__main__":
    sys.exit(main())
