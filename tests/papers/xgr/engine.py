"""Runs of the engine alone: `troupe-lab bench generate`, all search variants in turn for each request, on one
core. A result is named "shape width prompt vocabulary/variant, normalisation"."""

import json
import subprocess
import sys

VARIANTS = ["troupe", "independent", "tree", "full sort", "unconstrained"]
VOCABULARY = 32_768  # of the shapes


class Point:
    """One setting of a run."""

    def __init__(self, shape, width, prompt, vocabulary=VOCABULARY, codes=256, requests=5):
        self.shape, self.width, self.prompt, self.requests = shape, width, prompt, requests
        self.vocabulary, self.codes = vocabulary, codes

    @property
    def name(self):
        return f"{self.shape} {self.width} {self.prompt} {self.vocabulary}"

    def of(self, variant, normalised="allowed"):
        return f"{self.name}/{variant}, {'vocabulary' if variant == 'unconstrained' else normalised}"


def flat(run):
    """Returns a run's numbers, the parts of its CPU time in milliseconds a request."""
    numbers = {key: value for key, value in run.items() if isinstance(value, (int, float))}
    for part, milliseconds in run["cpu_ms_by_part"].items():
        numbers[part] = milliseconds / run["requests"]
    return numbers


def run(lab, point):
    """Returns name → result of all variants under both normalisations."""
    command = [lab, "bench", "generate", "--shape", point.shape, "--json", "-"]
    options = dict(
        width=point.width,
        prompt=point.prompt,
        vocabulary=point.vocabulary,
        codes=point.codes,
        requests=point.requests,
        engines=",".join(VARIANTS),
        normalised="vocabulary,allowed",
    )
    for name, value in options.items():
        command += [f"--{name}", str(value)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit status {done.returncode}: {done.stderr.strip()[-500:]}")
    return {
        point.of(one["engine"], one["normalised"]): flat(one) for one in json.loads(done.stdout)["runs"]
    }


def points(shapes, widths):
    """The paper's widths and two of its prompt lengths (Figures 15 to 17)."""
    return [
        Point(shape, width, prompt, requests=5 if shape == "tiny" else 2)
        for shape in shapes
        for width in widths
        for prompt in (1024, 3072)
    ]


def vocabularies(width=256, prompt=3072):
    """Models whose tokens all are of identifiers, as a generative recommender's are."""
    return [
        Point("tiny", width, prompt, vocabulary, min(vocabulary // 3, 8192))
        for vocabulary in (800, 2048, 8192, VOCABULARY)
    ]
