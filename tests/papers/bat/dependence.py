"""Plots how Table 4's ratios depend on what the paper leaves open: one line for each entry, one panel for
each
setting, with all others at their chosen values."""

import json

ENTRIES = {
    "ABC": dict(policy="bat", placement="hrcs"),
    "AB": dict(policy="larger", placement="hrcs"),
    "AC": dict(policy="bat", placement="replicate"),
    "A": dict(policy="larger", placement="replicate"),
}
PAPER = dict(ABC=128 / 83, AB=128 / 83, AC=115 / 83, A=102 / 83)
COLOURS = dict(ABC="#1b6ca8", AB="#d1495b", AC="#66a182", A="#edae49")
VARIED = {
    "return_share": ("share of visits that are followed by another", [0.4, 0.6, 0.8, 0.9]),
    "return_after": ("median requests until then", [6e3, 12e3, 24e3, 48e3]),
    "return_sigma": ("log-normal sigma of that", [0.5, 1, 1.5, 2]),
    "user_sigma": ("log-normal sigma of user tokens", [0.4, 0.6, 0.8, 1.0, 1.2]),
    "drawn_by_length": ("power of the length by which new visits are drawn", [0, 0.5, 1]),
    "item_skew": ("Zipf exponent of candidates", [0.6, 0.9, 1.1, 1.3]),
}
WIDTH, HEIGHT, MARGIN = 330, 240, 45
SMALLER = dict(scale=64, warm_up=1100, measured=900)


def panel(name, label, points, left, top):
    xs = [value for value, _ in points]
    low, high = 0.8, 1.8
    at_x = lambda x: left + MARGIN + (x - xs[0]) / (xs[-1] - xs[0]) * (WIDTH - MARGIN - 20)
    at_y = (
        lambda y: top
        + HEIGHT
        - MARGIN
        - (min(max(y, low), high) - low) / (high - low) * (HEIGHT - MARGIN - 25)
    )
    out = [
        f'<text x="{left + MARGIN}" y="{top + 16}">{name}</text>',
        f'<text x="{left + MARGIN}" y="{top + HEIGHT - 8}" fill="#666">{label}</text>',
    ]
    for tick in [0.8, 1.0, 1.2, 1.4, 1.6, 1.8]:
        out.append(
            f'<line x1="{left + MARGIN}" x2="{left + WIDTH - 20}" y1="{at_y(tick):.0f}" '
            f'y2="{at_y(tick):.0f}" '
            f'stroke="#ddd"/><text x="{left + 12}" y="{at_y(tick) + 4:.0f}">{tick}</text>'
        )
    for x in xs:
        out.append(
            f'<text x="{at_x(x):.0f}" y="{top + HEIGHT - MARGIN + 16}" text-anchor="middle">{x:g}</text>'
        )
    for entry, colour in COLOURS.items():
        line = " ".join(f"{at_x(x):.1f},{at_y(ratios[entry]):.1f}" for x, ratios in points)
        out.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        y = at_y(PAPER[entry])
        out.append(
            f'<line x1="{left + WIDTH - 26}" x2="{left + WIDTH - 8}" y1="{y:.1f}" y2="{y:.1f}" '
            f'stroke="{colour}" stroke-width="4"/>'
        )
    return "\n".join(out)


def draw(panels, path):
    rows = (len(panels) + 1) // 2
    legend = "".join(
        f'<text x="{20 + 70 * i}" y="20" fill="{colour}">{entry}</text>'
        for i, (entry, colour) in enumerate(COLOURS.items())
    )
    body = [
        panel(name, VARIED[name][0], points, (i % 2) * WIDTH, 30 + (i // 2) * HEIGHT)
        for i, (name, points) in enumerate(panels.items())
    ]
    with open(path, "w") as file:
        file.write(
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{2 * WIDTH}" height="{30 + rows * HEIGHT}" '
            'font-family="sans-serif" font-size="11"><rect width="100%" height="100%" fill="white"/>\n'
            f'{legend}<text x="320" y="20" fill="#666">throughput / none; bars: the paper</text>\n'
            + "\n".join(body)
            + "\n</svg>\n"
        )


def plot(options, experiment, run):
    experiments = []
    for name, (_, values) in VARIED.items():
        for value in values:
            for entry, plan in [("none", dict(policy="user")), *ENTRIES.items()]:
                experiments.append(
                    experiment(f"{name}/{value}/{entry}", "Books", SMALLER, plan, {name: value})
                )
    commit, results = run(options.lab, experiments, options.threads)
    panels = {}
    for name, (_, values) in VARIED.items():
        rate = lambda value, entry: results[f"{name}/{value}/{entry}"]["requests_per_s"]
        panels[name] = [
            (value, {entry: rate(value, entry) / rate(value, "none") for entry in ENTRIES})
            for value in values
        ]
    draw(panels, options.dependence)
    for name, points in panels.items():
        for value, ratios in points:
            print(
                f"{name} {value:g}: " + ", ".join(f"{entry} {ratio:.2f}" for entry, ratio in ratios.items())
            )
    if options.json:
        with open(options.json, "w") as file:
            json.dump(dict(commit=commit, paper=PAPER, panels=panels), file, indent=1)
            file.write("\n")
    return 0
