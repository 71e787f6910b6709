"""Renders Helm templates, as far as the chart uses them, on machines without Helm. Anything else in a
template is an
error. Follows Go's rules for white space, scopes and pipelines; FUNCTIONS has the functions."""
import hashlib
import re

import yaml

ACTION = re.compile(r"\{\{(-?)\s*(.*?)\s*(-?)\}\}", re.S)
WORD = re.compile(r"""\s*(?:("(?:[^"\\]|\\.)*")|(-?\d+)(?![\w.])|(:=|[(),|])|([^\s()|,]+))""")


class TemplateError(Exception):
    pass


def to_yaml(value):
    return yaml.safe_dump(value, default_flow_style=False, sort_keys=False).rstrip("\n")


def printf(form, *values):
    return form % values


def required(message, value):
    if not value:
        raise TemplateError(message)
    return value


FUNCTIONS = {
    "required": required,
    "toYaml": to_yaml,
    "printf": printf,
    "print": lambda *values: "".join(str(value) for value in values),
    "nindent": lambda by, text: "\n"
    + "\n".join(" " * by + line if line else line for line in text.split("\n")),
    "until": lambda count: list(range(count)),
    "int": int,
    "add": lambda *values: sum(values),
    "eq": lambda a, b: a == b,
    "not": lambda value: not value,
    "replace": lambda old, new, text: text.replace(old, new),
    "dict": lambda *pairs: dict(zip(pairs[::2], pairs[1::2])),
    "sha256sum": lambda text: hashlib.sha256(text.encode()).hexdigest(),
}


def pieces_of(text, where):
    """Returns texts and actions in alternation, without the white space that an action trims."""
    found, at, trims = [], 0, False
    for match in ACTION.finditer(text):
        before = text[at : match.start()]
        before = before.lstrip() if trims else before
        found.append(("text", before.rstrip() if match[1] else before, where))
        line = text.count("\n", 0, match.start()) + 1
        if not match[2].startswith("/*"):
            found.append(("action", match[2], f"{where}:{line}"))
        at, trims = match.end(), bool(match[3])
    rest = text[at:]
    found.append(("text", rest.lstrip() if trims else rest, where))
    return found


def words_of(action, where):
    words, at = [], 0
    while action[at:].strip():
        match = WORD.match(action, at)
        if not match:
            raise TemplateError(f"{where}: {action[at:]!r} is not supported")
        words.append(match[0].strip())
        at = match.end()
    return words


class Tree:
    """The nodes between a range, an if or a define and its end."""

    def __init__(self, pieces):
        self.pieces, self.defined = pieces, {}
        self.body = self._block(top=True)[0]

    def _block(self, top=False):
        body = []
        while self.pieces:
            kind, text, where = self.pieces.pop(0)
            if kind == "text":
                body.append(("text", text))
                continue
            word, _, rest = text.partition(" ")
            if word in ("end", "else"):
                if top:
                    raise TemplateError(f"{where}: {word} of nothing")
                return body, word
            if word in ("range", "if", "define"):
                inner, ended_by = self._block()
                other = self._block()[0] if ended_by == "else" else []
                if word == "define":
                    self.defined[rest.strip('"')] = inner
                else:
                    body.append((word, rest, inner, other, where))
            else:
                body.append(("value", text, where))
        if not top:
            raise TemplateError("a block has no end")
        return body, None


class Renderer:
    def __init__(self, files, values, release):
        """`files`: texts by name; `values`: those of the chart, overlaid by the user's."""
        self.defined, self.bodies = {}, {}
        self.root = {"Values": values, "Release": {"Name": release}, "Template": {"BasePath": "templates"}}
        for name, text in files.items():
            tree = Tree(pieces_of(text, name))
            self.defined.update(tree.defined)
            self.bodies[name] = tree.body

    def file(self, name):
        return self._render(self.bodies[name], self.root, {"$": self.root})

    def _render(self, body, dot, names):
        names, out = dict(names), ""
        for what, *rest in body:
            if what == "text":
                out += rest[0]
            elif what == "value":
                out += self._action(*rest, dot, names)
            elif what == "if":
                text, inner, other, where = rest
                out += self._render(
                    inner if self._value(words_of(text, where), where, dot, names) else other, dot, names
                )
            else:
                out += self._range(*rest, dot, names)
        return out

    def _range(self, text, inner, other, where, dot, names):
        words = words_of(text, where)
        at = words.index(":=")
        variables = [word for word in words[:at] if word != ","]
        over = self._value(words[at + 1 :], where, dot, names)
        pairs = sorted(over.items()) if isinstance(over, dict) else list(enumerate(over))
        if not pairs:
            return self._render(other, dot, names)
        out = ""
        for key, value in pairs:
            bound = dict(zip(variables, (key, value) if len(variables) == 2 else (value,)))
            out += self._render(inner, value, {**names, **bound})
        return out

    def _action(self, text, where, dot, names):
        words = words_of(text, where)
        if len(words) > 1 and words[1] == ":=":
            names[words[0]] = self._value(words[2:], where, dot, names)
            return ""
        value = self._value(words, where, dot, names)
        return "true" if value is True else "false" if value is False else str(value)

    def _value(self, words, where, dot, names):
        """Returns the value of a pipeline: each part's result is the last argument of the next."""
        words, value, is_first = list(words), None, True
        while words:
            arguments, part = [], []
            while words and words[0] != "|":
                arguments.append(self._argument(words, where, dot, names))
            if words:
                words.pop(0)
            value = self._call(arguments + ([] if is_first else [value]), where)
            is_first = False
        return value

    def _call(self, arguments, where):
        head, *rest = arguments
        if not callable(head):
            if rest:
                raise TemplateError(f"{where}: {head!r} is not a function")
            return head
        return head(*rest)

    def _argument(self, words, where, dot, names):
        word = words.pop(0)
        if word == "(":
            depth, inner = 1, []
            while words:
                next_word = words.pop(0)
                depth += {"(": 1, ")": -1}.get(next_word, 0)
                if depth == 0:
                    return self._value(inner, where, dot, names)
                inner.append(next_word)
            raise TemplateError(f"{where}: a ( without a )")
        if word.startswith('"'):
            return word[1:-1]
        if re.fullmatch(r"-?\d+", word):
            return int(word)
        if word == "include":
            return lambda name, of: self._include(name, of, where)
        if word in FUNCTIONS:
            return FUNCTIONS[word]
        return self._member(word, where, dot, names)

    def _include(self, name, of, where):
        if name.startswith("templates/"):
            return self.file(name.removeprefix("templates/"))
        if name not in self.defined:
            raise TemplateError(f"{where}: no template is defined as {name}")
        return self._render(self.defined[name], of, {"$": of})

    def _member(self, word, where, dot, names):
        base, *path = word.split(".")
        if base and base not in names:
            raise TemplateError(f"{where}: {word} is neither a function nor a variable")
        value = names[base] if base else dot
        for part in filter(None, path):
            if not isinstance(value, dict):
                raise TemplateError(f"{where}: {word}: there is no {part}")
            value = value.get(part)
        return value
