"""What HLEM's paper says, for the rows of `run.sh`."""

DATA = {"taobao": 0.18, "games": 0.24, "books": 0.38}  # Table II: share of the hot users' requests
DEPTHS = [3, 6]
REGIMES = ["steady", "trend", "burst"]
COLUMNS = tuple(REGIMES)  # of Table III
OBJECTIVE_MS = 30

# Share of the lookups in a request's time without reuse, at least: (events, tables) → share.
FIGURE_1 = {(20_480, 10): 0.40, (15_000, 25): 0.50}
FIGURE_11 = {
    3: dict(kv_opt=(33, 38), static=(28, 35), hlem=(19, 23)),
    6: dict(kv_opt=(44, 51), static=(38, 46), hlem=(25, 29)),
}
FIGURE_11_LESS = {3: (0.25, 0.34), 6: (0.28, 0.38)}  # reduction against the best static split's P99
FIGURE_12 = {"steady": (0.996, 1.0), "trend": (0.989, 1.0), "burst": (0.935, 0.953)}
FIGURE_13 = dict(allocator=0.20, router=(0.10, 0.25))
FIGURE_14 = dict(ppo=(33, 46), adapter=(23, 34), smart=(23, 31))  # steady P99 and the peak of a burst, ms
TABLE_3 = {
    "static:0.1": (0.292, 0.341, 0.331),
    "static:0.3": (0.092, 0.141, 0.131),
    "static:0.5": (0.108, 0.061, 0.072),
    "static:0.7": (0.308, 0.259, 0.269),
    "static:0.9": (0.508, 0.459, 0.469),
    "pid": (0.094, 0.108, None),
    "trees": (0.053, 0.091, 0.201),
    "bayes": (0.061, 0.089, 0.174),
    "ppo": (0.043, 0.051, 0.042),
    "smart": (0.019, 0.023, 0.031),
}
FIGURE_15 = {"steady": (0.20, 0.51), "trend": (0.32, 0.38), "burst": (0.50, 0.26)}  # hot share, alpha
FIGURE_17 = {"taobao": 0.27, "games": 0.36, "books": 0.23}  # throughput gain at 32 nodes


def means_of_table_3(regime):
    """Returns alpha*'s mean as each static row of Table III implies it: a row at or below all alpha* says
    alpha + gap, one above all of them alpha - gap."""
    column = COLUMNS.index(regime)
    rows = {float(name[7:]): gaps[column] for name, gaps in TABLE_3.items() if name.startswith("static")}
    return {alpha: alpha + gap if alpha < 0.4 else alpha - gap for alpha, gap in rows.items()}


def excess_of_table_3(regime):
    """Returns by how much alpha* lies outside 0.3 to 0.5 in the mean: |a - 0.3| + |a - 0.5| is 0.2 within,
    and twice the distance more outside."""
    column = COLUMNS.index(regime)
    return (TABLE_3["static:0.3"][column] + TABLE_3["static:0.5"][column] - 0.2) / 2
