#!/usr/bin/env python3
"""Does a cluster change its model while it is asked, as a whole and for a share of its users, by a request to any of its routers?

  tests/models/swap.py --troupe build/deploy/troupe [--workers 4] [--rate 60] [--calm 10] [--kills 2] [--json FILE] [--folder FOLDER]

Two front nodes (routers and cache-metas) and workers, a Redis and an etcd, serve the demo's ranker and have another version of it in
model.versions. While clients ask at both fronts at a steady rate, the other version is loaded beside (share 0), given to a tenth of
the users, to half, to all, and taken back half way the next time, each step at another front. Every answer has to be what a box
with that version answers; a user has one version between two steps, the same at both fronts, and who had the new one at a smaller
share has it at a larger one; after all of it nobody has the old one. No request fails, and none waits long: P99 meanwhile beside
the P99 before, which are read from the same clients. With --kills a worker or a front is killed before each of the first
steps of another round, and started again; the step begins when it is ready. Then requests may be lost or refused, and none is wrong.
Exit status 1 on any difference, 77 where etcd or Redis is not there.
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

RATIO_MAX = 1.3  # of P99 meanwhile and before


def versions_of(outcomes):
    """By user."""
    seen = collections.defaultdict(set)
    for _, _, kind, user, _, what in outcomes:
        if kind == "ok":
            seen[user].add(what)
    return seen


class Swaps:
    """Steps of a change of versions, each by a request to the next front, and what each may show."""

    def __init__(self, load, door, hold, faults):
        self.load, self.door, self.hold, self.faults = load, door, hold, faults
        self.turn, self.steps = itertools.cycle(FRONTS), []

    def reload(self, body, victim=None):
        """Answered, and what was asked for `hold` seconds after it."""
        front = next(name for name in self.turn if name != victim)
        began = time.monotonic()
        status, text = loopback.ask(self.door[front], "POST", "/v1/models/reload", body, limit=130)
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
        """Each user has one version, which is allowed."""
        if len(seen) < USERS // 3:
            self.faults.append(f"{what}: only {len(seen)} users were answered")
        for user, versions in seen.items():
            if len(versions) > 1 or not versions <= set(allowed):
                return self.faults.append(
                    f"{what}: {user} was answered by {sorted(versions)}; expected one of {sorted(allowed)}"
                )

    def one_way(self, old, new, shares, around=None):
        """From the old version to the new one by these shares; `around`: what is done before each step. Who has the new one, by share."""
        had = set()
        for share in shares:
            if around:
                around()
            seen = self.reload({"model": new, "share": share})
            for front in FRONTS:
                listed = json.loads(loopback.ask(self.door[front], "GET", "/v1/models")[1])["data"]
                if [(model["id"], model.get("share")) for model in listed] != [(old, None), (new, share)]:
                    self.faults.append(f"share {share}: {front} lists {listed}")
            self.expect(f"share {share}", seen, {old, new} if share else {old})
            have = {user for user, versions in seen.items() if new in versions}
            missed = {user for user in had - have if user in seen}
            if missed:
                self.faults.append(
                    f"share {share}: {sorted(missed)[:3]} had the new version at a smaller share, and have it no more"
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
    time.sleep(1.0)  # the first ones find nothing cached
    began = time.monotonic()
    time.sleep(options.calm)
    swapped = time.monotonic()
    swaps = Swaps(load, cluster.door, options.hold, faults)
    swaps.all_of_it(old, new)
    swaps.there_and_back(new, old)
    ended = time.monotonic()
    before, meanwhile = load.between(began, swapped), load.between(swapped, ended)
    judge("before", before, faults, lossless=True)
    counts = judge("meanwhile", meanwhile, faults, lossless=True)
    ratio = percentile(meanwhile, 0.99) / max(1e-9, percentile(before, 0.99))
    print(
        f"P99 meanwhile / before: {ratio:.2f} (to be at most {RATIO_MAX} on a machine that does nothing else)"
    )
    for step in swaps.steps:
        print(
            f"  {step['body']['model'][:8]} {step['body'].get('share', 1)} at {step['front']}: {step['took_s']:.2f} s, P99 {step['p99_ms']:.1f} ms, "
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
    """Back to the first version, while a worker or a front is killed before each of the first steps and started again, so that the
    versions of the step before outlive it; nobody is away when a step begins."""
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

    Swaps(load, cluster.door, hold, faults).all_of_it(versions[1], versions[0], kill)
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
            metrics = loopback.ask(cluster.door[FRONTS[0]], "GET", "/metrics")[1]
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
    parser.add_argument("--hold", type=float, default=3, help="seconds that each step is looked at")
    parser.add_argument(
        "--kills", type=int, default=2, help="of workers and fronts, in another round; 0: no such round"
    )
    return under_load.main(parser, run)


if __name__ == "__main__":
    sys.exit(main())
