#!/usr/bin/env python3
"""Checks that the printed figures of a benchmark agree with its JSON: agree.py WHAT JSON TABLE

Measured figures cannot be in a golden file, but their relations can. Reads the JSON and the table of the
same run, prints each cell that differs from the JSON, and prints figures that are equal on every machine:
counts, and quotients in which the machine's pace cancels.
"""
import json
import math
import re
import sys


class Printed:
    """The text and its tables: each a header and a list of rows of cells. A line of dashes marks a table."""

    def __init__(self, text):
        self.text, self.tables = text, []
        lines = text.split("\n")
        for number, line in enumerate(lines):
            if not re.fullmatch(r"-+(  +-+)*", line.strip()) or number == 0 or "-" not in line:
                continue
            spans = [match.span() for match in re.finditer(r"-+", line)]
            rows = []
            for row in lines[number + 1 :]:
                if not row.strip():
                    break
                rows.append([row[begin:end].strip() for begin, end in spans])
            self.tables.append((([lines[number - 1][begin:end].strip() for begin, end in spans]), rows))


wrong = []


def expect(where, is_, *should):
    """Compares cells with the expected ones; None = any."""
    for number, (cell, due) in enumerate(zip(is_, should)):
        if due is not None and cell != due:
            wrong.append(f"{where}: cell {number} is {cell!r}, expected {due!r}")
    if len(is_) != len(should):
        wrong.append(f"{where}: {len(is_)} cells, expected {len(should)}")


def close(where, left, right, what):
    if not math.isclose(left, right, rel_tol=1e-6, abs_tol=1e-9):
        wrong.append(f"{where}: {what}: {left} and {right}")


def percent(share):
    return f"{100 * share:.1f} %"


def peer_line(all_, run, name):
    """Returns the line of a peer that did the work of one of our runs, or None."""
    first = run["workload"].split()[0].rstrip(",")
    for line in all_["runs"]:
        if (line["engine"], line["shape"], line["threads"]) != (name, run["shape"], run["threads"]):
            continue
        if line["workload"].split()[0] == first and (
            first != "prefill" or line["workload"] == run["workload"]
        ):
            return line
    return None


def width_of(name):
    """Returns the width of the weights that a peer's name ends with."""
    return {"f32": "f32", "f16": "16-bit", "bf16": "16-bit"}.get(name.split()[-1], "int8")


def width_cells(run, names, lines):
    widths = list(dict.fromkeys(map(width_of, names)))
    cells = []
    for width in widths if len(widths) > 1 else []:
        paces = [
            line["tokens_per_cpu_second"]
            for name, line in zip(names, lines)
            if line and width_of(name) == width
        ]
        cells.append(f"{run['tokens_per_cpu_second'] / max(paces):.2f}" if paces else "")
    return cells


def peers_cells(all_, run, names):
    """Returns the expected cells about peers in the line of one of our runs."""
    if not names:
        return []
    lines = [peer_line(all_, run, name) for name in names]
    cells = [
        cell
        for line in lines
        for cell in (
            (f"{line['tokens_per_cpu_second']:.0f}", f"{100 * line['share_of_fma']:.1f}")
            if line
            else ("failed", "")
        )
    ]
    there = [line for line in lines if line]
    if not there:
        return cells + ["", "", "", *width_cells(run, names, lines)]
    best = max(there, key=lambda line: line["tokens_per_cpu_second"])
    ratio = run["tokens_per_cpu_second"] / best["tokens_per_cpu_second"]
    close(run["workload"], run["ratio_to_best_peer"], ratio, "over the best peer")
    close(
        run["workload"],
        run["ratio_at_equal_fma"],
        ratio * best["fma_gflops"] / run["fma_gflops"],
        "at equal multiply-adds",
    )
    cells += [
        f"{ratio:.2f}",
        f"{run['ratio_at_equal_fma']:.2f}",
        f"{min(line['wall_ms'] for line in there):.1f}",
    ]
    return cells + width_cells(run, names, lines)


def floor_of(run):
    """Returns the tokens per CPU-second of the floor, from the operations and the sampled rates."""
    share = 0.6 if run["weights"] == "int8" else 0.9
    work = run["operations"]
    seconds = (
        work["linear"] / (share * run["linear_gflops"])
        + work["attention"] / (0.8 * run["attention_gflops"])
        + work["logits"] / (0.8 * run["fma_gflops"])
    )
    return run["tokens"] / seconds * 1e9


def engine_rates(all_, run, row, peers, ratio):
    where = run["workload"]
    pace, ideal = run["tokens_per_cpu_second"], run["ideal_tokens_per_cpu_second"]
    expect(
        where,
        row,
        *engine_names(run),
        f"{pace:.0f}",
        f"{run['best_tokens_per_cpu_second']:.0f}",
        f"{run['gflops']:.1f}",
        f"{run['fma_gflops']:.1f}",
        f"{100 * run['share_of_fma']:.1f}",
        f"{run['wall_ms']:.1f}",
        *([f"{run['ratio_to_f32']:.2f}"] if ratio else []),
        *peers_cells(all_, run, peers),
        f"{ideal:.0f}",
        f"{100 * pace / ideal:.1f}",
    )
    if run["rounds"] == 1:
        close(where, ideal, floor_of(run), "floor")
        close(where, run["share_of_fma"], run["gflops"] / run["fma_gflops"], "share of multiply-adds")
        close(where, pace, run["best_tokens_per_cpu_second"], "best of one round")
    elif run["best_tokens_per_cpu_second"] < pace:
        wrong.append(f"{where}: the best round is slower than the median")
    if not 0.5 < run["wall_ms"] / run["cpu_ms"] < 50:
        wrong.append(f"{where}: {run['wall_ms']} ms by the clock, {run['cpu_ms']} of CPU")


def engine_names(run):
    return [run["shape"], str(run["threads"]), run["workload"], run["weights"], run["kv"]]


def engine_parts(run, row):
    names = ["linear", "attention", "readout", "elementwise", "keys_values", "embedding", "planning"]
    rest = 1 - sum(run["parts"][name] for name in names)
    expect(
        run["workload"] + ", parts",
        row,
        *engine_names(run),
        *(f"{100 * run['parts'][name]:.1f}" for name in names),
        f"{100 * rest:.1f}".replace("-0.0", "0.0"),
    )
    if not -0.02 < rest < 0.3:
        wrong.append(f"{run['workload']}: {rest} of the time belongs to no part")


def engine_memory(run):
    weights, resident = run["weight_bytes"], run["resident_bytes"]
    return (
        f"{run['shape']}, {run['threads']} threads, {run['weights']}: weights {weights / 1e6:.1f} MB as "
        f"float32, resident once loaded {resident / 1e6:.1f} MB ({resident / weights:.2f} ×)"
    )


def engine(all_, printed):
    (head, rates), (_, shares), (_, versions) = printed.tables
    runs = [run for run in all_["runs"] if run["engine"] == "troupe"]
    ratio = "× f32" in head
    first = head.index("wall ms") + 1 + ratio
    peers = head[first : head.index("× best peer") : 2] if "× best peer" in head else []
    for run, row, parts in zip(runs, rates, shares, strict=True):
        engine_rates(all_, run, row, peers, ratio)
        engine_parts(run, parts)
        gops = ", ".join(
            f"{run['operations'][name] * 1e-9:.4f}" for name in ("linear", "attention", "logits")
        )
        print(
            f"{run['workload']}, {run['weights']}, {run['kv']}: {run['tokens']:.0f} tokens, Gop of linear "
            f"layers, attention, logits: {gops}"
        )
    for row in versions:
        run = next(run for run in runs if [run["weights"], run["kv"]] == row[:2])
        names = [
            run[f"{part}_{name}"] for part in ("linear", "attention") for name in ("version", "instruction")
        ]
        expect("versions", row, *row[:2], *names[:2], None, *names[2:], None)
    due = [engine_memory(run) for run in runs]
    due += [f"  {run['engine']}: {run['failure']}" for run in all_["failures"]]
    wrong.extend(f"expected {line!r}" for line in dict.fromkeys(due) if line not in printed.text)
    print(
        f"weights of {runs[0]['weight_bytes']} bytes; peers: {', '.join(peers) or 'none'}; failed: "
        f"{', '.join(run['engine'] for run in all_['failures']) or 'none'}"
    )


def generate(all_, printed):
    ((_, rows),) = printed.tables
    for run, row in zip(all_["runs"], rows, strict=True):
        expect(
            run["engine"],
            row,
            run["engine"],
            run["normalised"],
            *(f"{run[name]:.2f}" for name in ("qps", "p50_ms", "p99_ms", "cpu_ms")),
            percent(run["attention_share_of_fma"]),
            f"{run['kv_bytes_peak'] * 1e-6:.2f}",
            str(run["returned_items"]),
            str(run["invalid_items"]),
            str(run["duplicate_items"]),
            "" if run["recall_at_10"] is None else f"{run['recall_at_10']:.4f}",
        )
        parts = run["cpu_ms_by_part"]
        cpu = run["cpu_ms"] * run["requests"]
        close(run["engine"], run["search_share_of_cpu"], parts["search"] / cpu, "share of the search")
        if not 0.5 < sum(parts.values()) / cpu < 1.1:
            wrong.append(f"{run['engine']}: parts are {sum(parts.values())} of {cpu} ms")
        if run["requests"] == 1:
            close(run["engine"], run["p50_ms"], run["p99_ms"], "of one request")
            close(run["engine"], run["p50_ms"], 1e3 / run["qps"], "of one request")
        elif (
            not 1e3 / run["qps"] / run["requests"]
            <= run["p50_ms"]
            <= run["p99_ms"]
            <= 1e3 * run["requests"] / run["qps"]
        ):
            wrong.append(f"{run['engine']}: {run['p50_ms']}, {run['p99_ms']} ms at {run['qps']} a second")
        print(
            f"{run['engine']}: attention of "
            f"{run['attention_share_of_fma'] * run['fma_gflops'] * parts['attention'] / 1e3:.5f} Gop, "
            f"keys and values of {run['kv_bytes_peak']} bytes, masks of {run['mask_bytes']}"
        )


def found(hit, computed):
    return f"{hit / (hit + computed):.3f}" if hit + computed else "-"


def rank(all_, printed):
    head, rows = printed.tables[0]
    due = (
        f"item blocks {all_['item_bytes'] // 1000000} MB, user blocks {all_['user_bytes'] // 1000000} "
        "MB, key-value memory "
        f"{all_['pool_bytes'] // 1000000} MB"
    )
    if due not in printed.text:
        wrong.append(f"expected {due!r}")
    for number, (run, row) in enumerate(zip(all_["runs"], rows[: len(all_["runs"])], strict=True)):
        users = found(run["user_blocks_hit"], run["user_blocks_computed"]) if run["plans_user"] else "-"
        items = found(run["item_blocks_hit"], run["item_blocks_computed"]) if run["plans_item"] else "-"
        quality = (
            [f"{run[name]:.4f}" for name in ("recall_at_10", "ndcg_at_10")] if "recall@10" in head else []
        )
        expect(
            run["policy"],
            row,
            run["policy"],
            str(run["requests"]),
            str(run["errors"]),
            f"{run['qps']:.1f}",
            f"{run['p50_ms']:.2f}",
            f"{run['p99_ms']:.2f}",
            f"{run['cpu_seconds']:.1f}",
            *(str(run[f"tokens_{name}"]) for name in ("total", "computed", "reused")),
            f"{run['hit_rate']:.3f}",
            str(run["plans_user"]),
            users,
            items,
            ", ".join(f"{run[f'prediction_p{p}']:.2f}" for p in (10, 50, 90)),
            *quality,
        )
        close(run["policy"], run["qps"], run["requests"] / run["seconds"], "requests a second")
        close(
            run["policy"], run["hit_rate"], run["tokens_reused"] / max(1, run["tokens_total"]), "share reused"
        )
        if (
            not run["prediction_p10"] <= run["prediction_p50"] <= run["prediction_p90"]
            or not run["p50_ms"] <= run["p99_ms"] <= 1e3 * run["seconds"]
        ):
            wrong.append(f"{run['policy']}: quantiles do not ascend")
        for room in printed.tables[1][1] if "profile" in run else []:
            seconds = run["profile"][room[0]]
            expect(
                f"{run['policy']}, {room[0]}",
                room[1 + 2 * number : 3 + 2 * number],
                f"{1e6 * seconds / run['requests']:.1f}",
                percent(seconds / run["cpu_seconds"]),
            )
        tenths = (
            f"{run['policy']}: tokens reused, by tenth of the requests: "
            + " ".join(f"{100 * rate:.1f}" for rate in run["hit_rate_by_tenth"])
            + " %"
        )
        if all_["fresh"] and tenths not in printed.text:
            wrong.append(f"expected {tenths!r}")
        print(
            f"{run['policy']}: {run['tokens_total']} tokens of {run['users']} users"
            + ("" if len(printed.tables) < 2 else ", by room: ")
            + ", ".join(room[0] for room in (printed.tables[1][1] if "profile" in run else []))
        )


def plans(all_, printed):
    ((_, rows),) = printed.tables
    names = ("recall@10", "mrr@10", "ndcg@10", "recall@5", "mrr@5", "ndcg@5")
    for run, row in zip(all_["runs"], rows, strict=True):
        where = f"{run['plan']}, {run['selection']}, {run['correction']}"
        both = [
            f"{run[name]['mean']:.3f} ± {run[name]['standard_error']:.3f}"
            if run[name]["mean"] is not None
            else None
            for name in ("ndcg@10 to full", "overlap@10")
        ]
        expect(
            where,
            row,
            run["plan"],
            run["selection"],
            run["correction"],
            *(f"{run[name]['mean']:.4f}" for name in names),
            *both,
            f"{run['operations to full']:.3f}",
            f"{run['cpu_ms']:.2f}",
            f"{run['cpu to full']:.3f}",
            f"{run['nll']:.4f}",
        )
        if (
            not run["cpu_ms p50"] <= run["cpu_ms p99"]
            or not 0 < run["cpu_ms"] <= run["cpu_ms p99"] * all_["requests"]
        ):
            wrong.append(
                f"{where}: {run['cpu_ms']} ms, {run['cpu_ms p50']} at the median, {run['cpu_ms p99']} at most"
            )
        if not (run["full to this, paired"]["mean"] or 0) > 0:
            wrong.append(f"{where}: how much longer the full one takes is {run['full to this, paired']}")
        if run["plan"] == all_["full"]:
            close(where, run["full to this, paired"]["mean"], 1, "the full one to itself")
        print(f"{where}: {run['operations to full']:.4f} of the operations")
    print(printed.text.split("\n\n")[-1].strip())


def serve(all_, printed):
    text = printed.text
    open_loop = all_["loop"] == "open"

    def times(of):
        return (
            f"P50 {of['p50_ms']:.2f}, P90 {of['p90_ms']:.2f}, P99 {of['p99_ms']:.2f}, longest "
            f"{of['max_ms']:.2f} ms"
        )

    due = [
        (
            f"{all_['answered']} of {all_['requests']} requests answered in {all_['seconds']:.2f} s: "
            f"{all_['answered_qps']:.1f} per second"
        )
        + (f", asked at {all_['asked_qps']:.1f}" if open_loop else ""),
        times(all_["latency"]),
        f"tokens reused {percent(all_['tokens_reused'] / all_['tokens_total'])} of "
        f"{all_['tokens_total']}, in "
        f"{percent(all_['answers_with_reuse'] / all_['answered'])} of the replies; blocks "
        f"{all_['blocks_reused']} reused, "
        f"{all_['blocks_written']} written",
        *(f"plan {plan}: {count}" for plan, count in all_["plans"].items()),
    ]
    if open_loop:
        due += [
            "latency from sending: " + times(all_["latency_from_sending"]),
            f"sent late, because no connection was free: {all_['sent_late']} "
            f"({percent(all_['sent_late'] / all_['requests'])}), by at most "
            f"{all_['sent_late_ms_max']:.2f} ms",
        ]
    wrong.extend(f"expected {line!r}" for line in due if line not in text)
    close("all", all_["answered_qps"], all_["answered"] / all_["seconds"], "answers a second")
    if all_["tokens_computed"] + all_["tokens_reused"] != all_["tokens_total"]:
        wrong.append("tokens are neither computed nor reused")
    for of in ("latency", "latency_from_sending"):
        if not all_[of]["p50_ms"] <= all_[of]["p90_ms"] <= all_[of]["p99_ms"] <= all_[of]["max_ms"]:
            wrong.append(f"{of}: quantiles do not ascend")
    print(
        f"{all_['loop']}: {all_['answered']} of {all_['requests']}, {all_['tokens_total']} tokens, "
        f"{sum(all_['plans'].values())} plans" + ("" if open_loop else f", {all_['connects']} connections")
    )


def calibrate(all_, printed):
    ((_, rows),) = printed.tables
    errors = {True: [], False: []}
    for run, row in zip(all_["runs"], rows, strict=True):
        error = run["predicted_us"] / run["measured_us"] - 1
        errors[run["held_out"]].append(abs(error))
        tokens = run["new_tokens"] // run["segments"]
        segments = f"{run['segments']}x" if run["segments"] > 1 else ""
        expect(
            f"{segments}{tokens}",
            row,
            run["model"],
            f"{segments}{tokens}",
            None,
            f"{run['measured_us'] / 1e3:.3f}",
            f"{run['predicted_us'] / 1e3:.3f}",
            ("" if error < 0 else "+") + f"{100 * error:.1f} %",
            "yes" if run["held_out"] else "",
        )
        if run["mean_us"] < run["measured_us"] * 0.999999:
            wrong.append(f"{segments}{tokens}: the mean of the rounds is below the least")
    for held_out, name in ((False, "fitted"), (True, "held_out")):
        close(name, all_["error"][name]["max"], max(errors[held_out]), "the largest error")
        if not min(errors[held_out]) <= all_["error"][name]["median"] <= max(errors[held_out]):
            wrong.append(f"{name}: the median error is none of these")
    device = all_["device"]
    due = [
        f"{device['name']}: efficiency {device['efficiency']:.3f} of {device['peak_f32'] / 1e9:.0f} GF "
        f"(float32; bf16 {device['peak_bf16'] / device['peak_f32']:.2f} x, "
        f"int8 {device['peak_int8'] / device['peak_f32']:.2f} x) and "
        f"{device['bandwidth'] / 1e9:.1f} GB/s, ",
        f"half saturation at {device['half_tokens']:.1f} tokens.",
        f"Error: median {percent(all_['error']['fitted']['median'])}, largest "
        f"{percent(all_['error']['fitted']['max'])} on the fitted passes; median "
        f"{percent(all_['error']['held_out']['median'])}, largest "
        f"{percent(all_['error']['held_out']['max'])} on the held-out passes.",
    ]
    wrong.extend(f"expected {line!r}" for line in due if line not in printed.text)
    print(
        f"{device['name']}: {len(errors[False])} passes fitted, {len(errors[True])} held out, "
        f"{sum(run['pairs'] for run in all_['runs'])} pairs"
    )


def cost(all_, printed):
    ((_, rows),) = printed.tables
    base = all_["runs"][0]
    for run, row in zip(all_["runs"], rows, strict=True):
        where = f"{run['weights']}, {run['kv']}"
        rate, gigabytes = run["rankings_per_cpu_second"], run["resident_bytes"] / 1e9
        change = run["ndcg_change"]
        expect(
            where,
            row,
            run["weights"],
            run["kv"],
            f"{rate:.1f}",
            f"{run['ratio_to_first']:.2f}",
            f"{gigabytes:.3f}",
            f"{run['pool_bytes'] / 1e9:.3f}",
            f"{run['rankings_per_cpu_second_and_gigabyte']:.1f}",
            f"{run['ndcg_at_10']['mean']:.4f}",
            "" if run is base else f"{change['mean']:+.4f} ± {change['standard_error']:.4f}",
            f"{run['overlap_at_10']['mean']:.4f}",
            f"{run['core_hours_per_million']:.3f}",
            f"{run['price_per_million']:.4f}",
        )
        hours = 1e6 / rate / 3600
        close(where, run["core_hours_per_million"], hours, "core-hours")
        close(where, run["price_per_million"], hours * all_["price_per_core_hour"], "price")
        close(where, run["rankings_per_cpu_second_and_gigabyte"], rate / gigabytes, "rate per gigabyte")
        memory = run["pool_bytes"] / base["pool_bytes"]
        print(f"{where}: {all_['requests']} requests, {memory:.3f} of the memory for keys and values")
    if base["overlap_at_10"]["mean"] != 1 or base["ratio_to_first"] != 1:
        wrong.append("the first format is not equal to itself")


def main(what, result, text):
    with open(result, encoding="utf-8") as one, open(text, encoding="utf-8") as other:
        {
            "engine": engine,
            "cost": cost,
            "generate": generate,
            "rank": rank,
            "plans": plans,
            "serve": serve,
            "calibrate": calibrate,
        }[what](json.load(one), Printed(other.read()))
    print("\n".join(wrong) if wrong else "what was printed is what was written")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
