#!/usr/bin/env python3
"""Does the demo's box answer over gRPC as it does over HTTP?

  tests/dialects/calls.py --troupe build/deploy/troupe

Asks by Debian's python3-grpcio, with messages that protoc makes of server/grpc/troupe.proto: rankings, scores, keys, deadlines and
refusals. Exit status 1 on any difference, 77 where grpc, protoc or a build with gRPC is missing.
"""
import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DEMO = os.path.join(ROOT, "deploy", "demo")
SKIPPED = 77


def messages(folder):
    """The module that protoc makes, or why there is none."""
    try:
        import grpc  # noqa: F401
    except ImportError:
        return None, "python3-grpcio is not installed"
    door = os.path.join(ROOT, "router", "door")
    try:
        subprocess.run(
            ["protoc", "-I", door, "--python_out=" + folder, os.path.join(door, "troupe.proto")], check=True
        )
    except (OSError, subprocess.CalledProcessError) as error:
        return None, "protoc: " + str(error)
    sys.path.insert(0, folder)
    import troupe_pb2

    return troupe_pb2, ""


def make_certificate(folder):
    """Signed by itself, for localhost."""
    subprocess.run(
        [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-days",
            "2",
            "-subj",
            "/CN=localhost",
            "-addext",
            "subjectAltName=DNS:localhost",
            "-keyout",
            os.path.join(folder, "door.key"),
            "-out",
            os.path.join(folder, "door.pem"),
        ],
        check=True,
        capture_output=True,
    )
    with open(os.path.join(folder, "door.pem"), "rb") as file:
        return file.read()


class Box:
    def __init__(self, troupe, folder, more=()):
        at = lambda name: os.path.join(folder, name)
        common = ["--model", os.path.join(DEMO, "model"), "--data-dir", at("data")]
        subprocess.run(
            [troupe, "import", *common, "--data", os.path.join(DEMO, "world")],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        self.key = subprocess.run(
            [troupe, "keys", "add", at("keys"), "--tenant", "acme"],
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()
        self.open = subprocess.run(
            [troupe, "keys", "add", at("keys")], check=True, capture_output=True, text=True
        ).stdout.strip()
        self.log = at("log")
        self.process = subprocess.Popen(
            [
                troupe,
                "serve",
                *common,
                "--port",
                "0",
                "--port-file",
                at("port"),
                "--set",
                "grpc.listen=127.0.0.1:0",
                "--set",
                f"http.api_keys={at('keys')}",
                "--set",
                "router.policy=item",
                "--set",
                "http.access_log=all",
                "--set",
                "http.body_bytes_max=64KiB",
                *more,
            ],
            stdout=open(self.log, "w"),
            stderr=subprocess.STDOUT,
        )
        while not os.path.exists(at("port")) or not open(at("port")).read().strip():
            if self.process.poll() is not None:
                raise RuntimeError(self.said())
            time.sleep(0.05)
        self.http = "http://127.0.0.1:" + open(at("port")).read().strip()
        self.grpc = "127.0.0.1:" + self.said().split("over gRPC on port ")[1].split(",")[0]

    def said(self):
        return open(self.log).read()


def ask_http(box, path, body):
    import json
    import urllib.request

    request = urllib.request.Request(
        box.http + path, json.dumps(body).encode(), {"authorization": "Bearer " + box.open}
    )
    with urllib.request.urlopen(request, timeout=60) as reply:
        return json.loads(reply.read())


def try_calls(box, pb):
    import grpc

    wrong = []

    def check(holds, what):
        print(("ok      " if holds else "FAILED  ") + what)
        wrong.extend([] if holds else [what])

    channel = grpc.insecure_channel(box.grpc)

    def call(name, request, reply, key=box.open, timeout=30, more=(), compression=None):
        method = channel.unary_unary(
            "/troupe.v1.Troupe/" + name,
            request_serializer=lambda m: m.SerializeToString(),
            response_deserializer=reply.FromString,
        )
        try:
            return method(
                request,
                timeout=timeout,
                metadata=[("authorization", "Bearer " + key), *more],
                compression=compression,
            )
        except grpc.RpcError as error:
            return error

    def refused_bytes(message):
        try:
            channel.unary_unary("/troupe.v1.Troupe/Rank")(message, timeout=30)
        except grpc.RpcError as error:
            return error.code()

    def refused(answer, status, code):
        trailing = dict(answer.trailing_metadata() or ()) if isinstance(answer, grpc.RpcError) else {}
        return (
            isinstance(answer, grpc.RpcError)
            and answer.code() == status
            and trailing.get("troupe-code") == code
        )

    candidates = ["camp-0001", "camp-0002", "camp-0003"]
    asked = pb.RankRequest(user="ana", candidates=candidates, top_k=2)
    ranked = call("Rank", asked, pb.RankReply)
    over_http = ask_http(box, "/v1/rank", {"user": "ana", "candidates": candidates, "top_k": 2})
    check(
        [(item.id, item.title) for item in ranked.items]
        == [(item["id"], item["title"]) for item in over_http["items"]]
        and all(abs(a.score - b["score"]) < 1e-4 for a, b in zip(ranked.items, over_http["items"]))
        and ranked.model_version == over_http["model_version"]
        and ranked.timings.total > 0,
        "a ranking is HTTP's",
    )
    score = pb.ScoreRequest(
        query=[1, 2, 3],
        items=[pb.TokenList(tokens=[5, 6]), pb.TokenList(tokens=[7])],
        label_tokens=[8, 9],
        apply_softmax=True,
    )
    scored = call("Score", score, pb.ScoreReply)
    truth = ask_http(
        box,
        "/v1/score",
        {
            "query": [1, 2, 3],
            "items": [{"tokens": [5, 6]}, {"tokens": [7]}],
            "label_tokens": [8, 9],
            "apply_softmax": True,
        },
    )
    check(
        all(
            abs(a - b) < 1e-5
            for row, other in zip(scored.items, truth["items"])
            for a, b in zip(row.scores, other["scores"])
        )
        and len(scored.items) == 2,
        "scores are HTTP's",
    )
    code = grpc.StatusCode
    check(
        refused(
            call("Generate", pb.GenerateRequest(user="ana"), pb.GenerateReply),
            code.FAILED_PRECONDITION,
            "not_a_generator",
        ),
        "a ranker generates nothing",
    )
    check(
        refused(call("Rank", asked, pb.RankReply, key="tk-none-none"), code.UNAUTHENTICATED, "bad_key"),
        "another key is none",
    )
    answer = call("Rank", asked, pb.RankReply, key=box.key)
    check(refused(answer, code.NOT_FOUND, "unknown_user"), "a key's tenant has users of its own")
    check(
        refused(
            call("Rank", asked, pb.RankReply, key=box.key, more=[("x-troupe-tenant", "other")]),
            code.PERMISSION_DENIED,
            "not_your_tenant",
        ),
        "and may not ask for another's",
    )
    check(
        refused(
            call("Rank", pb.RankRequest(user="ana", candidates=["camp-0001", "none"]), pb.RankReply),
            code.NOT_FOUND,
            "unknown_item",
        ),
        "an unknown item is not found",
    )
    check(
        refused(
            call("Rank", pb.RankRequest(user="ana", candidates=candidates, model="other"), pb.RankReply),
            code.NOT_FOUND,
            "unknown_model",
        ),
        "a model that is not served is not found",
    )
    # A thousandth of a second, which gRPC tells no finer: it is enough, or over, or the router sees at once that it is not.
    codes = {
        answer.code() if isinstance(answer, grpc.RpcError) else code.OK
        for answer in (call("Rank", asked, pb.RankReply, timeout=0.001) for _ in range(20))
    }
    check(
        codes <= {code.OK, code.DEADLINE_EXCEEDED, code.UNAVAILABLE},
        "a deadline is kept: " + ", ".join(sorted(found.name for found in codes)),
    )
    answer = call("Rank", pb.RankRequest(user="a" * 70000, candidates=candidates), pb.RankReply)
    check(
        isinstance(answer, grpc.RpcError) and answer.code() == code.RESOURCE_EXHAUSTED,
        "a message that is too large is not read",
    )
    answer = call("Rank", asked, pb.RankReply, compression=grpc.Compression.Gzip)
    check(
        isinstance(answer, grpc.RpcError) and answer.code() == code.UNIMPLEMENTED,
        "a message that is packed is not unpacked",
    )
    check(
        refused(
            call("Rank", pb.RankRequest(user="ana", candidates=[""] * 20000), pb.RankReply),
            code.INVALID_ARGUMENT,
            "too_many_candidates",
        ),
        "a list that is too long is not copied",
    )
    empty = pb.ScoreRequest(query=[1], items=[pb.TokenList()] * 20000, label_tokens=[8])
    check(
        refused(call("Score", empty, pb.ScoreReply), code.INVALID_ARGUMENT, "too_many_items"),
        "nor one of lists",
    )
    check(
        refused(
            call("Rank", asked, pb.RankReply, more=[("authorization", "Bearer " + box.key)]),
            code.INVALID_ARGUMENT,
            "repeated_key",
        )
        and refused(
            call("Rank", asked, pb.RankReply, key=box.key, more=[("x-troupe-tenant", "acme")] * 2),
            code.INVALID_ARGUMENT,
            "repeated_tenant",
        ),
        "several keys or tenants are none",
    )
    check(refused_bytes(b"\xff\xff") == code.INVALID_ARGUMENT, "bytes that are no message are refused")
    call(
        "Rank",
        asked,
        pb.RankReply,
        more=[
            ("x-request-id", "of-a-call"),
            ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        ],
    )
    deadline = time.time() + 10
    while "of-a-call" not in box.said() and time.time() < deadline:
        time.sleep(0.05)
    line = next((line for line in box.said().splitlines() if "of-a-call" in line), "")
    check(
        "/troupe.v1.Troupe/Rank" in line and "0af7651916cd43dd8448eb211c80319c" in line,
        "the access log has its route, request and trace",
    )
    return wrong


def try_certificates(troupe, folder, pb):
    """New connections are shown the certificate that was read last, and those that are there go on."""
    import grpc

    wrong = []
    first = make_certificate(folder)
    box = Box(
        troupe,
        folder,
        ["--set", f"http.tls_certificate={folder}/door.pem", "--set", f"http.tls_key={folder}/door.key"],
    )

    def connect(authority):
        return grpc.secure_channel(
            "localhost:" + box.grpc.split(":")[1],
            grpc.ssl_channel_credentials(authority),
            [("grpc.use_local_subchannel_pool", 1)],
        )

    def answers(channel, timeout=30):
        method = channel.unary_unary(
            "/troupe.v1.Troupe/Score", lambda m: m.SerializeToString(), pb.ScoreReply.FromString
        )
        request = pb.ScoreRequest(query=[1, 2, 3], items=[pb.TokenList(tokens=[5])], label_tokens=[8, 9])
        try:
            method(request, timeout=timeout, metadata=[("authorization", "Bearer " + box.open)])
            return True
        except grpc.RpcError:
            return False

    def check(holds, what):
        print(("ok      " if holds else "FAILED  ") + what)
        wrong.extend([] if holds else [what])

    try:
        before = connect(first)
        check(answers(before), "over TLS")
        second = make_certificate(folder)
        check(answers(connect(first)), "another certificate is none before SIGHUP")
        box.process.send_signal(signal.SIGHUP)
        deadline = time.time() + 20
        while '"reloaded"' not in box.said() and time.time() < deadline:
            time.sleep(0.05)
        check(answers(connect(second)), "new connections are shown the new certificate")
        check(not answers(connect(first), timeout=2), "and no other")
        check(answers(before), "a connection that was there goes on")
    finally:
        box.process.terminate()
        box.process.wait(40)
    return wrong


def main(argv):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--troupe", required=True)
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="troupe-calls-") as folder:
        pb, why = messages(folder)
        if not pb:
            print("skipped: " + why)
            return SKIPPED
        try:
            box = Box(args.troupe, folder)
        except RuntimeError as error:
            print(("skipped: " if "without gRPC" in str(error) else "FAILED  ") + str(error)[-300:])
            return SKIPPED if "without gRPC" in str(error) else 1
        try:
            wrong = try_calls(box, pb)
        finally:
            box.process.terminate()
            ended = box.process.wait(40)
        os.makedirs(os.path.join(folder, "secure"))
        if shutil.which("openssl"):
            wrong += try_certificates(args.troupe, os.path.join(folder, "secure"), pb)
        return 1 if wrong or ended else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
