"""Gives one of several models another version: to half of its users, to all, and back, while the other
models stay as they are. The new version is named by its directory, the old one by itself. Used by several.py
(a single node) and cluster.py."""
import os
import pathlib
import subprocess
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "..", "chaos"))
import several
from versions import make_other

MODEL, RANKER = "games", "tiny-ranker-games"
NAME = "summer"  # of the new version


def ranked(node, case, number):
    """Returns the version that answered, and its scores by item."""
    reply = node.send(
        "POST",
        "/v1/rank",
        {
            "model": MODEL,
            "user": f"golden-{number}",
            "policy": "user",
            "candidates": [str(item) for item in case["candidates"]],
        },
    )
    return reply["model_version"], {item["id"]: item["score"] for item in reply["items"]}


class Versions:
    """A folder with two versions of the ranker, and the answers of each when nothing changes."""

    def __init__(self, troupe, folder):
        self.cases = several.Golden().ranker[: several.CASES]
        self.folder = pathlib.Path(folder, "versions")
        self.folder.mkdir()
        model = pathlib.Path(several.model_folder(RANKER)).resolve()
        make_other(model, f"{folder}/other")
        self.answers = {}
        self.old = self.learn(troupe, folder, model)
        self.new = self.learn(troupe, folder, pathlib.Path(folder, "other"))

    def learn(self, troupe, folder, model):
        own = f"{folder}/alone-{len(self.answers)}"
        subprocess.run(
            [
                troupe,
                "import",
                "--model",
                model,
                "--data-dir",
                own,
                "--data",
                several.data_folder("amazon-games"),
                *several.options_of(RANKER),
            ],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        with open(f"{own}.yaml", "w") as file:
            file.write(
                f"node: {{data_dir: {own}-box}}\npool: {{memory: 24MiB, precompute_items: false}}\n"
                f"models:\n  - {{name: {MODEL}, directory: {model}{several.member_of(RANKER)}, "
                f"data_dir: {own}}}\n"
            )
        with several.Node(troupe, f"{own}.yaml", f"{own}.port") as node:
            for number, case in enumerate(self.cases):
                node.send(
                    "PUT",
                    f"/v1/users/golden-{number}?model={MODEL}",
                    {"history": [str(item) for item in case["history"]]},
                )
            answers = [ranked(node, case, number) for number, case in enumerate(self.cases)]
        version = answers[0][0]
        # The first directory is named by the version that it holds, the second has a name of its own.
        (self.folder / (NAME if self.answers else version)).symlink_to(model)
        self.answers[version] = [scores for _, scores in answers]
        return version

    def check(self, servers, what, allowed, faults):
        """Checks each answer against the version that it names; a user has one version at all servers.

        Returns the versions seen.
        """
        seen = set()
        for number, case in enumerate(self.cases):
            of_user = set()
            for node in servers:
                version, scores = ranked(node, case, number)
                of_user.add(version)
                wanted = self.answers.get(version, [{}] * len(self.cases))[number]
                off = several.apart([{"id": item, "score": score} for item, score in scores.items()], wanted)
                if off > several.TOLERANCE:
                    faults.append(f"{what}: case {number} is off from version {version[:8]} by {off:.2g}")
            if len(of_user) > 1:
                faults.append(f"{what}: case {number} has versions {sorted(of_user)}")
            seen |= of_user
        if seen != allowed:
            faults.append(f"{what}: versions {sorted(seen)} answer; expected {sorted(allowed)}")

    def give(self, servers, faults):
        """Gives the new version to half of the users, then to all."""
        status, reply = servers[0].ask("POST", "/v1/models/reload", {"model": self.new})
        if (status, reply.get("error", {}).get("code")) != (400, "which_model"):
            faults.append(f"a reload that names no model gave {status} {reply}")
        servers[0].send("POST", f"/v1/models/reload?model={MODEL}", {"model": NAME, "share": 0.5})
        listed = [model.get("version_name") for model in servers[0].send("GET", "/v1/models")["data"]]
        if listed.count(NAME) != 1:
            faults.append(f"half of the users: /v1/models lists the names {listed}; expected {NAME} once")
        for node in servers:
            listed = [
                (model["id"], model["version"], model.get("share"))
                for model in node.send("GET", "/v1/models")["data"]
            ]
            own = [model for model in listed if model[0] == MODEL]
            if (
                own != [(MODEL, self.old, None), (MODEL, self.new, 0.5)]
                or len(listed) != len(several.MODELS) + 1
            ):
                faults.append(f"half of the users: /v1/models lists {listed}")
        self.check(servers, "half of the users", {self.old, self.new}, faults)
        servers[-1].send("POST", f"/v1/models/reload?model={MODEL}", {"model": self.new})
        self.check(servers, "all of them", {self.new}, faults)

    def take_back(self, servers, faults):
        servers[0].send("POST", f"/v1/models/reload?model={MODEL}", {"model": self.old})
        self.check(servers, "taken back", {self.old}, faults)
