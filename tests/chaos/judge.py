"""Judges what a run has shown, and which promises it broke."""
import collections
import re

from cluster import HEARTBEAT, STRICT

HEAD = (
    f"{'fault':<49} {'asked':>5} {'ok':>5} {'ref.':>4} {'lost':>4} {'none':>4} {'wrong':>5} "
    f"{'hung':>4} {'5H+ %':>6} "
    f"{'10H+ %':>6} {'last H':>6} {'p50 ms':>6} {'p99 ms':>6} {'back s':>6}"
)
UCX_ASSERTION = re.compile(r"\b(uct_)?tcp_\w+\.c:\d+:? +Assertion `")  # an assertion in UCX's TCP transport
STORE_AWAY = "the shared feature store is away"  # a router's reason for not being ready
KINDS = ("ok", "refused", "lost", "nobody", "wrong", "hung")
# For writing clients: the minimum count of each outcome for a meaningful run; and the outcomes that must
# not occur.
WRITERS_DO = {
    "written": 20,
    "right": 20,
    "appended": 10,
    "repeated": 2,
    "journal": 20,
    "journal right": 5,
    "kept out": 3,
}
WRITERS_MUST_NOT = ("mixed", "older", "rearranged", "hung", "doubled", "journal wrong", "let in")
PLAN_ANSWERS_MIN = 20


def share(some):
    return 100 * sum(1 for o in some if o[1] == "ok") / len(some) if some else 100.0


def measure(fault, found):
    """Adds to `fault` the results of the requests `found`."""
    # A request in flight is counted at its end.
    since = {5: fault["at"], 10: fault["ended"] if fault["expect"] == "served" else fault["at"]}
    late = lambda after: [o for o in found if o[0] >= since[after] + after * HEARTBEAT]
    bad = [o[0] for o in found if o[1] != "ok"]
    took = sorted(1e3 * o[3] for o in found if o[1] == "ok") or [0.0]
    ran_at = collections.Counter(o[2].split()[-1] for o in found if o[1] == "ok")
    fault["ran_at"] = dict(sorted(ran_at.items()))  # requests by node
    fault.update({kind: sum(1 for o in found if o[1] == kind) for kind in KINDS})
    fault.update(
        requests=len(found),
        after_5=share(late(5)),
        after_10=share(late(10)),
        n_5=len(late(5)),
        n_10=len(late(10)),
        recovered_h=(max(bad) - fault["at"]) / HEARTBEAT if bad else 0.0,
        p50_ms=took[len(took) // 2],
        p99_ms=took[len(took) * 99 // 100],
    )


def row(fault):
    back = "never" if fault["back_s"] is None else f"{fault['back_s']:.1f}"
    return (
        f"{fault['name']:<49} {fault['requests']:>5} {fault['ok']:>5} {fault['refused']:>4} "
        f"{fault['lost']:>4} "
        f"{fault['nobody']:>4} {fault['wrong']:>5} {fault['hung']:>4} {fault['after_5']:>6.1f} "
        f"{fault['after_10']:>6.1f} {fault['recovered_h']:>6.1f} {fault['p50_ms']:>6.1f} "
        f"{fault['p99_ms']:>6.1f} "
        f"{back:>6}{'  machine too busy: repeated' if fault['starved'] else ''}"
    )


def find_fault_of_store(fault, found):
    """Judges requests while Redis is away: from two heartbeats after the kill to the restart.

    The strict router gets requests although it reports, as it must, that it is not ready.
    """
    meanwhile = [o for o in found if fault["at"] + 2 * HEARTBEAT <= o[0] < fault["ended"]]
    strict = [o for o in meanwhile if o[4] == STRICT]
    other = [o for o in meanwhile if o[4] != STRICT]
    untold = [o for o in strict if o[1] != "refused" or "features_unavailable" not in o[2]]
    if not strict or not other:
        return "no requests while Redis was away"
    if "not_ready" not in fault["strict_said"] or STORE_AWAY not in fault["strict_said"]:
        return (
            f"{STRICT}, which refuses, must not be ready, with \"{STORE_AWAY}\"; it said "
            f"{fault['strict_said'] or 'that it was ready'}"
        )
    if untold:
        return f"{len(untold)} of {STRICT} were not refused because of its missing store: {untold[0][1:3]}"
    if share(other) < 99:
        return f"the router that answers from what it knows answered {share(other):.1f} %"
    return ""


def _judge_shares(faults, expect):
    """Judges all faults of that kind together, weighted by requests."""
    some = [f for f in faults if f["expect"] == expect]
    found = []
    for heartbeats, least in ((5, 99), (10, 99.9)):
        total = sum(f[f"n_{heartbeats}"] for f in some)
        got = sum(f[f"after_{heartbeats}"] * f[f"n_{heartbeats}"] for f in some) / total if total else 100.0
        point = "end" if expect == "served" and heartbeats == 10 else "begin"
        print(
            f"faults of kind '{expect}': of requests {heartbeats} heartbeats or more after its {point} "
            f"{got:.3f} % of "
            f"{total} were answered"
        )
        if got < least:
            found.append(
                f"'{expect}': {got:.2f} % answered {heartbeats} heartbeats after, expected {least} %"
            )
    return found


def judge_faults(faults):
    found = []
    for expect in ("kill", "served"):
        if any(f["expect"] == expect for f in faults):
            found += _judge_shares(faults, expect)
    for fault in faults:
        if fault["starved"]:
            found.append(f"{fault['name']}: the machine was too busy, three times")
            continue
        if fault["expect"] == "lossless" and fault["ok"] < fault["requests"]:
            found.append(f"{fault['name']}: {fault['requests'] - fault['ok']} requests failed, expected none")
        if fault["back_s"] is None:
            found.append(f"{fault['name']}: not all nodes were ready again: {fault.get('not_ready')}")
        if fault["missed"]:
            found.append(f"{fault['name']}: {fault['missed']}")
    return found


def _is_of_damage(death, faults):
    """Returns whether damaged transfers explain this death.

    UCX ends its process if damage behind TCP's checksum hits its own headers
    (docs/guides/tls-keys-tenants.md: its network must be trusted). That may happen while transfers are
    damaged, and until the last damaged one is noticed.
    """
    at, _, how = death
    return UCX_ASSERTION.search(how) and any(
        f.get("transfers_flipped", 0) > 0 and f["at"] <= at < f["ended"] + 10 * HEARTBEAT for f in faults
    )


def judge_deaths(deaths, faults):
    """No process may end by itself, except because of such damage, which is reported and is no fault."""
    for _, name, how in deaths:
        print(f"{name} {how}")
    return [f"{name} {how}" for at, name, how in deaths if not _is_of_damage((at, name, how), faults)]


def unpromised(refusals, faults):
    # A router cannot distinguish at once whether it lost two workers or two connections (promise 12).
    broken = [(f["at"], f["ended"] + 10 * HEARTBEAT) for f in faults if f["breaks"]]
    return [
        o
        for o in refusals
        if ("wrong_arrangement" in o[2] or not o[2].startswith(("429", "503", "504")))
        and not ("poison" in o[2] and any(since <= o[0] < until for since, until in broken))
    ]


def told_reasons(outcomes, most=5):
    """Returns the most frequent reasons of refusals, by router, to explain a failed run."""
    reasons = collections.Counter()
    for _, kind, what, _, router in outcomes:
        if kind == "refused":
            code = re.search(r'"code":"(\w+)","message":"([^"]*)"', what)
            reasons[f"{router} {what[:3]} " + (f"{code[1]}, {code[2]}" if code else what[4:120])] += 1
    return [f"refused {count} times: {why}" for why, count in reasons.most_common(most)]


def judge_load(load, faults):
    all_of = lambda kind: [o for o in load.outcomes if o[1] == kind]
    print(
        f"{len(load.outcomes)} requests: {len(all_of('ok'))} answered as by an undisturbed node, "
        f"{len(all_of('refused'))} refused, {len(all_of('lost'))} lost with their connection, "
        f"{len(all_of('nobody'))} found no router"
    )
    for reason in told_reasons(load.outcomes):
        print(reason)
    # A wrong answer is wrong on any machine, however busy.
    hung = [o for o in all_of("hung") if not load.starved(o[0] - 2, o[0] + 2)]
    found = [f"{len(bad)} {bad[0][1]}: {bad[0][2]}" for bad in (all_of("wrong"), hung) if bad]
    untyped = unpromised(all_of("refused"), faults)
    if untyped:
        found.append(f"{len(untyped)} refusals of undocumented kinds: {untyped[0][2]}")
    return found


def answers_of(load):
    """Counts right answers, by what they were."""
    return dict(
        sorted(collections.Counter(o[2].rsplit(" at ", 1)[0] for o in load.outcomes if o[1] == "ok").items())
    )


def judge_kinds(load, names):
    """Checks that each of several models was asked all the time, and answered."""
    answers = answers_of(load)
    if names:
        print("answers: " + ", ".join(f"{count} {what}" for what, count in answers.items()))
    return [
        f"{name}: too few answers to be meaningful"
        for name in names
        if sum(count for what, count in answers.items() if what.startswith(name + " ")) < 40
    ]


def judge_plans(load, plans):
    """Checks that every plan answered, so that every declared arrangement was tested."""
    told = collections.Counter()
    for what, count in answers_of(load).items():
        told[what.split()[-1]] += count
    return [f"plan {plan}: {told[plan]} answers, too few" for plan in plans if told[plan] < PLAN_ANSWERS_MIN]


def judge_writers(writers, faults):
    counts = {
        kind: writers.count(kind)
        for kind in (
            *WRITERS_DO,
            "write refused",
            "refused",
            "lost",
            "nobody",
            "overtaken",
            "gone already",
            "last known",
            *WRITERS_MUST_NOT,
        )
    }
    print("writing clients:", ", ".join(f"{count} {kind}" for kind, count in counts.items()))
    found = []
    for kind in WRITERS_MUST_NOT:
        bad = [
            o
            for o in writers.outcomes
            if o[1] == kind and (kind != "hung" or not writers.load.starved(o[0] - 2, o[0] + 2))
        ]
        if bad:
            found.append(f"writing clients, {len(bad)} {kind}: {bad[0][2]}")
    untyped = unpromised([o for o in writers.outcomes if "refused" in o[1]], faults)
    if untyped:
        found.append(f"writing clients, {len(untyped)} refusals of undocumented kinds: {untyped[0][2]}")
    few = [kind for kind, least in WRITERS_DO.items() if counts[kind] < least]
    if few:
        found.append(f"writing clients: too few outcomes to be meaningful: {', '.join(few)}")
    return counts, found
