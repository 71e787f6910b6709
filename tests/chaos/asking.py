"""Defines what clients request from a cluster (rankings or generated items) and which answers are right:
those of an
undisturbed node. A cluster serves one kind of model; its file, its clients and its writers use the same
kind.
"""
import json
import os

import plain

TOLERANCE = 5e-3  # of scores
PLAIN_USERS = 10  # users whose right answers are compared with the plain computation


def value_of(item):
    return item["score"] if "score" in item else item["log_probability"]


def find_fault(reply, right, tolerance=TOLERANCE, more=False):
    """Returns what is wrong with this answer, given the right values by item; "" = nothing.

    `more`: `right` also has the next best items. Where values are equal up to rounding, any of them may
    be the last.
    """
    items = {item["id"]: value_of(item) for item in reply["items"]}
    if len(items) != len(reply["items"]):
        return "an item is there twice"
    last = min(items.values(), default=0.0)
    due = {item for item, value in right.items() if not more or value > last + tolerance * max(1, abs(last))}
    if items.keys() - right.keys() or due - items.keys():
        return f"other items: {sorted((items.keys() - right.keys()) | (due - items.keys()))[:3]}"
    for item, value in items.items():
        if not abs(value - right[item]) <= tolerance * max(1, abs(right[item])):
            return f"{item} has {value}; expected {right[item]}"
    values = [value_of(item) for item in reply["items"]]
    return "" if values == sorted(values, reverse=True) else "not in order of scores"


# The arrangement of each plan; a policy of the same name has this one alone, and so names it.
ARRANGEMENTS = {"item": "item_first", "user": "user_first", "causal": "causal"}
# The policy that names each approximate plan; both approximate causal prompts. They compute the first
# tokens of each block again, so answers do not depend on rounding or on what is cached.
APPROXIMATE = {"blocks": "blocks+30", "all_blocks": "all_blocks+30"}


def arrangement_of(plan):
    """Returns the arrangement of a plan, or None if there is no such plan."""
    return "causal" if plan in APPROXIMATE else ARRANGEMENTS.get(plan)


class Ranking:
    path, plans, tolerance = "/v1/rank", (*ARRANGEMENTS, *APPROXIMATE), TOLERANCE
    # Names that requests give, one after the other: a policy of one arrangement or of two, an approximate
    # one, a declared arrangement, or nothing.
    NAMED = (
        {"policy": "item"},
        {"policy": "user"},
        {"policy": "bat"},
        {"arrangement": "causal"},
        {"arrangement": "user_first"},
        {"policy": "causal"},
        {"policy": "blocks+30"},
        {"arrangement": "item_first"},
        {"policy": "all_blocks+30"},
        {},
    )
    catalog = False  # True if workers compute with the catalog
    deletes = True  # a request may name a deleted item
    swaps = True  # the model may be changed to another version
    names = ()  # names, if there are several models
    routes = ""  # suffix of a path that names the model

    def __init__(self):
        self.answers = {}
        self.served = ()  # arrangements of which a request that names none is served one

    def declare(self, form):
        """Takes what the ranker's form declares."""
        self.served = tuple(form.get("interchangeable", form["arrangements"][:1]))

    def models(self, demo, folder):
        """Returns name, directory, data and settings of each of several models; () = the demo's model."""
        return []

    def actors(self, routers, metas, workers):
        """Returns the number of actors of a cluster."""
        return routers + metas + (4 if self.catalog else 3) * workers

    def requests(self, of_ranker):
        return of_ranker

    def path_of(self, request):
        return self.path

    def told(self, request, reply):
        return self.plan_of(reply)

    def prompt(self, demo, folder):
        """Returns the file of a prompt form other than the model's own."""
        return None

    def learn(self, node, requests, written):
        """Learns the right answers. `written`: items that others write meanwhile."""
        for request in requests:
            for plan in self.plans:
                truth, scores = self.right(node, request, plan)
                self.answers[request["user"], truth] = scores

    def right(self, node, request, plan):
        """Returns what was computed, and the right values."""
        reply = node.ask("POST", self.path, self.with_plan(request, plan))
        return self.truth_of(reply), {item["id"]: value_of(item) for item in reply["items"]}

    def find_other_than_plain(self, demo, requests):
        """Returns "" or how learnt answers differ from the plain computation."""
        rows = [
            (user, request["candidates"], ARRANGEMENTS[plan], scores)
            for request in requests[:PLAIN_USERS]
            for (user, truth), scores in self.answers.items()
            if user == request["user"] and (plan := truth.split("@")[0]) in ARRANGEMENTS
        ]
        if self.answers and not rows:
            raise RuntimeError("no learnt answer is one of these requests")
        return plain.find_fault(demo, rows)

    def named(self, request, **members):
        return {**request, **members}

    def with_plan(self, request, plan):
        return self.named(request, policy=APPROXIMATE.get(plan, plan))

    def with_arrangement(self, request, plan):
        """Names the arrangement of a plan by its word, or an approximate plan by its policy."""
        if plan in APPROXIMATE:
            return self.with_plan(request, plan)
        return self.named(request, arrangement=ARRANGEMENTS.get(plan))

    def body(self, request, turn):
        return self.named(request, **self.NAMED[turn % len(self.NAMED)])

    def find_other_arrangement(self, body, reply):
        """Returns "" if a reply names an arrangement that may serve its request, and the plan is of it
        (promise 21)."""
        policy = (body.get("policy") or "").split("+")[0]
        named = body.get("arrangement") or arrangement_of(policy)
        allowed, served = (named,) if named else self.served, reply.get("arrangement")
        if served not in allowed:
            return f"arrangement {served}; expected {' or '.join(allowed)}"
        plan = self.plan_of(reply)
        if arrangement_of(plan) != served:
            return f"arrangement {served} for plan {plan}"
        if plan != policy and APPROXIMATE.keys() & {plan, policy}:
            return f"plan {plan} for policy {policy}"
        if plan in ARRANGEMENTS and reply.get("approximate"):
            return f"{reply['approximate']} of the exact plan {plan} are approximate"
        if reply.get("in_place"):
            return f"{reply['in_place']} are computed in place, although no block of this kind is precomputed"
        return ""

    def plan_of(self, reply):
        return reply["plan"]

    def truth_of(self, reply):
        """Returns the plan and, where several versions may be served, the model's version."""
        version = reply.get("model_version", "") if self.swaps else ""
        return f"{self.plan_of(reply)}@{version}" if version else self.plan_of(reply)

    def fault(self, request, turn, reply):
        if other := self.find_other_arrangement(self.body(request, turn), reply):
            return other
        right = self.answers.get((request["user"], self.truth_of(reply)))
        return (
            find_fault(reply, right, self.tolerance)
            if right
            else f"{self.truth_of(reply)}, which no node serves"
        )

    def request_of(self, user, items):
        """Returns the request of a writing client; its answer shows each of these items that exists."""
        return {"user": user, "candidates": items, "unknown": "skip"}


class Generating(Ranking):
    """Generated items: of the whole catalog, of the catalog without seen items, and of a list.

    Items that are written meanwhile are excluded from the first two, so that the right answers stay the same.
    Excluded items are not searched at all.
    """

    path, plans, tolerance = "/v1/generate", ("generated",), 5e-4  # log-probabilities are around -10
    catalog, deletes, swaps = True, False, False
    WIDTH, TOP, NEXT = 64, 20, 5

    def prompt(self, demo, folder):
        with open(f"{demo}/model/prompt.json") as file:
            form = json.load(file)
        for key in ("discriminant", "arrangements", "interchangeable"):  # a generator's form has none
            del form[key]
        path = os.path.join(folder, "prompt.json")
        with open(path, "w") as file:
            json.dump(form, file)
        return path

    def learn(self, node, requests, written):
        self.written = written
        for request in requests:
            for turn in range(3):
                body = self.body(request, turn)
                body["top_k"] += self.NEXT if turn < 2 else 0
                reply = node.ask("POST", self.path, body)
                self.answers[request["user"], turn] = {item["id"]: value_of(item) for item in reply["items"]}

    def find_other_than_plain(self, demo, requests):
        return ""

    def named(self, request, **members):
        return dict(request)

    def find_other_arrangement(self, body, reply):
        return ""  # a generator has one

    def body(self, request, turn):
        if turn % 3 == 2:
            return self.request_of(request["user"], request["candidates"])
        return {
            "user": request["user"],
            "width": self.WIDTH,
            "top_k": self.TOP,
            "exclude_seen": turn % 3 == 1,
            "deny": self.written,
            "logprobs": turn % 3 == 1,
        }

    def plan_of(self, reply):
        return "generated"

    def fault(self, request, turn, reply):
        wrong = find_fault(reply, self.answers[request["user"], turn % 3], self.tolerance, more=turn % 3 < 2)
        for item in reply["items"]:
            parts = item.get("token_logprobs", [])
            if turn % 3 == 1 and abs(sum(parts) - item["log_probability"]) > 1e-9:
                wrong = wrong or f"{item['id']} has {item['log_probability']}, its tokens {parts}"
        if turn % 3 < 2 and len(reply["items"]) != self.TOP:
            wrong = wrong or f"{len(reply['items'])} items; expected {self.TOP}"
        return wrong

    def request_of(self, user, items):
        return {"user": user, "allow": items, "width": len(items), "top_k": len(items)}


KINDS = {"rank": Ranking, "generate": Generating}
