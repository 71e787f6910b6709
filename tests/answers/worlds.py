"""Random requests to the shared rankers, and the plain answer to each.

A world is a ranker with its catalog and a form. It draws users, lists of candidates, and the arrangement
that a request names; it computes what the model itself answers (plain_model.py).
"""
import functools
import gzip
import json
import os
import random

import plain_model
from plain_model import PlainModel

HERE = os.path.dirname(os.path.abspath(__file__))
SHARED = os.path.join(HERE, "../../../shared")
FORMS = os.path.join(HERE, "../forms")
COUNTS = (2, 5, 10, 20, 50, 100)  # of candidates
POPULAR = 300  # items that most requests draw from, so that item blocks are reused
# Policies that have one arrangement, and so name it.
POLICIES = {"causal": "causal", "user_first": "user", "item_first": "item"}
# Candidates of one computed prompt of `candidates_apart`: they see nothing of each other.
APART_MAX = 16


def read_json(*path):
    with open(os.path.join(*path)) as file:
        return json.load(file)


def read_rows(*path):
    with gzip.open(os.path.join(*path), "rt") as file:
        names = next(file).rstrip("\n").split("\t")
        for line in file:
            yield dict(zip(names, line.rstrip("\n").split("\t")))


model_of = functools.lru_cache(PlainModel)  # by directory


@functools.lru_cache
def catalog_of(world):
    """Returns the parts of the form as tokens, and the tokens and the identifier of each item."""
    return world.read_catalog()


class World:
    """`form`: the file that the program gets as the model's form; None = the model has its own or the
    default one. `seed` decides what is drawn."""

    def __init__(self, form=None, seed=17):
        self.form_file, self.random, self.users = form, random.Random(seed), {}
        self.model = model_of(self.directory)
        form = read_json(form) if form else {}
        self.arrangements = form.get("arrangements", self.undeclared)
        self.served = form.get("interchangeable", self.arrangements[:1])  # to requests that name none
        self.parts, self.tokens, self.identifiers = catalog_of(type(self))
        self.items = sorted(self.tokens)

    def history(self, user):
        """Returns the items of a user; a new user gets a history."""
        if user not in self.users:
            self.users[user] = self.draw_history()
        return self.users[user]

    def draw_history(self):
        return [self.random.choice(self.items) for _ in range(self.random.randint(1, self.events_max))]

    def draw(self):
        """Returns candidates, the arrangement that the request names ("" = none), and the members that
        name it."""
        named = self.random.choice(["", *self.arrangements]) if len(self.arrangements) > 1 else ""
        arrangement = named or self.arrangements[0]
        count = self.random.choice([count for count in COUNTS if count <= self.count_max(arrangement)])
        pool = self.items[:POPULAR] if self.random.random() < 0.7 else self.items
        by_policy = named in POLICIES and self.random.random() < 0.5
        members = {"policy": POLICIES[named]} if by_policy else {"arrangement": named} if named else {}
        return self.random.sample(pool, count), named, members

    def count_max(self, arrangement):
        return COUNTS[-1]

    def allowed(self, named):
        """Returns the arrangements under which a request may be served (promise 21)."""
        return [named] if named else list(self.served)

    def expected(self, history, candidates, arrangement):
        """Returns the scores of the plain computation."""
        if arrangement != "candidates_apart":
            return list(self.model.scores(self.prompt(history, candidates, arrangement)))
        scores = []
        for begin in range(0, len(candidates), APART_MAX):
            some = candidates[begin : begin + APART_MAX]
            scores += list(self.model.scores(self.prompt(history, some, arrangement)))
        return scores


class Games(World):
    """Items are semantic IDs of four tokens; scores are read at a discriminant."""

    directory = os.path.join(SHARED, "models/tiny-ranker-games")
    data = os.path.join(SHARED, "data/amazon-games")
    undeclared, events_max = ["causal"], 60
    GOLDEN = {"causal": "causal", "user_first": "up", "item_first": "ip"}  # names in golden.json

    @classmethod
    def read_catalog(cls):
        vocabulary = read_json(cls.directory, "vocab.json")
        form = read_json(FORMS, "games.json")  # has the tokens of the default form
        names = ("system", "user", "instruction", "discriminant")
        parts = {name: [vocabulary[word] for word in form[name]] for name in names}
        tokens, identifiers = {}, {}
        for row in read_rows(cls.data, "items.tsv.gz"):
            item, codes = int(row["item_id"]), row["sid"].split(",")
            tokens[item] = [vocabulary[f"<{level}_{code}>"] for level, code in zip("abcd", codes)]
            identifiers[item] = vocabulary[f"<item_{item}>"]
        return parts, tokens, identifiers

    def prompt(self, history, candidates, arrangement):
        return plain_model.discriminant_prompt(
            self.parts,
            arrangement,
            [token for item in history for token in self.tokens[item]],
            [self.tokens[item] for item in candidates],
            [self.identifiers[item] for item in candidates],
        )

    def golden(self):
        """Yields user, history, candidates, arrangement and scores of the model's authors."""
        for request in read_json(self.directory, "golden.json")["requests"]:
            for arrangement, name in self.GOLDEN.items():
                scores = request["plans"][name]["logits"]
                yield request["user_id"], request["history"], request["candidates"], arrangement, scores


class Titles(World):
    """Items are the words of their titles; each score is read behind its candidate."""

    directory = data = os.path.join(SHARED, "models/tiny-ranker-titles")
    undeclared, events_max = ["candidates_apart"], 15  # the newest ten are read

    @classmethod
    def read_catalog(cls):
        rows = read_rows(cls.directory, "items.tsv.gz")
        tokens = {int(row["item_id"]): [int(word) for word in row["tokens"].split()] for row in rows}
        return read_json(cls.directory, "prompt.json"), tokens, {}

    def count_max(self, arrangement):
        return 20 if arrangement == "causal" else COUNTS[-1]  # more do not fit behind each other

    def prompt(self, history, candidates, arrangement):
        return plain_model.scored_prompt(
            self.parts,
            arrangement,
            [self.tokens[item] for item in history],
            [self.tokens[item] for item in candidates],
        )

    def golden(self):
        for request in read_json(self.directory, "golden.json")["requests"]:
            user, scores = request["user_id"], request["scores"]
            yield user, request["history"], request["candidates"], "causal", scores


def write_forms(folder):
    """Writes forms that also declare arrangements for which these rankers were not trained: what is tested is
    the computation. Returns their files by the name of the model."""
    games = read_json(FORMS, "games.json")
    titles = read_json(Titles.directory, "prompt.json")
    games["arrangements"].append("candidates_apart")
    titles["arrangements"] = ["causal", "candidates_apart", "user_first", "item_first"]
    files = {}
    for name, form in (("games", games), ("titles", titles)):
        files[name] = os.path.join(folder, f"{name}-form.json")
        with open(files[name], "w") as file:
            json.dump(form, file)
    return files


def missing():
    """Returns what is missing beside the checkout; "" = nothing."""
    needed = [os.path.join(Games.directory, "golden.json"), Games.data]
    needed += [os.path.join(Titles.directory, "golden.json")]
    return next((path for path in needed if not os.path.exists(path)), "")
