#!/usr/bin/env python3
"""Makes the demo world: a catalog with readable titles, users with histories, and requests with known
answers.

  make_world.py [--out world] [--seed 20]      pure Python and numpy; the same seed gives the same files

Every item has a latent vector: the sum of its interest, its sub-interest, one of six styles that all
interests share, and noise. Residual k-means over these vectors gives the semantic ID of three tokens. A
user has one to three interests, favourite sub-interests in each, and favourite styles. Events follow a
simple chain: stay in the interest or draw another one, then draw an item of it by taste and popularity.
`World` draws any number of users for training; the users of the demo come from their own random stream.
"""
import argparse
import json
import pathlib

import numpy as np

import world_words as words

ITEMS_PER_INTEREST = 100
CODES = (16, 128, 128)  # size of each level of the semantic ID
STAY = 0.5  # chance that the next event stays in the interest of the last one
POPULARITY_EXPONENT = 0.6  # Zipf
HISTORY_MIN, HISTORY_MAX = 4, 60
CANDIDATES = 100
ITEM_STREAM, DEMO_USER_STREAM, TRAIN_USER_STREAM, CANDIDATE_STREAM = 1, 2, 3, 4


class Taste:
    """A user's taste: `interests` with `weights`, and for each interest the probabilities of its items."""

    def __init__(self, interests, weights, item_chance):
        self.interests, self.weights, self.item_chance = interests, weights, item_chance
        self.cumulative = [np.cumsum(chance) for chance in item_chance]
        self.cumulative_weights = np.cumsum(weights)


class World:
    """The catalog, and the distributions from which users and candidates are drawn."""

    def __init__(self, seed=20):
        self.seed = seed
        rng = self.stream(ITEM_STREAM)
        count = len(words.INTERESTS) * ITEMS_PER_INTEREST
        self.interest = np.repeat(np.arange(len(words.INTERESTS)), ITEMS_PER_INTEREST)
        self.sub = np.array(
            [i % len(self.subs(k)) for k in range(len(words.INTERESTS)) for i in range(ITEMS_PER_INTEREST)]
        )
        self.style = rng.integers(0, len(words.STYLES), count)
        self.popularity = zipf(rng.permutation(count))
        self.latent = self.draw_latent(rng)
        self.titles = self.draw_titles(rng)
        self.codes = residual_kmeans(self.latent, CODES, rng)
        self.ids = [
            f"{slug}-{i:04d}" for i, slug in enumerate(np.repeat(list(words.INTERESTS), ITEMS_PER_INTEREST))
        ]
        self.of_interest = [np.flatnonzero(self.interest == k) for k in range(len(words.INTERESTS))]
        self.popular = np.cumsum(self.popularity)
        self.popular_in = [np.cumsum(self.popularity[of]) for of in self.of_interest]

    def stream(self, *key):
        return np.random.default_rng([self.seed, *key])

    @staticmethod
    def subs(interest):
        return list(list(words.INTERESTS.values())[interest][3])

    # ---------------------------------------------------------------- items
    def draw_latent(self, rng, size=24):
        """Draws the items' latent vectors. The interest has the largest part, then sub-interest, style
        and noise."""

        def unit(*shape):
            v = rng.normal(size=(*shape, size))
            return v / np.linalg.norm(v, axis=-1, keepdims=True)

        sub_count = max(len(self.subs(k)) for k in range(len(words.INTERESTS)))
        vector = 8.0 * unit(len(words.INTERESTS))[self.interest]
        vector += 4.0 * unit(len(words.INTERESTS), sub_count)[self.interest, self.sub]
        vector += 2.0 * unit(len(words.STYLES))[self.style]
        return vector + 1.4 * unit(len(self.interest))

    def draw_titles(self, rng):
        titles, used = [], set()
        for item in range(len(self.interest)):
            title = self.draw_title(rng, item)
            while title in used:
                title = self.draw_title(rng, item)
            used.add(title)
            titles.append(title)
        return titles

    def draw_title(self, rng, item):
        pick = lambda choices: choices[rng.integers(len(choices))]
        slug = list(words.INTERESTS)[self.interest[item]]
        _, kind, series, things = words.INTERESTS[slug]
        thing = pick(list(things.values())[self.sub[item]])
        if kind == "works":
            style_words = words.BOOK_STYLE_WORDS if slug == "book" else words.GAME_STYLE_WORDS
            return f"{pick(series)} ({pick(style_words[self.style[item]])} {thing})"
        style_word = pick(
            [w for w in words.GOODS_STYLE_WORDS[self.style[item]] if w.lower() not in thing.lower()]
        )
        finish = f", {pick(words.FINISHES)}" if rng.random() < 0.3 else ""
        return f"{pick(series)} {style_word} {thing}{finish}"

    # ---------------------------------------------------------------- users
    def draw_taste(self, rng, length):
        """Draws a taste. Longer histories need a broader one, because an interest has few items of each
        kind."""
        breadth = length // 15
        count = min(1 + int(rng.integers(0, 2)) + breadth // 2, 3)
        interests = rng.choice(len(words.INTERESTS), count, replace=False)
        weights = rng.dirichlet(np.full(count, 3.0))
        style = favourites(rng, len(words.STYLES), min(rng.integers(1, 3) + breadth, 5), others=0.015)
        chances = []
        for k in interests:
            sub = favourites(rng, len(self.subs(k)), min(rng.integers(2, 4) + breadth // 2, 4), others=0.005)
            of = self.of_interest[k]
            chance = sub[self.sub[of]] * style[self.style[of]] * self.popularity[of]
            chances.append(chance / chance.sum())
        return Taste(interests, weights, chances)

    def draw_events(self, rng, taste, count):
        """Draws `count` distinct items, oldest first."""
        events, seen = [], set()
        at = draw(rng, taste.cumulative_weights)
        misses = 0
        while len(events) < count:
            if misses or rng.random() > STAY:
                at = draw(rng, taste.cumulative_weights)
            item = int(self.of_interest[taste.interests[at]][draw(rng, taste.cumulative[at])])
            misses = misses + 1 if item in seen else 0
            if misses > 50:  # the favourites are used up: take any item of the user's interests
                item = int(rng.choice(self.of_interest[rng.choice(taste.interests)]))
            if item not in seen:
                seen.add(item)
                events.append(item)
        return events

    def next_chances(self, taste, events):
        """Returns, after each event, every item's probability to be the next one, given the user's taste. The
        result has shape events × items. No model can know more."""
        of_interest = np.zeros((len(taste.interests), len(self.interest)))
        for row, k, item_chance in zip(of_interest, taste.interests, taste.item_chance):
            row[self.of_interest[k]] = item_chance
        stays = self.interest[events][:, None] == taste.interests
        chances = (STAY * stays + (1 - STAY) * taste.weights) @ of_interest
        for place, item in enumerate(events):
            chances[place:, item] = 0
        return chances / chances.sum(1, keepdims=True)

    @staticmethod
    def draw_length(rng):
        """Draws a history length. The distribution is skewed: half of the lengths are at most 14."""
        return int(np.clip(round(float(rng.lognormal(np.log(14), 0.65))), HISTORY_MIN, HISTORY_MAX))

    # ---------------------------------------------------------------- candidates
    def draw_candidates(self, rng, history, true_item, count, near=0.3):
        """Draws the candidates of a request. A share `near` comes from the interests of the last ten
        events: a random one of these events, then an item of its interest by popularity. The others are
        drawn by popularity from the whole catalog. Items of the history are excluded, the true item is
        included, and the order is random."""
        taken, chosen = {*history, true_item}, [true_item]
        near_count = min(1 + int(near * (count - 1)), count)
        attempts = 0
        while len(chosen) < count:
            attempts += 1
            if len(chosen) < near_count and attempts < 20 * count:
                k = self.interest[history[-10:][rng.integers(min(10, len(history)))]]
                item = int(self.of_interest[k][draw(rng, self.popular_in[k])])
            else:
                item = int(draw(rng, self.popular))
            if item not in taken:
                taken.add(item)
                chosen.append(item)
        rng.shuffle(chosen)
        return chosen


def draw(rng, cumulative):
    """Draws an index; `cumulative` is the running sum of the weights."""
    return min(
        int(np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right")), len(cumulative) - 1
    )


def zipf(ranks):
    weight = (1.0 + ranks) ** -POPULARITY_EXPONENT
    return weight / weight.sum()


def favourites(rng, size, count, others):
    """Returns weights over `size` kinds. Each kind gets `others`, and `count` favourites share the
    remainder."""
    weights = np.full(size, others)
    chosen = rng.choice(size, count, replace=False)
    weights[chosen] += (1 - others * size) * rng.dirichlet(np.full(count, 5.0))
    return weights


def residual_kmeans(vectors, sizes, rng):
    """Returns codes (items × levels). Each level clusters the residual of the levels before it."""
    residual, codes = vectors.copy(), []
    for size in sizes:
        centres, code = min(
            (kmeans(residual, size, rng) for _ in range(4)),
            key=lambda result: ((residual - result[0][result[1]]) ** 2).sum(),
        )
        codes.append(code)
        residual = residual - centres[code]
    return np.stack(codes, 1)


def kmeans(points, size, rng, rounds=30):
    """Runs Lloyd's algorithm from centres drawn by k-means++ (the best of eight draws each)."""
    centres = [points[rng.integers(len(points))]]
    distance = ((points - centres[0]) ** 2).sum(1)
    for _ in range(size - 1):
        tries = points[[draw(rng, np.cumsum(distance)) for _ in range(8)]]
        left = np.minimum(distance, ((points - tries[:, None]) ** 2).sum(-1))
        best = left.sum(1).argmin()
        centres.append(tries[best])
        distance = left[best]
    centres = np.array(centres)
    for _ in range(rounds):
        code = nearest(points, centres)
        for c in range(size):
            if (code == c).any():
                centres[c] = points[code == c].mean(0)
    return centres, nearest(points, centres)


def nearest(points, centres):
    return ((points[:, None] - centres[None]) ** 2).sum(-1).argmin(1)


def demo_users(world, count=500):
    """Yields (id, history, held-out next item, taste) of the demo's users: `ana`, `bruno`, … then
    `ana-birch`, …"""
    names = words.FIRST_NAMES + [f"{first}-{last}" for last in words.SURNAMES for first in words.FIRST_NAMES]
    rng = world.stream(DEMO_USER_STREAM)
    for name in names[:count]:
        length = world.draw_length(rng)
        taste = world.draw_taste(rng, length)
        events = world.draw_events(rng, taste, length + 1)
        yield name, events[:-1], events[-1], taste


def item_record(world, item):
    tokens = [f"<{level}_{code}>" for level, code in zip("abc", world.codes[item])]
    return {
        "id": world.ids[item],
        "title": world.titles[item],
        "tokens": tokens,
        "identifier": f"<item_{item}>",
    }


def write_jsonl(path, records):
    with open(path, "w", encoding="utf-8") as file:
        for record in records:
            file.write(json.dumps(record, ensure_ascii=False, separators=(",", ":")) + "\n")


def write_world(world, folder):
    folder.mkdir(parents=True, exist_ok=True)
    rng, users, requests = world.stream(CANDIDATE_STREAM), [], []
    for name, history, true_item, _ in demo_users(world):
        candidates = world.draw_candidates(rng, history, true_item, CANDIDATES)
        users.append({"id": name, "history": [world.ids[i] for i in history]})
        requests.append(
            {
                "user": name,
                "candidates": [world.ids[i] for i in candidates],
                "true_item": world.ids[true_item],
            }
        )
    write_jsonl(folder / "items.jsonl", (item_record(world, i) for i in range(len(world.ids))))
    write_jsonl(folder / "users.jsonl", users)
    write_jsonl(folder / "requests.jsonl", requests)


def describe(world):
    shared = len(world.codes) - len(np.unique(world.codes, axis=0))
    purity = sum(
        np.bincount(world.interest[world.codes[:, 0] == c]).max() for c in np.unique(world.codes[:, 0])
    )
    lengths = [len(history) for _, history, _, _ in demo_users(world)]
    print(
        f"{len(world.ids)} items, {shared} more items than semantic IDs, "
        f"level a names the interest of {purity}; {len(lengths)} users, "
        f"history median {int(np.median(lengths))}, longest {max(lengths)}"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).parent / "world")
    parser.add_argument("--seed", type=int, default=20)
    arguments = parser.parse_args()
    demo_world = World(arguments.seed)
    write_world(demo_world, arguments.out)
    describe(demo_world)
