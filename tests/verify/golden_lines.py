#!/usr/bin/env python3
"""Converts golden files of the shared models and of the demo into the form that `troupe verify` reads.

    golden_lines.py ../shared/models/tiny-ranker-games/golden.json > golden.jsonl
    golden_lines.py --named …   # all arrangements of a ranker, each line with its own; else causal alone

docs/reference/golden-form.md describes the lines. Each model's README describes its golden file.
"""
import argparse
import json
import os
import sys

# Arrangements by the names of plans in the golden files of rankers with a discriminant.
PLANS = {"up": "user_first", "ip": "item_first", "causal": "causal"}


def ranker_lines(golden, arrangement, named):
    """Yields a line for each request under an arrangement, or under all of them if they are named."""
    for request in golden["requests"]:
        who = {"user": request["user"]} if "user" in request else {"history": request["history"]}
        for plan, name in PLANS.items():
            if plan in request["plans"] and (named or name == arrangement):
                line = {
                    **who,
                    "candidates": request["candidates"],
                    "scores": request["plans"][plan]["logits"],
                }
                yield {**line, "arrangement": name} if named else line


def title_lines(golden):
    """Yields plain causal prompts with all candidates, and the logits of yes and no behind each."""
    for request in golden["requests"]:
        yield {key: request[key] for key in ("history", "candidates", "scores")}


def title_prompts(golden, yes_no):
    for request in golden["requests"]:
        logits = zip(request["score_positions"], request["yes_logits"], request["no_logits"])
        for position, *pair in logits:
            yield {"tokens": request["tokens"], "read_at": position, "rows": yes_no, "logits": pair}


def hstu_lines(golden):
    for case in golden["cases"]:
        yield {
            "history": case["item_ids"],
            "timestamps": case["timestamps"],
            "request_timestamp": case["request_timestamp"],
            "candidates": case["candidate_ids"],
            "scores": case["target_aware"]["task_logits"],
        }


def stu_lines(golden, inputs):
    """Yields the cases of the production layer that the shipped config-stu.json describes: those without
    context tokens and a window. Their inputs are those of the other golden file."""
    for case in golden["cases"]:
        if case["contextual_sequence_length"] == 0 and case["max_attention_length"] == 0:
            given = inputs["cases"][case["inputs_of_case"]]
            yield {
                "history": given["item_ids"],
                "candidates": given["candidate_ids"],
                "scores": case["task_logits"],
            }


def climber_lines(golden):
    for case in golden["cases"]:
        yield {
            "history": case["item_ids"],
            "actions": case["actions"],
            "scenario": case["scenario"],
            "candidates": case["candidate_ids"],
            "scores": [list(pair) for pair in zip(case["logits"]["click"], case["logits"]["like"])],
        }


def generator_lines(golden, first_row):
    for case in golden["cases"]:
        logits = case["last_logits_first16"]
        rows = list(range(first_row, first_row + len(logits)))
        yield {"tokens": case["prompt"], "rows": rows, "logits": logits}


def lines_of(golden, arrangement="causal", named=False, inputs=None):
    """Returns the lines of a golden file, whose members say which model's it is. `inputs`: the golden file
    that has the inputs of its cases, if it names them only."""
    if "cases" not in golden:
        is_titles = "score_positions" in golden["requests"][0]
        return list(title_lines(golden) if is_titles else ranker_lines(golden, arrangement, named))
    case = golden["cases"][0]
    if "inputs_of_case" in case:
        return list(stu_lines(golden, inputs))
    if "target_aware" in case:
        return list(hstu_lines(golden))
    if "actions" in case:
        return list(climber_lines(golden))
    return list(generator_lines(golden, 4))


def main():
    parser = argparse.ArgumentParser(description="Converts a golden file to lines for troupe verify.")
    parser.add_argument("golden")
    parser.add_argument("--arrangement", default="causal", choices=sorted(PLANS.values()))
    parser.add_argument("--named", action="store_true", help="all arrangements, each line with its own")
    options = parser.parse_args()
    with open(options.golden) as file:
        golden = json.load(file)
    inputs = None
    if "inputs_of_case" in golden.get("cases", [{}])[0]:
        with open(os.path.join(os.path.dirname(options.golden), "golden.json")) as file:
            inputs = json.load(file)
    for line in lines_of(golden, options.arrangement, options.named, inputs):
        json.dump(line, sys.stdout)
        print()


if __name__ == "__main__":
    main()
