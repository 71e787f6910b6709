"""Generates a small Python client from an OpenAPI document, as code generators do, and uses it.

The generated module has an exception for each error status, with its codes, and a function for each
operation. client_test.py compiles it and sends the document's examples through it to a node on the demo
world.
"""

import keyword
import re

HEAD = '''"""Generated from /openapi.json."""
import json
import urllib.error
import urllib.parse
import urllib.request


class ApiError(Exception):
    CODES = ()

    def __init__(self, status, error):
        super().__init__(f"{status} {error.get('code')}: {error.get('message')}")
        self.status, self.code, self.error = status, error.get("code"), error


def call(base, method, path, body, kind):
    data = None if body is None else body.encode() if isinstance(body, str) else json.dumps(body).encode()
    request = urllib.request.Request(base + path, data, {"content-type": kind}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as reply:
            text = reply.read().decode()
            is_json = reply.headers.get_content_type() == "application/json"
            return json.loads(text) if is_json else text
    except urllib.error.HTTPError as refused:
        error = json.loads(refused.read())["error"]
        raise ERRORS.get(refused.code, ApiError)(refused.code, error) from None
'''


def resolved(document, node):
    """Follows a reference within the document."""
    while "$ref" in node:
        at = document
        for name in node["$ref"].removeprefix("#/").split("/"):
            at = at[name]
        node = at
    return node


def codes_of(document, response):
    """Returns the codes of an error response."""
    schema = resolved(document, response)["content"]["application/json"]["schema"]
    for part in schema.get("allOf", [schema]):
        own = part.get("properties", {}).get("error", {}).get("properties", {}).get("code", {})
        for choice in own.get("anyOf", [own]):
            if "enum" in choice:
                return tuple(choice["enum"])
    return ()


def generate(document):
    """Returns the source of a client, and its operations: function name to (method, path, operation)."""
    lines, statuses, operations = [HEAD], {}, {}
    for name, response in document["components"]["responses"].items():
        status = int(name.removeprefix("Error"))
        statuses[status] = name
        lines.append(f"\n\nclass {name}(ApiError):\n    CODES = {codes_of(document, response)!r}")
    table = ", ".join(f"{status}: {name}" for status, name in sorted(statuses.items()))
    lines.append(f"\n\nERRORS = {{{table}}}")
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            name = re.sub(r"\W", "_", operation["operationId"])
            assert name.isidentifier() and not keyword.iskeyword(name) and name not in operations, name
            operations[name] = (method, path, operation)
            places = re.findall(r"{(\w+)}", path)
            body = operation.get("requestBody")
            kind = next(iter(body["content"])) if body else "application/json"
            arguments = ", ".join(["base", *places, *(["body"] if body else [])])
            quoted = re.sub(r"{(\w+)}", r"{urllib.parse.quote(\1, safe='')}", path)
            passed = f"base, {method.upper()!r}, f{quoted!r}, {'body' if body else None}, {kind!r}"
            lines.append(
                f"\n\ndef {name}({arguments}):\n    {operation['summary']!r}\n    return call({passed})"
            )
    return "\n".join(lines) + "\n", operations


# Operations that a ranker on the demo world refuses, though the request is right, and the codes.
REFUSED = {
    "post_v1_generate": "not_a_generator",
    "post_v1_completions": "unknown_word",
    "post_tokenize": "no_tokenizer",
    "post_v1_tokenize": "no_tokenizer",
    "post_v1_models_reload": "admin_routes_off",
    "post_v1_catalog_reload": "admin_routes_off",
    "post_v1_replay": "replay_off",
}
# In an order in which each finds what it needs; all other operations follow.
FIRST = ["put_v1_users_id", "put_v1_items_id"]
LAST = ["delete_v1_users_id", "delete_v1_items_id"]
NAMES = {"id": "openapi-1", "model": "troupe"}


def use(base, document, fault_of, expect):
    """Compiles the generated client and calls each operation with its example."""
    source, operations = generate(document)
    module = {}
    exec(compile(source, "generated_client.py", "exec"), module)  # the source is this file's own
    schemas = document["components"]["schemas"]
    middle = [name for name in operations if name not in FIRST + LAST]
    for name in [*FIRST, *middle, *LAST]:
        method, path, operation = operations[name]
        answer = operation["responses"]["200"]["content"]
        kind, content = next(iter(answer.items()))
        arguments = [NAMES[place] for place in re.findall(r"{(\w+)}", path)]
        if body := operation.get("requestBody"):
            example = next(iter(body["content"].values())).get("example")
            expect(example is not None or name in REFUSED, f"{name} has an example")
            arguments.append({"prompt": "a"} if example is None else example)
        try:
            got = module[name](base, *arguments)
            expect(name not in REFUSED, f"{name} is answered")
            if kind == "application/json":
                fault = fault_of(got, content["schema"], schemas)
                expect(not fault, f"{name} answers as its schema says: {fault}")
        except module["ApiError"] as error:
            expect(error.code == REFUSED.get(name), f"{name} with its example: {error}")
            expect(error.code in type(error).CODES, f"{name}: {type(error).__name__} has {error.code}")
        if "example" in content and kind == "application/json":
            fault = fault_of(content["example"], content["schema"], schemas)
            expect(not fault, f"the example of {name}'s answer is valid: {fault}")
    try:
        module["get_v1_users_id"](base, "nobody")
        expect(False, "an unknown user is refused")
    except module["Error404"] as error:
        expect(error.code == "unknown_user", "an unknown user has the generated type of 404")
