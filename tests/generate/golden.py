#!/usr/bin/env python3
"""Do the beams of a served generator equal those that an independent program searched?

  tests/generate/golden.py --troupe build/deploy/troupe

Serves each trained generator with its catalog, gives it the histories of the golden file's users, and asks for items by
a search as wide as the file's: the same identifiers in the same order, log-probabilities within 1e-4, those of their
tokens adding up to them, each item of an identifier. Asked twice, so that the second answer comes from cached blocks. Then the same of histories that grew: without
its newest event each is asked for, then with it, and the parts that both begin with (router.history_part=16) have to be
reused. Exit status 1 on any difference, 77 where the data is not beside the checkout.
"""
import argparse
import collections
import json
import os
import sys

from generate_box import MODELS, SKIPPED, Box, Client, data_folder, missing, model_folder, paths_of, rows

TOLERANCE = 1e-4
EVENTS_MAX = 20  # of a history that these models read


def items_by_identifier(model):
    ids = collections.defaultdict(list)
    for row in rows(os.path.join(data_folder(model), "items.tsv.gz")):
        ids[row["sid"]].append(row["item_id"])
    return ids


def identifier(tokens):
    """As the data has it: codes of 256 a level, behind four tokens of the vocabulary's own."""
    return ",".join(str(token - 4 - 256 * level) for level, token in enumerate(tokens))


def difference(reply, beams, sharing):
    found = paths_of(reply["items"])
    for (tokens, log), beam in zip(found, beams):
        if tokens != beam["tokens"]:
            return f"{tokens} where {beam['tokens']} was expected"
        if abs(log - beam["logprob"]) > TOLERANCE:
            return f"{tokens} has {log}; expected {beam['logprob']}"
    for item in reply["items"]:
        if (
            len(item["token_logprobs"]) != len(item["tokens"])
            or abs(sum(item["token_logprobs"]) - item["log_probability"]) > 1e-9
        ):
            return f"{item['tokens']} has {item['log_probability']}, and its tokens {item['token_logprobs']}"
    returned = collections.Counter(item["id"] for item in reply["items"])
    if max(returned.values()) > 1:
        return "an item twice"
    # All but the last identifier are returned with all their items.
    for tokens, _ in found[:-1]:
        if any(item not in returned for item in sharing[identifier(tokens)]):
            return f"not all items of {tokens}"
    if len(reply["items"]) != len(beams):
        return f"{len(reply['items'])} items; expected {len(beams)}"
    return ""


def check(troupe, model):
    golden = json.load(open(os.path.join(model_folder(model), "golden.json")))
    width, faults = golden["beam_width"], 0
    sharing = items_by_identifier(model)
    with Box(troupe, model) as box:
        client = Client(box.server)
        for number, case in enumerate(golden["cases"]):
            client.put_user(f"golden-{number}", case["history"])
        for number, case in enumerate(golden["cases"]):
            first, second = (
                client.generate(f"golden-{number}", width=width, top_k=width, logprobs=True) for _ in range(2)
            )
            if second["tokens_reused"] == 0:
                print(f"{model} case {number}: nothing was reused"), (faults := faults + 1)
            for name, reply in (("computed", first), ("reused", second)):
                fault = difference(reply, case["beams"], sharing)
                if fault:
                    print(f"{model} case {number}, {name}: {fault}")
                    faults += 1
    print(f"{model}: {len(golden['cases'])} cases, {faults} differences")
    return faults


def check_grown(troupe, model, part=16):
    golden = json.load(open(os.path.join(model_folder(model), "golden.json")))
    width, faults, reused = golden["beam_width"], 0, 0
    sharing = items_by_identifier(model)
    with Box(troupe, model, [f"router.history_part={part}"]) as box:
        client = Client(box.server)
        for number, case in enumerate(golden["cases"]):
            user, history, item_tokens = f"grown-{number}", case["history"], len(case["beams"][0]["tokens"])
            for events in (history[:-1], history):
                client.put_user(user, events)
                reply = client.generate(user, width=width, top_k=width, logprobs=True)
            fault = difference(reply, case["beams"], sharing)
            # Of longer histories the oldest event went, and all parts are others.
            expected = (len(history) - 1) * item_tokens // part * part if len(history) <= EVENTS_MAX else 0
            reused += expected
            if not fault and reply["tokens_reused"] < expected:
                fault = f"{reply['tokens_reused']} tokens were reused; expected {expected}"
            if fault:
                print(f"{model} case {number}, grown: {fault}")
                faults += 1
    print(f"{model}: grown histories, {reused} tokens that have to be reused, {faults} differences")
    return faults + (reused == 0)


def main(argv):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--troupe", required=True)
    args = parser.parse_args(argv)
    if missing():
        print(f"skipped: {os.path.basename(missing())} is not beside the checkout")
        return SKIPPED
    return 1 if sum(check(args.troupe, model) + check_grown(args.troupe, model) for model in MODELS) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
