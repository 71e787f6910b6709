"""The catalog, users and plan of refresh.py."""
import collections
import gzip
import itertools
import json
import pathlib

import loopback

CANDIDATES = 10  # items of a request
NEW = "the-new-one"
HOTTEST = 200
HOTTEST_OF_AUTO = 30  # few enough that each is hot


class World:
    """Catalog, users and popularity of items."""

    def __init__(self, data, model):
        self.data, self.model = pathlib.Path(data), pathlib.Path(model)
        self.histories = self._read_histories()
        counts = collections.Counter(item for history in self.histories.values() for item in history)
        self.items, weights = zip(*counts.items())
        self.weights = list(itertools.accumulate(weights))
        self.counts = counts
        self.users = sorted(self.histories)[:2000]

    def _open(self, name):
        packed = self.data / (name + ".gz")
        return gzip.open(packed, "rt") if packed.exists() else open(self.data / name)

    def _read_histories(self):
        if (self.data / "users.jsonl").exists():
            with self._open("users.jsonl") as lines:
                return {user["id"]: user["history"] for user in map(json.loads, lines)}
        with self._open("sequences.tsv") as lines:
            names = next(lines).rstrip("\n").split("\t")
            rows = (line.rstrip("\n").split("\t") for line in lines)
            return {row[names.index("user_id")]: row[names.index("items")].split(" ") for row in rows}

    def draw(self, chance):
        """Returns so many different items, drawn by popularity."""
        drawn = {}
        while len(drawn) < CANDIDATES:
            drawn[chance.choices(self.items, cum_weights=self.weights)[0]] = True
        return list(drawn)

    def token_bytes(self):
        """Returns the bytes of a token's keys and values, in float32."""
        shape = json.loads((self.model / "config.json").read_text())
        heads = shape["num_attention_heads"]
        head_dim = shape.get("head_dim", shape["hidden_size"] // heads)
        return 2 * 4 * shape["num_hidden_layers"] * shape.get("num_key_value_heads", heads) * head_dim

    def item_tokens(self):
        """Returns the tokens of an item; in both worlds all items have the same number."""
        if (self.data / "items.jsonl").exists():
            with self._open("items.jsonl") as lines:
                return len(json.loads(next(lines))["tokens"])
        with self._open("items.tsv") as lines:
            column = next(lines).rstrip("\n").split("\t").index("sid")
            return next(lines).split("\t")[column].count(",") + 1

    def new_item(self):
        """Returns tokens that no item has in this order."""
        names = json.loads((self.model / "vocab.json").read_text())
        code = next(token for name, token in names.items() if name.startswith("<a_"))
        return {"title": "a new one", "tokens": [code] * self.item_tokens(), "identifier": names["<item_0>"]}


Owner = collections.namedtuple("Owner", "node is_new")


class Plan:
    """The assignment of items that `troupe-lab plan` makes.

    auto: that of pool.placement: auto, which is by hash. Then the most popular items stand for those that
    are on all workers.
    """

    def __init__(self, troupe, world, workers, folder, auto=False):
        self.lab, self.folder = f"{troupe}-lab", pathlib.Path(folder)
        self.nodes = ",".join(str(i + 2) for i in range(workers))
        self.file = self.folder / "plan.json"
        plan = self._plan("hash" if auto else "hrcs", world.data, self.file)
        self.everywhere, self.shards = plan["everywhere"], plan["shards"]
        self.setting = "auto" if auto else self.file
        if auto:
            self.everywhere = [item for item, _ in world.counts.most_common(HOTTEST_OF_AUTO)]
        if len(self.everywhere) < CANDIDATES or plan["nowhere"]:
            raise RuntimeError(
                f"the plan has {len(self.everywhere)} items everywhere, {len(plan['nowhere'])} nowhere; "
                f"expected at least {CANDIDATES} and 0"
            )

    def _plan(self, name, data, file, *more):
        loopback.run(
            self.lab,
            "plan",
            "--data",
            data,
            "--nodes",
            self.nodes,
            "--memory",
            "2GB",
            "--placement",
            name,
            "--json",
            file,
            *more,
        )
        return json.loads(file.read_text())["placements"][0]

    def blocks(self):
        """Returns the number of blocks of the fullest worker."""
        return len(self.everywhere) + max(map(len, self.shards.values()))

    def coldest(self, world):
        """Returns an item that is on one worker and hardly requested, and that worker."""
        node = next(node for node in sorted(self.shards) if self.shards[node])
        return min(sorted(self.shards[node]), key=lambda item: world.counts[item]), Owner(int(node), False)

    def hottest(self, world):
        """Returns the items that are everywhere and so popular that no worker evicts them."""
        return sorted(self.everywhere, key=lambda item: -world.counts[item])[:HOTTEST]

    def owner_of_new(self):
        """Returns the worker to which an item is assigned that is newer than the plan: by hash."""
        catalog = self.folder / "new"
        catalog.mkdir()
        (catalog / "items.jsonl").write_text(json.dumps({"id": NEW, "tokens": [1]}) + "\n")
        shards = self._plan("hash", catalog, catalog / "plan.json", "--zipf", "1")["shards"]
        return Owner(next(int(node) for node, items in shards.items() if items), True)
