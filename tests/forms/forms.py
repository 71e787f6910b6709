"""Finds the form that declares the arrangements of a shared ranker, for scripts that serve it."""
import os

HERE = os.path.dirname(os.path.abspath(__file__))
FORMS = {"tiny-ranker-games": "games.json", "tiny-ranker-titles": "titles.json"}


def form_of(model):
    """Returns the form file of a shared ranker, by the name of its directory.

    Returns "" for any other model: its own prompt.json, or the default form, applies.
    """
    name = FORMS.get(os.path.basename(os.path.realpath(model)))
    return os.path.join(HERE, name) if name else ""


def options_of(model):
    """Returns the options that give the form to a command; [] = none is needed.

    A setting is used, not --prompt, because results of `bench rank` record settings, and
    `sim --compare` reads them there.
    """
    form = form_of(model)
    return ["--set", f"model.prompt={form}"] if form else []


def member_of(model):
    """Returns the form as a further member behind `directory` in a configuration; "" = none is needed."""
    form = form_of(model)
    return f", prompt: {form}" if form else ""
