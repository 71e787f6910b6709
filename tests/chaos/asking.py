"""What clients ask a cluster for, rankings or generated items, and what is right: what a box has answered that nothing
happened to. A cluster serves one kind of model; its file, its clients and those that write are told which."""
import json
import os

TOLERANCE = 5e-3  # of a score


def value_of(item):
    return item["score"] if "score" in item else item["log_probability"]


def find_fault(reply, right, tolerance=TOLERANCE, more=False):
    """What is wrong with this answer, given the right values by item; empty: nothing. `more`: `right` has items beyond
    those that are due, the next best, and where values are as good as equal any of them may be the last."""
    items = {item["id"]: value_of(item) for item in reply["items"]}
    if len(items) != len(reply["items"]):
        return "an item twice"
    last = min(items.values(), default=0.0)
    due = {item for item, value in right.items() if not more or value > last + tolerance * max(1, abs(last))}
    if items.keys() - right.keys() or due - items.keys():
        return f"other items: {sorted((items.keys() - right.keys()) | (due - items.keys()))[:3]}"
    for item, value in items.items():
        if not abs(value - right[item]) <= tolerance * max(1, abs(right[item])):
            return f"{item} has {value}, right is {right[item]}"
    values = [value_of(item) for item in reply["items"]]
    return "" if values == sorted(values, reverse=True) else "not in order of scores"


class Ranking:
    path, plans, tolerance = "/v1/rank", ("item", "user"), TOLERANCE
    catalog = False  # workers compute with it
    deletes = True  # a request may name an item that is gone
    swaps = True  # the model may be changed for another version of it
    names = ()  # of several models
    routes = ""  # behind a path, of whom it asks

    def __init__(self):
        self.answers = {}

    def models(self, demo, folder):
        """Of several: name, directory, data and settings of each. None: the demo's."""
        return []

    def actors(self, routers, metas, workers):
        """Of a cluster."""
        return routers + metas + (4 if self.catalog else 3) * workers

    def requests(self, of_ranker):
        return of_ranker

    def path_of(self, request):
        return self.path

    def told(self, request, reply):
        return self.plan_of(reply)

    def prompt(self, demo, folder):
        """A prompt form other than the model's own, as a file."""
        return None

    def learn(self, box, requests, written):
        """`written`: items that others write meanwhile."""
        for request in requests:
            for plan in self.plans:
                truth, scores = self.right(box, request, plan)
                self.answers[request["user"], truth] = scores

    def right(self, box, request, plan):
        """By what was computed, and what came of it."""
        reply = box.ask("POST", self.path, self.with_plan(request, plan))
        return self.truth_of(reply), {item["id"]: value_of(item) for item in reply["items"]}

    def with_plan(self, request, plan):
        return {**request, "policy": plan}

    def body(self, request, turn):
        return self.with_plan(request, ("item", "user", "bat")[turn % 3])

    def plan_of(self, reply):
        return reply["plan"]

    def truth_of(self, reply):
        """The plan, and where it may be one of several the model's version."""
        version = reply.get("model_version", "") if self.swaps else ""
        return f"{self.plan_of(reply)}@{version}" if version else self.plan_of(reply)

    def fault(self, request, turn, reply):
        right = self.answers.get((request["user"], self.truth_of(reply)))
        return (
            find_fault(reply, right, self.tolerance)
            if right
            else f"{self.truth_of(reply)}, which nobody serves"
        )

    def request_of(self, user, items):
        """Of a client that writes, whose answer shows each of these items that is there."""
        return {"user": user, "candidates": items, "unknown": "skip"}


class Generating(Ranking):
    """Items of the whole catalog, of it without the seen ones, and of a list. What is written meanwhile is denied to the
    first two, so that what is right stays so; that goes for all of a search, as what is denied is not entered.
    """

    path, plans, tolerance = "/v1/generate", ("generated",), 5e-4  # log-probabilities are around -10
    catalog, deletes, swaps = True, False, False
    WIDTH, TOP, NEXT = 64, 20, 5

    def prompt(self, demo, folder):
        with open(f"{demo}/model/prompt.json") as file:
            form = json.load(file)
        del form["discriminant"]  # a generator's has none
        path = os.path.join(folder, "prompt.json")
        with open(path, "w") as file:
            json.dump(form, file)
        return path

    def learn(self, box, requests, written):
        self.written = written
        for request in requests:
            for turn in range(3):
                body = self.body(request, turn)
                body["top_k"] += self.NEXT if turn < 2 else 0
                reply = box.ask("POST", self.path, body)
                self.answers[request["user"], turn] = {item["id"]: value_of(item) for item in reply["items"]}

    def with_plan(self, request, plan):
        return dict(request)

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
