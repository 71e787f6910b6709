#!/usr/bin/env python3
"""Checks that a served Climber model answers over HTTP what an independent program computed.

  tests/model_families/climber_golden.py --troupe build/deploy/troupe

Serves tiny-climber with MovieLens imported, stores the users of its golden file with their actions, and
ranks: both tasks of each candidate must be within 1e-4 of their logits. Each request is answered
computed, from cached blocks (which must reuse the whole history), and by the other task (which must set
the order). Another scenario must reuse nothing. A user whose towers are not full must keep its whole
blocks when it grows. A request that does not wait for a profile is answered without it first. All this is
repeated with the item embedding in its file (`model.tables: mapped`) and few of its rows in the pool.
Exit status 1 on any difference; 77 if the data is not beside the checkout.
"""
import argparse
import importlib.util
import json
import os
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
spec = importlib.util.spec_from_file_location("hstu_golden", os.path.join(HERE, "..", "hstu", "golden.py"))
hstu = importlib.util.module_from_spec(spec)
spec.loader.exec_module(hstu)
MODEL = os.path.join(hstu.MODELS, "tiny-climber")
BLOCK = 16


def put(node, user, case):
    history = [str(item) for item in case["item_ids"]]
    features = [{"name": "actions", "values": case["actions"]}]
    node.send("PUT", f"/v1/users/{user}", {"history": history, "features": features})


def rank(node, user, case, **more):
    """user: an id; None = the case's history in the request."""
    asker = {"user": user}
    if user is None:
        asker = {"history": [str(item) for item in case["item_ids"]], "actions": case["actions"]}
    candidates = list(dict.fromkeys(str(item) for item in case["candidate_ids"]))
    body = {**asker, "candidates": candidates, "scenario": case["scenario"], **more}
    return node.send("POST", "/v1/rank", body)


def worst(reply, case):
    most = 0.0
    for t, task in enumerate(reply["tasks"]):
        wanted = dict(zip((str(item) for item in case["candidate_ids"]), case["logits"][task]))
        most = max([most] + [abs(item["task_scores"][t] - wanted[item["id"]]) for item in reply["items"]])
    return most


def check_case(node, number, case, faults):
    user, expect = f"golden-{number}", lambda right, what: right or faults.append(f"case {number}: {what}")
    put(node, user, case)
    computed = rank(node, user, case, policy="recompute")
    first, second = rank(node, user, case), rank(node, user, case)
    liked, own = rank(node, user, case, task="like"), rank(node, None, case)
    events = sum(case["subsequence_lengths"])
    expect(
        first["plan"] == "towers" and first["tasks"] == ["click", "like"],
        f"plan {first['plan']}, tasks {first['tasks']}",
    )
    expect(first["tokens_total"] == events + len(first["items"]), f"{first['tokens_total']} tokens")
    expect(
        computed["tokens_reused"] == 0 and second["tokens_reused"] == events,
        f"reused {computed['tokens_reused']} and {second['tokens_reused']} of {events}",
    )
    expect(own["tokens_reused"] == events, f"a history in the request reused {own['tokens_reused']} tokens")
    for reply, task in ((second, 0), (liked, 1)):
        scores = [item["score"] for item in reply["items"]]
        expect(
            scores == sorted(scores, reverse=True)
            and scores == [item["task_scores"][task] for item in reply["items"]],
            "not ordered by the requested task",
        )
    cached = {item["id"]: item["task_scores"] for item in second["items"]}
    apart = max(
        abs(a - b) for item in computed["items"] for a, b in zip(item["task_scores"], cached[item["id"]])
    )
    return max(worst(reply, case) for reply in (computed, first, second, liked, own)), apart


def check_more(node, cases, faults):
    case = cases[0]
    apart = {
        **case,
        "item_ids": case["item_ids"][1:61],
        "actions": case["actions"][1:61],
    }  # no other case has it
    put(node, "scenarios", apart)
    reused = [
        rank(node, "scenarios", {**apart, "scenario": scenario})["tokens_reused"] for scenario in (0, 1, 0, 1)
    ]
    if reused[:2] != [0, 0] or not reused[2] == reused[3] > 60:
        faults.append(f"two scenarios reused {reused} tokens")
    short = {**case, "item_ids": case["item_ids"][:40], "actions": [5] * 40}
    put(node, "grows", short)
    rank(node, "grows", short)
    grown = {**short, "item_ids": case["item_ids"][:43], "actions": [5] * 43}
    put(node, "grows", grown)
    reused = rank(node, "grows", grown)["tokens_reused"]
    if reused != 2 * (40 // BLOCK) * BLOCK:
        faults.append(f"a history that has grown reused {reused} tokens")
    body = {"user": "golden-0", "candidates": ["1"]}
    for path, more, code in (
        ("/v1/rank", {"scenario": 2}, "bad_scenario"),
        ("/v1/rank", {"task": "buy"}, "unknown_task"),
    ):
        status, reply = node.ask("POST", path, {**body, **more})
        if status != 400 or reply["error"]["code"] != code:
            faults.append(f"{more}: {status} {reply}")
    status, reply = node.ask(
        "POST", "/v1/score", {"query": [1], "items": [{"tokens": [2]}], "label_tokens": [3]}
    )
    if status != 422 or reply["error"]["code"] != "not_a_scorer":
        faults.append(f"scores of labels: {status} {reply}")
    status, reply = node.ask(
        "PUT", "/v1/users/none", {"history": ["1"], "features": [{"name": "actions", "values": [6]}]}
    )
    if status != 422 or reply["error"]["code"] != "bad_feature":
        faults.append(f"an action that the model does not know: {status} {reply}")
    check_behind(node, cases[0], faults)
    known = node.send("POST", "/v1/rank", {"user": "1", "candidates": ["50", "181", "1682"]})
    if (
        known["tokens_total"] != 64 + 64 + 3
    ):  # of 272 imported ratings the last 64, and the last 64 of four and five
        faults.append(f"an imported user's ranking: {known}")


def check_behind(node, case, faults):
    """Checks that a request that does not wait is answered without a profile first, and soon with it."""
    put(node, "behind", case)
    first = rank(node, "behind", case, features="behind")
    if (first["features_missing"], first["profile_version"], first["tokens_total"]) != (
        1,
        0,
        len(first["items"]),
    ):
        faults.append(f"expected an answer without a profile: {first}")
    for _ in range(500):
        later = rank(node, "behind", case, features="behind")
        if not later["features_missing"]:
            break
        time.sleep(0.01)
    if later["features_missing"] or later["features_stale"] or worst(later, case) > hstu.TOLERANCE:
        faults.append(f"expected the profile that was read in the background: {later}")
    status, reply = node.ask("POST", "/v1/rank", {"user": "behind", "candidates": ["1"], "features": "new"})
    if status != 400 or reply["error"]["code"] != "unknown_freshness":
        faults.append(f"an unknown feature mode: {status} {reply}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--troupe", required=True)
    troupe = parser.parse_args().troupe
    for folder in (MODEL, hstu.MOVIES):
        if not os.path.isdir(folder):
            print("skipped: no", folder)
            return hstu.SKIPPED
    with open(os.path.join(MODEL, "golden.json")) as file:
        cases = json.load(file)["cases"]
    faults = []
    for tables in ((), ("model.tables=mapped", "pool.memory=8MiB", "pool.row_share=0.02")):
        differences = []
        with hstu.Node(troupe, MODEL, hstu.MOVIES, [f"router.history_part={BLOCK}", *tables]) as node:
            for number, case in enumerate(cases):
                differences.append(check_case(node, number, case, faults))
            check_more(node, cases, faults)
            if tables:
                faults += hstu.check_rows(node, int(node.metrics()['troupe_pages{kind="row"}']))
        golden, cached = (max(pair[i] for pair in differences) for i in (0, 1))
        if golden > hstu.TOLERANCE or cached > hstu.TOLERANCE:
            faults.append("a difference is too large")
        print(
            f"{' '.join(tables) or 'tables in memory'}: {len(cases)} cases, largest difference "
            f"{golden:.2g}; cached from computed {cached:.2g}"
        )
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
