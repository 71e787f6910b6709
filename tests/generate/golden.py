#!/usr/bin/env python3
"""Checks that the beams of a served generator equal those that an independent program searched.

  tests/generate/golden.py --troupe build/deploy/troupe

Serves each trained generator with its catalog, stores the histories of the golden file's users, and
requests items with the file's beam width. The identifiers must be the same in the same order, with
log-probabilities within 1e-4. The log-probabilities of the tokens must add up to those of the item, and
all items of an identifier must be there. Each request is sent twice, so that the second answer uses
cached blocks. Then the same with histories that grew: each is requested without its newest event, then
with it; the parts that both share (router.history_part=16) must be reused. Exit status 1 on any
difference; 77 if the data is not beside the checkout.
"""
import argparse
import collections
import json
import os
import sys

from generate_node import MODELS, SKIPPED, Node, Client, data_folder, missing, model_folder, paths_of, rows

TOLERANCE = 1e-4
EVENTS_MAX = 20  # maximum events of a history that these models read


def items_by_identifier(model):
    ids = collections.defaultdict(list)
    for row in rows(os.path.join(data_folder(model), "items.tsv.gz")):
        ids[row["sid"]].append(row["item_id"])
    return ids


def identifier(tokens):
    """Returns the identifier in the data's form: codes of 256 a level, after four tokens of the
    vocabulary."""
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
    with Node(troupe, model) as node:
        client = Client(node.server)
        for number, case in enumerate(golden["cases"]):
            client.put_user(f"golden-{number}", case["history"])
        for number, case in enumerate(golden["cases"]):
            first, second = (
                client.generate(f"golden-{number}", width=width, top_k=width, logprobs=True) for _ in range(2)
            )
            if second["tokens_reused"] == 0:
                print(f"{model} case {number}: nothing was reused"), (faults := faults + 1)
            own = client.generate(
                history=[str(item) for item in case["history"]], width=width, top_k=width, logprobs=True
            )
            if own["tokens_reused"] != second["tokens_reused"]:
                print(f"{model} case {number}: a history in the request reused {own['tokens_reused']} tokens")
                faults += 1
            for name, reply in (("computed", first), ("reused", second), ("in the request", own)):
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
    with Node(troupe, model, [f"router.history_part={part}"]) as node:
        client = Client(node.server)
        for number, case in enumerate(golden["cases"]):
            user, history, item_tokens = f"grown-{number}", case["history"], len(case["beams"][0]["tokens"])
            for events in (history[:-1], history):
                asker = {"history": [str(item) for item in events]}  # of every other case in the request
                if number % 2 == 0:
                    client.put_user(user, events)
                    asker = {"user": user}
                reply = client.generate(**asker, width=width, top_k=width, logprobs=True)
            fault = difference(reply, case["beams"], sharing)
            # A longer history loses its oldest event, so that none of its parts is the same.
            expected = (len(history) - 1) * item_tokens // part * part if len(history) <= EVENTS_MAX else 0
            reused += expected
            if not fault and reply["tokens_reused"] < expected:
                fault = f"{reply['tokens_reused']} tokens were reused; expected {expected}"
            if fault:
                print(f"{model} case {number}, grown: {fault}")
                faults += 1
    print(f"{model}: grown histories, {reused} tokens had to be reused, {faults} differences")
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
