"""A client of Troupe's HTTP API that needs only Python's standard library. Copy this file beside your
program.

    from troupe import Client, TroupeError

    with Client("127.0.0.1:8080", tenant="shop") as troupe:
        troupe.put_user("ana", history=["camp-0001"])
        reply = troupe.rank("ana", ["camp-0002", "tune-0007"], top_k=1)
        print(reply["items"][0]["id"], reply["plan"], reply["timings"]["total"])

Replies are the bodies that docs/reference/http.md describes, as dictionaries. A refusal raises TroupeError,
with status, code, message, where, expected and, if the server sent it, retry_after. A client keeps one
connection and must not be used by two threads at once.

Each path of /openapi.json has a method: OPERATIONS says which. Many users, items, events or rankings in
one call are sent by lines, 1,000 in a request, and give a result for each: status 200, or an error.

The client retries up to `retries` times: after a broken connection, and after 429 and 503. It then waits
as long as the server says, at most `retry_wait` seconds. All calls may be repeated; a write whose answer
was lost is written again.
"""
from __future__ import annotations

import http.client
import json
import ssl
import time
import urllib.parse
from typing import Any, Iterable, Iterator, Mapping, Optional, Sequence, Union

Json = dict[str, Any]
Items = Sequence[str]
Prompt = Union[str, Sequence[int]]
History = Union[Items, Mapping[str, Any]]
Inputs = Union[str, Items, Mapping[str, Any], Sequence[int], Sequence[Sequence[int]]]

LINES_MAX = 1000  # of one request

# The method of this client for each operation of /openapi.json. Paths that answer the same share one.
OPERATIONS = {
    "post /v1/rank": "rank",
    "post /v1/generate": "generate",
    "post /v1/score": "score",
    "post /score": "score_texts",
    "post /generative_scoring": "generative_score",
    "post /v1/completions": "complete",
    "post /v1/rerank": "rerank",
    "post /v2/rerank": "rerank",
    "post /rerank": "rerank",
    "post /v1/embeddings": "embed",
    "post /tokenize": "tokenize",
    "post /v1/tokenize": "tokenize",
    "get /v1/users/{id}": "get_user",
    "put /v1/users/{id}": "put_user",
    "delete /v1/users/{id}": "delete_user",
    "post /v1/users/{id}/events": "append_events",
    "post /v1/users": "put_users",
    "post /v1/items": "put_items",
    "post /v1/events": "append_many",
    "get /v1/items/{id}": "get_item",
    "put /v1/items/{id}": "put_item",
    "delete /v1/items/{id}": "delete_item",
    "post /v1/models/reload": "reload_model",
    "post /v1/catalog/reload": "reload_catalog",
    "post /v1/replay": "replay",
    "get /v1/models": "models",
    "get /v1/cluster": "cluster",
    "get /v1/slowest": "slowest",
    "get /info": "info",
    "get /v2": "server",
    "get /v2/models/{model}": "model_metadata",
    "get /v2/models/{model}/ready": "is_model_ready",
    "post /v2/models/{model}/infer": "infer",
    "get /v2/health/live": "is_live",
    "get /v2/health/ready": "is_ready",
    "get /livez": "is_live",
    "get /healthz": "is_live",
    "get /readyz": "is_ready",
    "get /health": "is_ready",
    "get /ping": "is_ready",
    "get /openapi.json": "openapi",
    "get /metrics": "metrics",
    "get /": "page",
}


class TroupeError(Exception):
    """A refusal by the server; `status` and `code` tell whether to fix the request or to try again."""

    status: int
    code: str
    message: str
    where: str
    expected: str
    request_id: str
    retry_after: Optional[int]

    def __init__(self, status: int, error: Any, headers: Mapping[str, str]) -> None:
        if not isinstance(error, Mapping):  # of a program before the server, such as a load balancer
            error = {"message": str(error)}
        self.status, self.code = status, error.get("code", "")
        self.message, self.where, self.expected = (
            error.get(name, "") for name in ("message", "where", "expected")
        )
        self.request_id = headers.get("x-request-id", "")
        try:
            self.retry_after = int(headers.get("retry-after", ""))
        except ValueError:
            self.retry_after = None
        super().__init__(f"{status} {self.code}: {self.message} (at {self.where}; expected {self.expected})")


class Client:
    request_id: str
    traceparent: str

    def __init__(
        self,
        server: str = "127.0.0.1:8080",
        tenant: str = "",
        key: str = "",
        model: str = "",
        timeout: float = 30.0,
        retries: int = 2,
        retry_wait: float = 2.0,
        tls: Optional[ssl.SSLContext] = None,
    ) -> None:
        """server: host:port, or a URL. key: API key, sent as a bearer token. model: name of the model, for a
        server with several. timeout, retry_wait: seconds. tls: an ssl.SSLContext."""
        url = urllib.parse.urlsplit(server if "//" in server else "http://" + server)
        if url.scheme not in ("http", "https") or not url.hostname:
            raise ValueError(f"server is {server!r}; expected host:port or http://host:port")
        self._make = lambda: (
            http.client.HTTPSConnection(
                url.hostname, url.port or 443, timeout=timeout, context=tls or ssl.create_default_context()
            )
            if url.scheme == "https"
            else http.client.HTTPConnection(url.hostname, url.port or 80, timeout=timeout)
        )
        self._headers = {"content-type": "application/json"}
        if tenant:
            self._headers["x-troupe-tenant"] = tenant
        if key:
            self._headers["authorization"] = "Bearer " + key
        self._model, self._retries, self._retry_wait, self._connection = model, retries, retry_wait, None
        self.request_id = self.traceparent = ""  # of the last response

    # ---- ranking, generating, scoring ----

    # history: in place of a user, item ids, or the members of a stored user, such as
    # {"history": ["50"], "timestamps": [881250949]}; empty = a user without events. unknown_user="cold": a
    # user that is not stored is answered as one without events, and the reply says so.

    def rank(
        self, user: str = "", candidates: Items = (), history: Optional[History] = None, **options: Any
    ) -> Json:
        """Ranks the candidates (item ids) for a user, or for a history without a profile. options: top_k,
        policy, arrangement, approximate, request_timestamp, scenario, task, features, unknown, unknown_user,
        explain, budget_us."""
        body = {**self._asker(user, history), "candidates": list(candidates), **options}
        return self._ask("POST", "/v1/rank", self._of_model(body))

    def rank_many(self, requests: Iterable[Mapping[str, Any]]) -> Iterator[Json]:
        """Ranks for many users; each request has the members of a ranking. Yields a result for each."""
        return self._lines("/v1/rank", requests)

    def generate(self, user: str = "", history: Optional[History] = None, **options: Any) -> Json:
        """Generates items for a user, or for a history without a profile. options: top_k, width,
        exclude_seen, allow, deny, normalised, logprobs, request_timestamp, features, unknown_user,
        budget_us."""
        return self._ask("POST", "/v1/generate", self._of_model({**self._asker(user, history), **options}))

    def score(
        self,
        query: Sequence[int],
        items: Sequence[Sequence[int]],
        label_tokens: Sequence[int],
        **options: Any,
    ) -> Json:
        """Scores items by the logits of the label tokens. query: tokens. items: lists of tokens.
        options: apply_softmax, budget_us."""
        body = {
            "query": list(query),
            "items": [{"tokens": list(item)} for item in items],
            "label_tokens": list(label_tokens),
            **options,
        }
        return self._ask("POST", "/v1/score", self._of_model(body))

    def score_texts(self, text_1: Union[str, Items], text_2: Union[str, Items], **options: Any) -> Json:
        """Scores pairs of texts in vLLM's form; of a model of items, a user's id and item ids."""
        return self._ask("POST", "/score", self._of_model({"text_1": text_1, "text_2": text_2, **options}))

    def generative_score(
        self,
        query: Prompt,
        items: Sequence[Prompt],
        label_token_ids: Sequence[int],
        **options: Any,
    ) -> Json:
        """Returns the first label's probability behind each item, in vLLM's form."""
        body = {"query": query, "items": list(items), "label_token_ids": list(label_token_ids), **options}
        return self._ask("POST", "/generative_scoring", self._of_model(body))

    def complete(self, prompt: Prompt, **options: Any) -> Json:
        """Completes a prompt. options: max_tokens, n, beam_width, items, logprobs, budget_us."""
        return self._ask("POST", "/v1/completions", self._of_model({"prompt": prompt, **options}))

    def rerank(
        self,
        query: Union[str, History],
        documents: Sequence[Union[str, Mapping[str, str]]],
        **options: Any,
    ) -> Json:
        """Ranks documents for a query in Cohere's form: texts, or item ids for a user or a history. options:
        top_n, return_documents, unknown, unknown_user, request_timestamp, policy, arrangement,
        max_tokens_per_doc, budget_us."""
        body = {"query": query, "documents": list(documents), **options}
        return self._ask("POST", "/v1/rerank", self._of_model(body))

    def embed(self, inputs: Inputs, **options: Any) -> Json:
        """Returns the embedding of each text (or list of token ids), or of a user or a history (a mapping) of
        a model whose tokens are items, in OpenAI's form. options: encoding_format, add_special_tokens,
        request_timestamp, budget_us."""
        return self._ask("POST", "/v1/embeddings", self._of_model({"input": inputs, **options}))

    def tokenize(self, prompt: Union[str, Items], **options: Any) -> Json:
        """Returns the tokens of a text, or of each text. options: add_special_tokens, return_token_strs."""
        return self._ask("POST", "/tokenize", self._of_model({"prompt": prompt, **options}))

    def infer(self, model: str, inputs: Sequence[Mapping[str, Any]], **options: Any) -> Json:
        """Ranks or generates by tensors of the Open Inference Protocol. options: id, outputs, parameters."""
        path = f"/v2/models/{urllib.parse.quote(model, safe='')}/infer"
        return self._ask("POST", path, {"inputs": list(inputs), **options})

    # ---- users, events, items ----
    # if_match: version that must be stored, or "*" for any; if_none_match="*": none may be stored.

    def get_user(self, user: str) -> Json:
        return self._ask("GET", self._path("users", user))

    def put_user(
        self,
        user: str,
        history: Optional[Items] = None,
        tokens: Optional[Sequence[int]] = None,
        features: Optional[Sequence[Mapping[str, Any]]] = None,
        event_ids: Optional[Items] = None,
        if_match: Union[int, str, None] = None,
        if_none_match: Optional[str] = None,
    ) -> int:
        """Replaces the user's profile and returns its version."""
        members = {"history": history, "tokens": tokens, "features": features, "event_ids": event_ids}
        body = {name: value for name, value in members.items() if value is not None}
        headers = self._conditions(if_match, if_none_match)
        return self._ask("PUT", self._path("users", user), body, headers)["version"]

    def delete_user(self, user: str, if_match: Union[int, str, None] = None) -> int:
        return self._ask("DELETE", self._path("users", user), None, self._conditions(if_match))["version"]

    def append_events(
        self, user: str, events: Sequence[Mapping[str, Any]], if_match: Union[int, str, None] = None
    ) -> Json:
        """Appends events to a user's history. An event has an item (or tokens), its values such as
        timestamp, and an id by which it is appended once."""
        path = self._path("users", user, "/events")
        return self._ask("POST", path, {"events": list(events)}, self._conditions(if_match))

    def append_many(self, events: Iterable[Mapping[str, Any]]) -> Iterator[Json]:
        """Appends events of many users: {"user": …, "events": […]}. Yields a result for each."""
        return self._lines("/v1/events", events)

    def put_users(self, users: Iterable[Mapping[str, Any]]) -> Iterator[Json]:
        """Puts many users, {"user": …, "history": […]}, or deletes them, {"user": …, "delete": True}.
        Yields a result for each."""
        return self._lines("/v1/users", users)

    def put_items(self, items: Iterable[Mapping[str, Any]]) -> Iterator[Json]:
        """Puts many items, {"item": …, "tokens": …, "identifier": …}, or deletes them. Yields a result
        for each. Only a ranker with a discriminant needs identifiers."""
        return self._lines("/v1/items", items)

    def get_item(self, item: str) -> Json:
        return self._ask("GET", self._path("items", item))

    def put_item(
        self,
        item: str,
        tokens: Union[str, Sequence[Union[int, str]]],
        identifier: Union[int, str, None] = None,
        title: str = "",
        if_match: Union[int, str, None] = None,
        if_none_match: Optional[str] = None,
    ) -> int:
        """Adds or replaces an item and returns the catalog's version. Only a ranker with a discriminant
        needs an identifier."""
        body: Json = {"title": title, "tokens": tokens if isinstance(tokens, str) else list(tokens)}
        if identifier is not None:
            body["identifier"] = identifier
        return self._ask(
            "PUT",
            self._path("items", item),
            body,
            self._conditions(if_match, if_none_match),
        )["version"]

    def delete_item(self, item: str, if_match: Union[int, str, None] = None) -> int:
        return self._ask("DELETE", self._path("items", item), None, self._conditions(if_match))["version"]

    # ---- operations ----

    def reload_model(self, model: str, **options: Any) -> int:
        """Serves another version of the model, named by its hash or by its directory. options: catalog,
        share. Needs admin rights."""
        return self._ask("POST", self._query("/v1/models/reload"), {"model": model, **options})["version"]

    def reload_catalog(self, catalog: str, **options: Any) -> int:
        """Serves another version of the catalog. options: model, share. Needs admin rights."""
        path = self._query("/v1/catalog/reload")
        return self._ask("POST", path, {"catalog": catalog, **options})["version"]

    def replay(self, request_id: str) -> Json:
        """Computes a recorded request again and compares the answers."""
        return self._ask("POST", self._query("/v1/replay"), {"request_id": request_id})

    def models(self) -> list[Json]:
        return self._ask("GET", "/v1/models")["data"]

    def model_metadata(self, model: str = "troupe") -> Json:
        """Returns a model's inputs and outputs in the Open Inference Protocol."""
        return self._ask("GET", "/v2/models/" + urllib.parse.quote(model, safe=""))

    def is_model_ready(self, model: str = "troupe") -> bool:
        return self._tells(f"/v2/models/{urllib.parse.quote(model, safe='')}/ready", "ready")

    def server(self) -> Json:
        """Returns the server's name and version."""
        return self._ask("GET", "/v2")

    def info(self) -> Json:
        """Returns the model's name and limits, in TEI's form."""
        return self._ask("GET", "/info")

    def cluster(self) -> Json:
        return self._ask("GET", "/v1/cluster")

    def slowest(self) -> list[Json]:
        return self._ask("GET", "/v1/slowest")["requests"]

    def openapi(self) -> Json:
        return self._ask("GET", "/openapi.json")

    def metrics(self) -> str:
        """Returns the metrics in Prometheus' text format."""
        return self._ask("GET", "/metrics")

    def page(self) -> str:
        """Returns the live page."""
        return self._ask("GET", "/")

    def is_ready(self) -> bool:
        return self._tells("/v2/health/ready", "ready")

    def is_live(self) -> bool:
        return self._tells("/v2/health/live", "live")

    def close(self) -> None:
        if self._connection:
            self._connection.close()
        self._connection = None

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- transport ----

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """Calls any other path and returns the answer's body. traceparent="00-…" adds the call to your
        trace."""
        return self._ask(
            method, path, body, {name.replace("_", "-"): value for name, value in headers.items()}
        )

    @staticmethod
    def _asker(user: str, history: Optional[History]) -> Json:
        if history is None:
            return {"user": user}
        given = dict(history) if isinstance(history, Mapping) else {"history": list(history)}
        return {"user": user, **given} if user else given  # of both, the server says that one is too many

    def _of_model(self, body: Json) -> Json:
        return {**body, "model": self._model} if self._model else body

    def _query(self, path: str) -> str:
        return path + ("?" + urllib.parse.urlencode({"model": self._model}) if self._model else "")

    def _path(self, kind: str, name: str, end: str = "") -> str:
        return self._query(f"/v1/{kind}/{urllib.parse.quote(name, safe='')}{end}")

    @staticmethod
    def _conditions(
        if_match: Union[int, str, None] = None, if_none_match: Optional[str] = None
    ) -> dict[str, str]:
        headers = {}
        if if_match is not None:
            headers["if-match"] = if_match if if_match == "*" else f'"{if_match}"'
        if if_none_match is not None:
            headers["if-none-match"] = if_none_match
        return headers

    def _tells(self, path: str, member: str) -> bool:
        try:
            return bool(self._once("GET", path, None, {})[member])
        except (TroupeError, OSError, http.client.HTTPException):
            return False

    def _lines(self, path: str, rows: Iterable[Mapping[str, Any]]) -> Iterator[Json]:
        """Sends rows in requests of LINES_MAX lines. A line that is refused gives its error, and the others
        are done."""
        batch: list[Mapping[str, Any]] = []
        for row in rows:
            batch.append(row)
            if len(batch) == LINES_MAX:
                yield from self._batch(path, batch)
                batch = []
        if batch:
            yield from self._batch(path, batch)

    def _batch(self, path: str, batch: Sequence[Mapping[str, Any]]) -> list[Json]:
        text = "".join(json.dumps(row) + "\n" for row in batch)
        answer = self._ask("POST", self._query(path), text, {"content-type": "application/x-ndjson"})
        *results, last = [json.loads(line) for line in answer.splitlines()]
        if last.get("lines") != len(batch):
            raise http.client.IncompleteRead(answer.encode())
        return results

    def _ask(
        self, method: str, path: str, body: Any = None, headers: Optional[Mapping[str, str]] = None
    ) -> Any:
        for left in range(self._retries, -1, -1):
            try:
                return self._once(method, path, body, headers or {})
            except (OSError, http.client.HTTPException):
                self.close()
                if left == 0:
                    raise
            except TroupeError as error:
                if left == 0 or error.status not in (429, 503):
                    raise
                time.sleep(min(self._retry_wait, error.retry_after or 0.1))
        raise AssertionError("the last attempt returns or raises")

    def _once(self, method: str, path: str, body: Any, headers: Mapping[str, str]) -> Any:
        if self._connection is None:
            self._connection = self._make()
        text = body if body is None or isinstance(body, str) else json.dumps(body)
        self._connection.request(
            method, path, None if text is None else text.encode(), {**self._headers, **headers}
        )
        reply = self._connection.getresponse()
        data = reply.read()
        self.request_id, self.traceparent = reply.headers.get("x-request-id", ""), reply.headers.get(
            "traceparent", ""
        )
        is_json = reply.headers.get("content-type", "").split(";")[0] == "application/json"
        answer = json.loads(data) if data and is_json else {} if is_json else data.decode()
        if reply.status != 200:
            error = answer.get("error", {}) if isinstance(answer, dict) else {}
            raise TroupeError(reply.status, error, reply.headers)
        return answer
