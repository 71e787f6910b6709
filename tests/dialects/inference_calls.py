"""Calls of the Open Inference Protocol over gRPC, for calls.py: typed and raw tensors, metadata, refusals."""
import struct

import grpc
import open_inference_pb2 as oip

CANDIDATES = ["camp-0001", "camp-0002", "camp-0003"]


def request_of(form, candidates=CANDIDATES, **more):
    """Returns a ranking whose data is in `contents` (typed), or raw as tritonclient sends it."""
    request = oip.ModelInferRequest(**{"model_name": "troupe", "id": "42", **more})
    for name, texts in (("user", ["ana"]), ("candidates", candidates)):
        data = [text.encode() for text in texts]
        tensor = request.inputs.add(name=name, datatype="BYTES", shape=[len(data)])
        if form == "typed":
            tensor.contents.bytes_contents.extend(data)
        else:
            packed = b"".join(struct.pack("<I", len(text)) + text for text in data)
            request.raw_input_contents.append(packed)
    return request


def raw_texts(raw):
    texts = []
    while raw:
        end = 4 + struct.unpack("<I", raw[:4])[0]
        texts.append(raw[4:end].decode())
        raw = raw[end:]
    return texts


def outputs_of(reply):
    """Returns the data of a reply's outputs by name, whichever form it has."""
    outputs = {}
    for index, output in enumerate(reply.outputs):
        if not reply.raw_output_contents:
            texts = [text.decode() for text in output.contents.bytes_contents]
            outputs[output.name] = texts or list(output.contents.fp64_contents)
        elif output.datatype == "BYTES":
            outputs[output.name] = raw_texts(reply.raw_output_contents[index])
        else:
            numbers = struct.unpack(f"<{output.shape[0]}d", reply.raw_output_contents[index])
            outputs[output.name] = list(numbers)
    return outputs


class Caller:
    def __init__(self, node, channel):
        self.key, self.channel = node.open, channel

    def ask(self, method, request, reply, has_key=True):
        """Returns the reply, or the error."""
        metadata = [("authorization", "Bearer " + self.key)] if has_key else []
        path = "/inference.GRPCInferenceService/" + method
        call = self.channel.unary_unary(path, lambda m: m.SerializeToString(), reply.FromString)
        try:
            return call(request, timeout=30, metadata=metadata)
        except grpc.RpcError as error:
            return error

    def infer(self, request, has_key=True):
        return self.ask("ModelInfer", request, oip.ModelInferResponse, has_key)


def refused(answer, status, code):
    if not isinstance(answer, grpc.RpcError) or answer.code() != status:
        return False
    return dict(answer.trailing_metadata() or ()).get("troupe-code") == code


def try_metadata(caller, check):
    live = caller.ask("ServerLive", oip.ServerLiveRequest(), oip.ServerLiveResponse, has_key=False)
    ready = caller.ask("ServerReady", oip.ServerReadyRequest(), oip.ServerReadyResponse, has_key=False)
    check(live.live and ready.ready, "the Open Inference Protocol tells health without a key")
    server = caller.ask("ServerMetadata", oip.ServerMetadataRequest(), oip.ServerMetadataResponse)
    model = caller.ask("ModelMetadata", oip.ModelMetadataRequest(name="troupe"), oip.ModelMetadataResponse)
    ready = caller.ask("ModelReady", oip.ModelReadyRequest(name="troupe"), oip.ModelReadyResponse)
    check(
        server.name == "troupe"
        and server.version != ""
        and [tensor.name for tensor in model.inputs] == ["user", "candidates"]
        and [tensor.name for tensor in model.outputs] == ["items", "scores", "probabilities"]
        and ready.ready,
        "its metadata name the inputs and outputs of the model, which is ready",
    )


def try_rankings(caller, over_http, check):
    truth = {output["name"]: output["data"] for output in over_http["outputs"]}
    for form in ("typed", "raw"):
        reply = caller.infer(request_of(form))
        if isinstance(reply, grpc.RpcError):
            check(False, f"a ranking of {form} tensors: {reply.details()}")
            continue
        found = outputs_of(reply)
        numbers = [pair for name in ("scores", "probabilities") for pair in zip(found[name], truth[name])]
        check(
            found.keys() == truth.keys()
            and found["items"] == truth["items"] == CANDIDATES
            and len(numbers) == 6
            and all(abs(a - b) < 1e-4 for a, b in numbers)
            and bool(reply.raw_output_contents) == (form == "raw")
            and (reply.id, reply.model_version) == ("42", over_http["model_version"]),
            f"a ranking of {form} tensors equals that over HTTP",
        )


def try_refusals(caller, check):
    status = grpc.StatusCode
    short = request_of("raw")
    del short.raw_input_contents[1]
    logits = [oip.ModelInferRequest.InferRequestedOutputTensor(name="logits")]
    for request, expected, code in (
        (request_of("typed", ["camp-0001", "none"]), status.NOT_FOUND, "unknown_item"),
        (request_of("raw", model_name="other"), status.NOT_FOUND, "unknown_model"),
        (request_of("typed", outputs=logits), status.INVALID_ARGUMENT, "unknown_output"),
        (short, status.INVALID_ARGUMENT, "wrong_type"),
    ):
        check(refused(caller.infer(request), expected, code), f"its refusals are those of HTTP: {code}")
    answer = caller.infer(request_of("typed"), has_key=False)
    check(refused(answer, status.UNAUTHENTICATED, "no_key"), "its rankings need a key")
    answer = caller.ask("ModelStreamInfer", request_of("typed"), oip.ModelInferResponse)
    check(
        refused(answer, status.UNIMPLEMENTED, "unknown_method") and "ModelStreamInfer" in answer.details(),
        "streams are refused by name",
    )


def try_all(node, channel, ask_http, check):
    caller = Caller(node, channel)
    tensors = [
        {"name": "user", "shape": [1], "datatype": "BYTES", "data": ["ana"]},
        {"name": "candidates", "shape": [3], "datatype": "BYTES", "data": CANDIDATES},
    ]
    try_metadata(caller, check)
    try_rankings(caller, ask_http(node, "/v2/models/troupe/infer", {"inputs": tensors}), check)
    try_refusals(caller, check)
