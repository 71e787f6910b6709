"""One build that carries many planted bugs, of which each run of a program has the one that TROUPE_BUG names.

A function with a bug gets its body twice, with the bug and without, and asks at its beginning which one runs:

    int f() { if (::troupe_planted::chosen(7)) { return 2; } else { return 1; } }

So one build serves all bugs, children of a program have the bug of their parent, and a bug that is not chosen does
nothing. Of a file that TROUPE_REACHED names, each such function marks a byte when it is entered (reached.py). What stands in no function's body (tables, defaults of members, signatures) cannot be switched, and what the
compiler computes runs without bugs.
"""
import re
from dataclasses import dataclass

HEADER, CHOSEN, REACHED, MARKS = "planted_switch.h", "TROUPE_BUG", "TROUPE_REACHED", 1 << 14
HEADER_TEXT = """#pragma once
#include <fcntl.h>
#include <sys/mman.h>

#include <cstdlib>
#include <type_traits>
#pragma GCC diagnostic warning "-Wunused-variable"
#pragma GCC diagnostic warning "-Wunused-but-set-variable"
#pragma GCC diagnostic warning "-Wunused-parameter"
#pragma GCC diagnostic warning "-Wunused-function"
#pragma GCC diagnostic warning "-Wparentheses"
#pragma GCC diagnostic warning "-Wmaybe-uninitialized"
#pragma GCC diagnostic warning "-Wuninitialized"
#pragma GCC diagnostic warning "-Wreturn-type"
#pragma GCC diagnostic warning "-Wbool-compare"
#pragma GCC diagnostic warning "-Wtype-limits"
#pragma GCC diagnostic warning "-Wextra"
namespace troupe_planted {
inline const int number = [] {
  const char* const text = std::getenv("TROUPE_BUG");
  return text ? std::atoi(text) : 0;
}();
// A byte for each bug whose function was entered, in a file that processes share.
inline unsigned char* const marks = []() -> unsigned char* {
  const char* const file = std::getenv("TROUPE_REACHED");
  const int descriptor = file ? open(file, O_RDWR | O_CLOEXEC) : -1;
  if (descriptor < 0) return nullptr;
  void* const at = mmap(nullptr, 16384, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  return at == MAP_FAILED ? nullptr : static_cast<unsigned char*>(at);
}();
inline bool entered(int bug) {
  if (marks) marks[bug] = 1;
  return number == bug;
}
constexpr bool chosen(int bug) { return !std::is_constant_evaluated() && entered(bug); }
}  // namespace troupe_planted
"""
TOKEN = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-zA-Z_])\'(?:\\.|[^\'\\\n])+\'|'
    r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*|[{};]",
    re.S | re.M,
)
SCOPE = re.compile(
    r"(^|[\s;])(namespace|class|struct|union|extern)\b(?![^;]*\)\s*(const|noexcept|override|final|->.*)?\s*$)"
)


@dataclass(frozen=True)
class Body:
    begin: int  # behind the brace that opens it
    end: int  # of the brace that closes it


def heading(text):
    """Without what would mislead: remarks, directives, strings."""
    return TOKEN.sub(lambda match: match[0] if match[0] in "{};" else " ", text)


def opens_body(before):
    """Whether the brace behind this heading begins a function: one with arguments, and no value in braces."""
    before = heading(before)
    if "(" not in before or SCOPE.search(before):
        return False
    return before[-1:] in " \n" and not re.search(r"(=|,|\(|\breturn)\s*$", before)


def bodies(text):
    """Of all functions that stand in no other one, in their order."""
    found, scopes, start = (
        [],
        [],
        0,
    )  # scopes: of each open brace, the beginning of the body it opened, or what it is
    for token in TOKEN.finditer(text):
        mark, inside = token[0], any(scope != "scope" for scope in scopes)
        if mark not in ("{", "}", ";"):
            continue
        if mark == "{":
            before = text[start : token.start()]
            if inside:
                scopes.append("inner")
            elif opens_body(before):
                scopes.append(token.end())
            else:
                scopes.append("scope" if SCOPE.search(heading(before)) or not before.strip() else "inner")
        elif mark == "}" and scopes:
            scope = scopes.pop()
            if isinstance(scope, int):
                found.append(Body(scope, token.start()))
            elif scope == "inner":
                continue  # a value in braces: what it belongs to goes on
        if not any(scope != "scope" for scope in scopes):
            start = token.end()
    return found


def changed(text, bug):
    """Where the text changes: from, to and what stands there with the bug. Of one line that is a whole function, too, only
    what is in its body changes."""
    at, end = bug.span(text)
    present, planted = text[at:end], "\n".join(bug.planted).strip()
    least = min(len(present), len(planted))
    before = next((i for i in range(least) if present[i] != planted[i]), least)
    after = next((i for i in range(least - before) if present[-1 - i] != planted[-1 - i]), least - before)
    return at + before, at + len(present) - after, planted[before : len(planted) - after]


def switchable(text, bug):
    """The body in which all of a bug stands, or None."""
    begin, end, _ = changed(text, bug)
    return next((body for body in bodies(text) if body.begin <= begin and end <= body.end), None)


def switched(text, bugs, numbers):
    """The text of a file with all of these bugs, each run if its number is chosen."""
    of_body, present = {}, text
    for bug in bugs:
        of_body.setdefault(switchable(present, bug), []).append(bug)
    for body in sorted(of_body, key=lambda body: -body.begin):
        versions = ""
        for bug in of_body[body]:
            begin, end, planted = changed(present, bug)
            version = present[body.begin : begin] + planted + present[end : body.end]
            versions += f" if (::troupe_planted::chosen({numbers[bug.name]})) {{{version}\n}} else"
        text = (
            text[: body.begin] + versions + " {" + present[body.begin : body.end] + "\n}" + text[body.end :]
        )
    return f'#include "{HEADER}"\n' + text
