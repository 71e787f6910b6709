#!/usr/bin/env python3
"""Checks that OpenAI's own client works with a node that serves a generator, and gets the right completions.

  tests/generate/clients.py --troupe build/deploy/troupe --install
  TROUPE_OPENAI=FOLDER tests/generate/clients.py --troupe build/deploy/troupe

clients.mjs uses the npm package `openai`: models, completions by token ids and by words, searches of
several widths, and mistakes. Items must equal those of the golden file and of /v1/generate. --install
gets the package from the registry into a temporary folder; without it, TROUPE_OPENAI names its folder
(npm install --prefix FOLDER openai). Exit status 1 on any difference; 77 if node, the package or the data
is missing.
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile

from generate_node import SKIPPED, Node, Client, missing, model_folder
from npm_packages import install  # from the folder above, which generate_node adds

MODEL = "tiny-onerec"
PACKAGE = "openai@6.49.0"


def ask(troupe, folder):
    golden_file, vocabulary = (
        os.path.join(model_folder(MODEL), name) for name in ("golden.json", "vocab.json")
    )
    with Node(troupe, MODEL) as node:
        client = Client(node.server)
        for number, case in enumerate(json.load(open(golden_file))["cases"]):
            client.put_user(f"golden-{number}", case["history"])
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "clients.mjs")
        address = f"{node.server[0]}:{node.server[1]}"
        return subprocess.run(["node", script, folder, address, golden_file, vocabulary]).returncode


def skip(why):
    print("skipped: " + why)
    return SKIPPED


def main(argv):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--troupe", required=True)
    parser.add_argument("--install", action="store_true")
    args = parser.parse_args(argv)
    if missing():
        return skip(os.path.basename(missing()) + " is not beside the checkout")
    for program in ("node", "npm") if args.install else ("node",):
        if not shutil.which(program):
            return skip(program + " is not installed")
    with tempfile.TemporaryDirectory(prefix="troupe-openai-") as temporary:
        folder = temporary if args.install else os.environ.get("TROUPE_OPENAI", "")
        why_not = install(folder, PACKAGE) if args.install else ""
        if why_not:
            return skip(why_not)
        if not os.path.isdir(os.path.join(folder, "node_modules", "openai")):
            return skip("no package openai; expected --install, or TROUPE_OPENAI=FOLDER")
        return 1 if ask(args.troupe, os.path.abspath(folder)) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
