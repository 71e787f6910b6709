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

The client retries up to `retries` times: after a broken connection, and after 429 and 503. It then waits
as long as the server says, at most `retry_wait` seconds. All calls may be repeated; a write whose answer
was lost is written again.
"""
import http.client
import json
import ssl
import time
import urllib.parse


class TroupeError(Exception):
    """A refusal by the server; `status` and `code` tell whether to fix the request or to try again."""

    def __init__(self, status, error, headers):
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
    def __init__(
        self,
        server="127.0.0.1:8080",
        tenant="",
        key="",
        model="",
        timeout=30.0,
        retries=2,
        retry_wait=2.0,
        tls=None,
    ):
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

    # ---- API calls ----

    def rank(self, user, candidates, **options):
        """Ranks the candidates (item ids) for a user. options: top_k, policy,
        arrangement, approximate, request_timestamp, scenario, task, features, unknown, explain,
        budget_us."""
        return self._ask(
            "POST", "/v1/rank", self._of_model({"user": user, "candidates": list(candidates), **options})
        )

    def generate(self, user, **options):
        """Generates items for a user. options: top_k, width, exclude_seen, allow, deny, among_allowed,
        logprobs, features, budget_us."""
        return self._ask("POST", "/v1/generate", self._of_model({"user": user, **options}))

    def score(self, query, items, label_tokens, **options):
        """Scores items by the logits of the label tokens. query: tokens. items: lists of tokens.
        options: apply_softmax, budget_us."""
        body = {
            "query": list(query),
            "items": [{"tokens": list(item)} for item in items],
            "label_tokens": list(label_tokens),
            **options,
        }
        return self._ask("POST", "/v1/score", self._of_model(body))

    def complete(self, prompt, **options):
        """Completes a prompt. options: max_tokens, n, beam_width, items, logprobs, budget_us."""
        return self._ask("POST", "/v1/completions", self._of_model({"prompt": prompt, **options}))

    def put_user(self, user, history=None, tokens=None, features=None):
        """Replaces the user's profile and returns its version."""
        body = {
            name: value
            for name, value in (("history", history), ("tokens", tokens), ("features", features))
            if value is not None
        }
        return self._ask("PUT", self._path("users", user), body)["version"]

    def delete_user(self, user):
        return self._ask("DELETE", self._path("users", user))["version"]

    def put_item(self, item, tokens, identifier, title=""):
        """Adds or replaces an item and returns the catalog's version."""
        return self._ask(
            "PUT",
            self._path("items", item),
            {"title": title, "tokens": list(tokens), "identifier": identifier},
        )["version"]

    def delete_item(self, item):
        return self._ask("DELETE", self._path("items", item))["version"]

    def models(self):
        return self._ask("GET", "/v1/models")["data"]

    def cluster(self):
        return self._ask("GET", "/v1/cluster")

    def slowest(self):
        return self._ask("GET", "/v1/slowest")["requests"]

    def openapi(self):
        return self._ask("GET", "/openapi.json")

    def is_ready(self):
        try:
            return self._once("GET", "/v2/health/ready", None, {})["ready"]
        except (TroupeError, OSError, http.client.HTTPException):
            return False

    def close(self):
        if self._connection:
            self._connection.close()
        self._connection = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    # ---- transport ----

    def ask(self, method, path, body=None, **headers):
        """Calls any other path and returns the answer's body. traceparent="00-…" adds the call to your
        trace."""
        return self._ask(
            method, path, body, {name.replace("_", "-"): value for name, value in headers.items()}
        )

    def _of_model(self, body):
        return {**body, "model": self._model} if self._model else body

    def _path(self, kind, name):
        of = "?" + urllib.parse.urlencode({"model": self._model}) if self._model else ""
        return f"/v1/{kind}/{urllib.parse.quote(name, safe='')}{of}"

    def _ask(self, method, path, body=None, headers=None):
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

    def _once(self, method, path, body, headers):
        if self._connection is None:
            self._connection = self._make()
        text = None if body is None else json.dumps(body).encode()
        self._connection.request(method, path, text, {**self._headers, **headers})
        reply = self._connection.getresponse()
        data = reply.read()
        self.request_id, self.traceparent = reply.headers.get("x-request-id", ""), reply.headers.get(
            "traceparent", ""
        )
        answer = json.loads(data) if data else {}
        if reply.status != 200:
            raise TroupeError(reply.status, answer.get("error", {}), reply.headers)
        return answer
