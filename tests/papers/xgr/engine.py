"""Runs of the engine alone: `troupe-lab bench generate`, all search variants in turn for each request, on one
core. A result is named "shape width prompt vocabulary/variant, normalisation"."""

import json
import os
import subprocess
import sys

SHARED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "..", "shared")
# Trained generators, the data of their catalogs, and how many test events are searched.
TRAINED = {"tiny-onerec": ("amazon-industrial", 1500), "tiny-onerec-beauty": ("amazon-beauty", 4000)}
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


def commit(lab):
    """Returns the commit that the program names: "troupe-lab 0.1.0, commit 0123abcd"."""
    said = subprocess.run([lab, "--version"], stdout=subprocess.PIPE, check=True, text=True).stdout
    return said.strip().rpartition(" ")[2]


def flat(run):
    """Returns a run's numbers, the parts of its CPU time in milliseconds a request."""
    numbers = {key: value for key, value in run.items() if isinstance(value, (int, float))}
    for part, milliseconds in run["cpu_ms_by_part"].items():
        numbers[part] = milliseconds / run["requests"]
    return numbers


def bench(lab, options):
    """Returns the runs of `troupe-lab bench generate`."""
    command = [lab, "bench", "generate", "--json", "-"]
    for name, value in options.items():
        command += [f"--{name}", str(value)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit status {done.returncode}: {done.stderr.strip()[-500:]}")
    return json.loads(done.stdout)["runs"]


def run(lab, point):
    """Returns name → result of all variants under both normalisations."""
    options = dict(
        shape=point.shape,
        width=point.width,
        prompt=point.prompt,
        vocabulary=point.vocabulary,
        codes=point.codes,
        requests=point.requests,
        engines=",".join(VARIANTS),
        normalised="vocabulary,allowed",
    )
    return {point.of(one["engine"], one["normalised"]): flat(one) for one in bench(lab, options)}


def recall_name(model, normalised):
    return f"recall {model}/troupe, {normalised}"


def trained_models():
    """Returns those of the trained models that are beside the checkout, with their data."""
    folders = lambda model: [f"{SHARED}/models/{model}", f"{SHARED}/data/{TRAINED[model][0]}"]
    return [model for model in TRAINED if all(map(os.path.isdir, folders(model)))]


def recall(lab, model):
    """Returns name → result of a trained model's searches under both normalisations."""
    data, events = TRAINED[model]
    options = dict(
        model=f"{SHARED}/models/{model}",
        data=f"{SHARED}/data/{data}",
        width=128,
        requests=events,
        engines="troupe",
        normalised="vocabulary,allowed",
    )
    return {recall_name(model, one["normalised"]): flat(one) for one in bench(lab, options)}


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
