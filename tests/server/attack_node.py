"""The nodes that attack.py and tenants.py measure: one of their own, or one that runs."""
import json
import os
import re
import subprocess
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from served_node import ServedNode

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# On a busy machine the node measures a slow pace and refuses requests that would miss their deadline. These
# settings prevent that where only the bounds are judged.
UNTIMED = ["router.deadline=10min", "router.deadline_max=10min", "router.tenant_work_max=10min"]


def made_key(troupe, file, *more):
    out = subprocess.run([troupe, "keys", "add", file, *more], check=True, capture_output=True, text=True)
    return re.search(r"tk-\S+", out.stdout)[0]


class Running:
    def __init__(self, args):
        host, port = args.server.rsplit(":", 1)
        self.server, self.pid, self.fields, self.attackers_key = (host, int(port)), args.pid, {}, ""
        self.request = self.large = json.dumps({"user": args.user, "candidates": args.candidates.split(",")})

    def log_bytes(self):
        return 0  # it writes elsewhere

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


class Own(ServedNode):
    """A node of its own on the demo world.

    All settings but the port have defaults; --untimed sets deadlines, and `attacker` other than "open" gives
    the node keys: one of the honest client's, one of the tenant "attacker".
    """

    def __init__(self, args, attacker="open"):
        super().__init__("troupe-server-")
        world, model = os.path.join(ROOT, "deploy/demo/world"), os.path.join(ROOT, "deploy/demo/model")
        common = ["--model", model, "--data-dir", self.at("data")]
        subprocess.run(
            [args.troupe, "import", *common, "--data", world], check=True, stdout=subprocess.DEVNULL
        )
        settings = [*(UNTIMED if args.untimed else []), *args.set]
        self.log = self.at("log")
        self.fields, self.attackers_key = {}, ""
        if attacker != "open":
            keys = self.at("keys.jsonl")
            self.fields = {"authorization": "Bearer " + made_key(args.troupe, keys)}
            attackers_key = made_key(args.troupe, keys, "--tenant", "attacker")
            self.attackers_key = attackers_key if attacker == "tenant" else ""
            settings.append("http.api_keys=" + keys)
        sets = [word for setting in settings for word in ("--set", setting)]
        errors = open(self.log, "w") if not os.environ.get("NODE_STDERR") else None
        self.server = ("127.0.0.1", self.start([args.troupe, "serve", *common, *sets], stderr=errors))
        self.pid = self.process.pid
        with open(os.path.join(world, "items.jsonl")) as items:
            ids = [json.loads(line)["id"] for line, _ in zip(items, range(1000))]
        with open(os.path.join(world, "users.jsonl")) as users:
            user = json.loads(users.readline())
        self.request = json.dumps({"user": user["id"], "candidates": ids[:100]})
        self.large = json.dumps({"user": user["id"], "candidates": ids, "policy": "recompute"})

    def log_bytes(self):
        return os.path.getsize(self.log) if os.path.exists(self.log) else 0
