"""Requests for a cluster with four model families, each under its name: a Qwen3 ranker, to which the
writing clients write, a generator of semantic IDs, an HSTU and a Climber model. Needs the models and data
in ../shared beside the
checkout."""
import gzip
import json
import os
import struct

from asking import Ranking, find_fault, value_of

SHARED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "shared")
RANKER = "shop"
# Name, model, data; those of the ranker are made from the demo's.
OTHERS = [
    ("goods", "tiny-onerec", "amazon-industrial"),
    ("films", "tiny-hstu-movielens", "movielens-100k"),
    ("clips", "tiny-climber", "movielens-100k"),
]
# The only arrangement of models whose tokens are items; generations name none.
OWN_ARRANGEMENTS = {"films": "history", "clips": "towers"}
USERS = 24  # users of each of the other models
CANDIDATES, NEXT, WIDTH, TOP = 24, 5, 32, 10
NOW = 893_286_638  # the present time for HSTU: the end of its data


def missing():
    folders = [
        os.path.join(SHARED, kind, name)
        for _, model, data in OTHERS
        for kind, name in (("models", model), ("data", data))
    ]
    return next((folder for folder in folders if not os.path.isdir(folder)), "")


def make_qwen3(demo, folder):
    """Converts the demo's ranker to Qwen3: without biases, with norms of queries and keys."""
    os.makedirs(folder)
    with open(f"{demo}/config.json") as file:
        config = json.load(file)
    config.update(
        architectures=["Qwen3ForCausalLM"],
        model_type="qwen3",
        attention_bias=False,
        head_dim=config["hidden_size"] // config["num_attention_heads"],
    )
    with open(f"{demo}/model.safetensors", "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        body = file.read()
    tensors = {
        name: (of["dtype"], of["shape"], body[slice(*of["data_offsets"])])
        for name, of in header.items()
        if name != "__metadata__" and not name.endswith("_proj.bias")
    }
    for layer in range(config["num_hidden_layers"]):
        for what in ("q_norm", "k_norm"):
            ones = struct.pack(f"<{config['head_dim']}f", *([1.0] * config["head_dim"]))
            tensors[f"model.layers.{layer}.self_attn.{what}.weight"] = ("F32", [config["head_dim"]], ones)
    header, at = {}, 0
    for name, (dtype, shape, content) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(content)]}
        at += len(content)
    text = json.dumps(header).encode()
    with open(f"{folder}/model.safetensors", "wb") as file:
        file.write(
            struct.pack("<Q", len(text)) + text + b"".join(content for _, _, content in tensors.values())
        )
    with open(f"{folder}/config.json", "w") as file:
        json.dump(config, file)
    for name in ("vocab.json", "prompt.json"):
        with open(f"{demo}/{name}") as source, open(f"{folder}/{name}", "w") as file:
            file.write(source.read())
    return folder


def rows_of(*path):
    with gzip.open(os.path.join(SHARED, *path), "rt") as file:
        names = file.readline().rstrip("\n").split("\t")
        for line in file:
            yield dict(zip(names, line.rstrip("\n").split("\t")))


class Several(Ranking):
    """Requests to several models. Those to the ranker are as in a cluster that serves it alone, with its
    name added.

    The others have `name`, a path and a body.
    """

    catalog, swaps = True, False
    names = (RANKER, *(name for name, _, _ in OTHERS))
    routes = "?model=" + RANKER

    def models(self, demo, folder):
        """Returns name, directory, data and settings of each model, in order."""
        ranker = make_qwen3(f"{demo}/model", os.path.join(folder, "qwen3"))
        others = [
            (name, os.path.join(SHARED, "models", model), os.path.join(SHARED, "data", data), "")
            for name, model, data in OTHERS
        ]
        return [(RANKER, ranker, f"{demo}/world", ""), *others]

    def actors(self, routers, metas, workers):
        return 4 * (routers + workers) + metas + (4 + 2) * workers

    def requests(self, of_ranker):
        users = [
            row["user_id"]
            for _, row in zip(range(USERS), rows_of("data", "amazon-industrial", "sequences.tsv.gz"))
        ]
        films = [row for _, row in zip(range(USERS), rows_of("models", "tiny-climber", "eval.tsv.gz"))]
        candidates = lambda row: row["candidates"].split()[:CANDIDATES]
        goods = [("/v1/generate", {"user": user, "width": WIDTH, "top_k": TOP}) for user in users]
        hstu = [
            ("/v1/rank", {"user": row["user_id"], "candidates": candidates(row), "request_timestamp": NOW})
            for row in films
        ]
        clips = [
            (
                "/v1/rank",
                {"user": row["user_id"], "candidates": candidates(row), "scenario": int(row["scenario"])},
            )
            for row in films
        ]
        others = [
            [
                {
                    "name": name,
                    "user": f"{name}/{body['user']}",
                    "path": path,
                    "body": {**body, "model": name},
                }
                for path, body in some
            ]
            for (name, _, _), some in zip(OTHERS, (goods, hstu, clips))
        ]
        return [request for turn in zip(of_ranker, *others) for request in turn]

    def learn(self, node, requests, written):
        super().learn(node, [request for request in requests if "name" not in request], written)
        for request in requests:
            if "name" not in request:
                continue
            body = dict(request["body"])
            if "top_k" in body:
                body["top_k"] += NEXT
            reply = node.ask("POST", request["path"], body)
            self.answers[request["user"]] = {item["id"]: value_of(item) for item in reply["items"]}

    def path_of(self, request):
        return request.get("path", self.path)

    def find_other_than_plain(self, demo, requests):
        return ""  # its ranker is of another architecture

    def named(self, request, **members):
        return {**request, **members, "model": RANKER}

    def body(self, request, turn):
        return request["body"] if "name" in request else super().body(request, turn)

    def plan_of(self, reply):
        return reply.get("plan", "generated")

    def told(self, request, reply):
        """Returns what the history notes about an answer, before the node."""
        return f"{request.get('name', RANKER)} {self.plan_of(reply)}"

    def fault(self, request, turn, reply):
        if "name" not in request:
            return super().fault(request, turn, reply)
        wanted = OWN_ARRANGEMENTS.get(request["name"])
        if reply.get("arrangement") != wanted:
            return f"arrangement {reply.get('arrangement')} of {request['name']}; expected {wanted}"
        generated = request["path"] == "/v1/generate"
        return find_fault(
            reply, self.answers[request["user"]], 5e-4 if generated else self.tolerance, more=generated
        )
