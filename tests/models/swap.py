#!/usr/bin/env python3
"""Checks that a cluster changes its model under load, whole or for a share of its users, by a request to
any router.

  tests/models/swap.py --troupe build/deploy/troupe [--workers 4] [--rate 60] [--calm 10] [--kills 2]
                       [--json FILE] [--folder FOLDER]

Two front nodes (routers and cache-metas), workers, a Redis and an etcd serve the demo's ranker and have
another version of it in model.versions. Clients ask at both fronts at a steady rate. Meanwhile the other
version is loaded (share 0), given to a tenth of the users, to half, to all, and withdrawn half way in the
next round; each step at another front. The checks:

  - every answer is that of a node with the version that the answer names
  - between two steps a user has one version, the same at both fronts
  - a user with the new version at a smaller share keeps it at a larger one; at the end nobody has the old one
  - no request fails; P99 during the change is compared with P99 before, from the same clients

With --kills another round follows: a worker or a front is killed before each of the first steps and
restarted; the step begins when it is ready. Requests may then be lost or refused, but none is wrong. Exit
status 1 on any difference; 77 if etcd or Redis is missing.
"""
import argparse
import collections
import itertools
import json
import math
import pathlib
import shutil
import sys
import time

sys.dont_write_bytecode = True
import under_load
from under_load import DEMO, FRONTS, USERS, Truth, judge, loopback, percentile
from versions import make_other

RATIO_MAX = 1.3  # limit of P99 during the change over P99 before


def versions_of(outcomes):
    """Returns the versions seen, by user."""
    seen = collections.defaultdict(set)
    for _, _, kind, user, _, what in outcomes:
        if kind == "ok":
            seen[user].add(what)
    return seen


class Swaps:
    """Steps of a change of versions, each by a request to the next front, and the versions that each
    allows."""

    def __init__(self, load, http_port, hold, faults):
        self.load, self.http_port, self.hold, self.faults = load, http_port, hold, faults
        self.turn, self.steps = itertools.cycle(FRONTS), []

    def reload(self, body, victim=None):
        """Reloads; returns the outcomes of the `hold` seconds after the answer."""
        front = next(name for name in self.turn if name != victim)
        began = time.monotonic()
        status, text = loopback.ask(self.http_port[front], "POST", "/v1/models/reload", body, limit=130)
        done = time.monotonic()
        if status != 200:
            self.faults.append(f"{front} answers {body} with {status} {text}")
        time.sleep(self.hold)
        after = self.load.between(done, time.monotonic())
        self.steps.append(
            {
                "body": body,
                "front": front,
                "took_s": done - began,
                "asked_after": len(after),
                "p99_ms": percentile(self.load.between(began, done), 0.99),
                "p99_after_ms": percentile(after, 0.99),
            }
        )
        return versions_of(after)

    def expect(self, what, seen, allowed):
        """Checks that each user has one version, and that it is allowed."""
        if len(seen) < USERS // 3:
            self.faults.append(f"{what}: only {len(seen)} users were answered")
        for user, versions in seen.items():
            if len(versions) > 1 or not versions <= set(allowed):
                return self.faults.append(
                    f"{what}: {user} was answered by {sorted(versions)}; expected one of {sorted(allowed)}"
                )

    def one_way(self, old, new, shares, around=None):
        """Changes from `old` to `new` by these shares; calls `around` before each step.

        Returns the users that have the new version, by share.
        """
        had = set()
        for share in shares:
            if around:
                around()
            seen = self.reload({"model": new, "share": share})
            for front in FRONTS:
                listed = json.loads(loopback.ask(self.http_port[front], "GET", "/v1/models")[1])["data"]
                if [(model["id"], model.get("share")) for model in listed] != [(old, None), (new, share)]:
                    self.faults.append(f"share {share}: {front} lists {listed}")
            self.expect(f"share {share}", seen, {old, new} if share else {old})
            have = {user for user, versions in seen.items() if new in versions}
            missed = {user for user in had - have if user in seen}
            if missed:
                self.faults.append(
                    f"share {share}: {sorted(missed)[:3]} had the new version at a smaller share, and "
                    "lost it"
                )
            if abs(len(have) - share * len(seen)) > 4 * math.sqrt(share * (1 - share) * len(seen)):
                self.faults.append(f"share {share}: {len(have)} of {len(seen)} users have the new version")
            self.steps[-1]["have_new"] = len(have) / max(1, len(seen))
            had |= have
        return had

    def all_of_it(self, old, new, around=None):
        self.one_way(old, new, (0, 0.1, 0.5), around)
        if around:
            around()
        self.expect("all of it", self.reload({"model": new}), {new})

    def there_and_back(self, present, other):
        self.one_way(present, other, (0.3,))
        self.expect("taken back", self.reload({"model": present}), {present})


def swap_under_load(cluster, load, versions, options, faults):
    old, new = versions
    time.sleep(1.0)  # the first requests find nothing cached
    began = time.monotonic()
    time.sleep(options.calm)
    swapped = time.monotonic()
    swaps = Swaps(load, cluster.http_port, options.hold, faults)
    swaps.all_of_it(old, new)
    swaps.there_and_back(new, old)
    ended = time.monotonic()
    before, meanwhile = load.between(began, swapped), load.between(swapped, ended)
    judge("before", before, faults, lossless=True)
    counts = judge("meanwhile", meanwhile, faults, lossless=True)
    ratio = percentile(meanwhile, 0.99) / max(1e-9, percentile(before, 0.99))
    print(f"P99 meanwhile / before: {ratio:.2f} (limit on an idle machine: {RATIO_MAX})")
    for step in swaps.steps:
        print(
            f"  {step['body']['model'][:8]} {step['body'].get('share', 1)} at {step['front']}: "
            f"{step['took_s']:.2f} s, P99 {step['p99_ms']:.1f} ms, "
            f"after it {step['p99_after_ms']:.1f} ms"
            + (f", {100 * step['have_new']:.0f} % of the users have it" if "have_new" in step else "")
        )
    return {
        "before_p99_ms": percentile(before, 0.99),
        "meanwhile_p99_ms": percentile(meanwhile, 0.99),
        "ratio": ratio,
        "before": len(before),
        "meanwhile": dict(counts),
        "steps": swaps.steps,
    }


def swap_through_kills(cluster, load, versions, kills, hold, faults):
    """Changes back to the first version. Before each of the first steps a worker or a front is killed and
    restarted.

    The versions of the step before must survive that; all nodes are up when a step begins.
    """
    victims = itertools.islice(
        itertools.cycle([cluster.names[-1], FRONTS[1], cluster.names[-2], FRONTS[0]]), kills
    )
    began = time.monotonic()

    def kill():
        victim = next(victims, None)
        if victim:
            cluster.kill(victim)
            time.sleep(0.5)
            cluster.start(victim)
            cluster.wait_until_ready(victim)

    Swaps(load, cluster.http_port, hold, faults).all_of_it(versions[1], versions[0], kill)
    return dict(
        judge(f"through {kills} kills", load.between(began, time.monotonic()), faults, lossless=False)
    )


def settings_of(redis, model, folder):
    return [
        f'features: {{store: "redis://{loopback.ADDRESS}:{redis.port}", time_limit: 1s}}',
        "pool: {memory: 48MiB}",
        "inference: {executors: 1, cores: 1}",
        "router: {deadline: 3s}",
        "http: {admin_routes: true}",
        f"model: {{directory: {model}, versions: {folder}}}",
    ]


def run(options, folder):
    requests, faults = under_load.demo_requests(), []
    make_other(DEMO / "model", f"{folder}/other")
    truth = Truth(options.troupe, (DEMO / "model", f"{folder}/other"), folder, requests)
    versions = pathlib.Path(folder, "versions")
    versions.mkdir()
    shutil.copytree(DEMO / "model", versions / truth.versions[0])
    shutil.move(f"{folder}/other", versions / truth.versions[1])
    with under_load.served(
        options, folder, lambda redis: settings_of(redis, versions / truth.versions[0], versions)
    ) as cluster:
        with under_load.asked(cluster, truth, requests, options.rate) as load:
            found = swap_under_load(cluster, load, truth.versions, options, faults)
            metrics = loopback.ask(cluster.http_port[FRONTS[0]], "GET", "/metrics")[1]
            faults += [
                f"no count of answers by {version}"
                for version in truth.versions
                if f'troupe_version_answered_total{{version="{version}"}}' not in metrics
            ]
            if options.kills:
                found["through_kills"] = swap_through_kills(
                    cluster, load, truth.versions, options.kills, options.hold, faults
                )
    return found, faults


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--calm", type=float, default=10, help="seconds before the first change")
    parser.add_argument("--hold", type=float, default=3, help="seconds of observation after each step")
    parser.add_argument(
        "--kills",
        type=int,
        default=2,
        help="kills in another round; 0 = no such round",
    )
    return under_load.main(parser, run)


if __name__ == "__main__":
    sys.exit(main())
