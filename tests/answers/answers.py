#!/usr/bin/env python3
"""Checks that Troupe answers what the user's own model answers (promise 21).

  tests/answers/answers.py --troupe build/deploy/troupe                                # all parts, short
  tests/answers/answers.py --troupe … --node --requests 20000 --json FILE              # one node, long
  tests/answers/answers.py --troupe … --cluster --requests 20000 --every 3 --json FILE # kills, long

Two shared rankers are served: tiny-ranker-games, which is read at a discriminant, and tiny-ranker-titles,
which is read behind each candidate. As their directories are, they declare no arrangement, so each default
answer must be that of the plain causal prompt, or of candidates apart. With forms that declare several,
requests name declared arrangements at random, by the word or by a policy. Each answer must have the
scores of the arrangement that its reply names, and this must be the named one; without a name, the form's
first or an interchangeable one.

First the plain computation of this folder (plain_model.py) is compared with golden scores (float64,
computed by the models' authors) and with itself. Random requests of 2 to 100 candidates are then compared
with it: at one node while it is cold and warm, after it was killed and started again, and while its pool
is too small for the blocks of all users; and at a cluster of three nodes that are killed in turn. Exit
status 1 on any difference; 77 if the models are not beside the checkout.
"""
import argparse
import itertools
import json
import os
import shutil
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from python_packages import SKIPPED, restart_or_skip

SHORT_KILLS, SHORT_EVERY_S = 2, 1.0
GOLDEN = 15  # golden lists with which the plain computation is compared


def check_plain(world, name, compared):
    """Compares the plain computation with golden scores, and with one prompt for each candidate."""
    from compared import largest_difference

    for user, history, candidates, arrangement, scores in itertools.islice(world.golden(), GOLDEN):
        own = dict(zip(map(str, candidates), world.expected(history, candidates, arrangement)))
        off = largest_difference(own, candidates, scores)
        compared.scores(f"plain computation, {name}", off, f"user {user}, {arrangement}")
    # A single candidate has the same prompt apart as in a plain causal one.
    for _, history, candidates, arrangement, scores in itertools.islice(world.golden(), GOLDEN):
        first = candidates[:1]
        alone = {str(first[0]): world.expected(history, first, "candidates_apart")[0]}
        causal = world.expected(history, first, "causal")
        compared.scores(f"plain computation, {name}", largest_difference(alone, first, causal), "one apart")
        # Behind each candidate a score is read, so the golden score of the first saw no other candidate.
        if name == "titles" and arrangement == "causal":
            off = largest_difference(alone, first, scores[:1])
            compared.scores(f"plain computation, {name}", off, "the first apart, golden")
    for count in (2, 20):
        history, candidates = world.draw_history(), world.random.sample(world.items, count)
        together = world.expected(history, candidates, "candidates_apart")
        for item, score in zip(candidates, together):
            alone = world.expected(history, [item], "candidates_apart")
            off = largest_difference({str(item): score}, [item], alone)
            compared.scores(f"plain computation, {name}", off, f"item {item} apart")


def run(args):
    from compared import Compared
    from killed_cluster import check_cluster
    from single_node import check_node
    from worlds import Games, Titles, write_forms

    compared, short = Compared(), not (args.node or args.cluster)
    with tempfile.TemporaryDirectory(prefix="troupe-answers-") as folder:
        forms = write_forms(folder)
        # Model, form and share of the requests.
        cases = {
            "games, undeclared": (Games, None, 0.3),
            "games, declared": (Games, forms["games"], 0.4),
            "titles, undeclared": (Titles, None, 0.15),
            "titles, declared": (Titles, forms["titles"], 0.15),
        }

        def own_folder():
            return tempfile.mkdtemp(dir=folder)

        for name, (world, form, share) in cases.items():
            if form:
                check_plain(world(form), name.split(",")[0], compared)
            if args.node or short:
                requests = int(args.requests * share)
                compared.add(check_node(args.troupe, own_folder(), world(form), name, requests))
        lacks = [program for program in ("etcd", "redis-server") if not shutil.which(program)]
        if lacks and (args.cluster or short):
            print(f"without a cluster: no {lacks[0]}")
        for name, (world, form, share) in cases.items():
            if lacks or not (args.cluster or (short and name == "games, declared")):
                continue
            worlds = lambda number: world(form, seed=number)
            kills, every = (SHORT_KILLS, SHORT_EVERY_S) if short else (args.kills, args.every)
            requests = int(args.requests * (share if args.cluster else 0.4))
            found = check_cluster(
                args.troupe, own_folder(), worlds, f"cluster, {name}", requests, kills, every
            )
            print(json.dumps(found.notes), flush=True)
            compared.add(found)
        for state in ("pulled", "evicted") if args.cluster else ():
            if not any(note.get(state) for note in compared.notes.values()):
                compared.faults.append(f"cluster: no block was {state} in any case")
    return compared


def main(argv):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--troupe", required=True)
    parser.add_argument("--requests", type=int, default=120, help="random requests in all")
    parser.add_argument("--node", action="store_true", help="one node alone, in its long form")
    parser.add_argument("--cluster", action="store_true", help="the cluster alone, in its long form")
    parser.add_argument("--kills", type=int, default=6, help="kills of each cluster, at least")
    parser.add_argument("--every", type=float, default=3, help="seconds from a restart to the next kill")
    parser.add_argument("--json", help="file for the numbers")
    args = parser.parse_args(argv)
    args.troupe = os.path.abspath(args.troupe)
    restart_or_skip("numpy")
    import worlds

    if worlds.missing():
        print(f"skipped: {worlds.missing()} is not beside the checkout")
        return SKIPPED
    import compared_test

    tests = unittest.defaultTestLoader.loadTestsFromModule(compared_test)
    if not unittest.TextTestRunner(verbosity=0).run(tests).wasSuccessful():
        return 1
    compared = run(args)
    for kind, count in compared.answers.items():
        print(f"{kind}: {count} answers, largest difference {compared.largest.get(kind, 0):.2e}")
    print("arrangements:", dict(compared.arrangements))
    print(*compared.faults[:20], sep="\n")
    if args.json:
        with open(args.json, "w") as out:
            json.dump(compared.table(), out, indent=1)
    print(f"{sum(compared.answers.values())} answers, {len(compared.faults)} differences")
    return 1 if compared.faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
