"""Builds one program that contains many mutants; each run enables the one that TROUPE_BUG names.

A function with a mutant gets its body twice, with and without the mutation, and chooses at its beginning:

    int f() { if (::troupe_planted::chosen(7)) { return 2; } else { return 1; } }

So one build serves all mutants, child processes have the mutant of their parent, and a mutant that is not
chosen does nothing. Each such function marks a byte in the file named by TROUPE_REACHED when it is
entered (reached.py). Code outside function bodies (tables, defaults of members, signatures) cannot be
switched. Code that the compiler evaluates runs without mutants.
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
// One byte for each mutant whose function was entered, in a file that processes share.
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
    begin: int  # offset after the opening brace
    end: int  # offset of the closing brace


def heading(text):
    """Replaces comments, directives and literals, which would mislead, by spaces."""
    return TOKEN.sub(lambda match: match[0] if match[0] in "{};" else " ", text)


def opens_body(before):
    """Returns whether the brace after this heading begins a function: it has arguments and is no
    initializer."""
    before = heading(before)
    if "(" not in before or SCOPE.search(before):
        return False
    return before[-1:] in " \n" and not re.search(r"(=|,|\(|\breturn)\s*$", before)


def bodies(text):
    """Returns the bodies of all functions that are not inside another one, in order."""
    # scopes: for each open brace, the offset of the body that it opened, or its kind.
    found, scopes, start = [], [], 0
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
                continue  # an initializer in braces: its statement goes on
        if not any(scope != "scope" for scope in scopes):
            start = token.end()
    return found


def changed(text, bug):
    """Returns begin, end and replacement of the changed text.

    For a line that is a whole function, the changed text is inside its body.
    """
    at, end = bug.span(text)
    present, planted = text[at:end], "\n".join(bug.planted).strip()
    least = min(len(present), len(planted))
    before = next((i for i in range(least) if present[i] != planted[i]), least)
    after = next((i for i in range(least - before) if present[-1 - i] != planted[-1 - i]), least - before)
    return at + before, at + len(present) - after, planted[before : len(planted) - after]


def switchable(text, bug):
    """Returns the body that contains the whole mutation, or None."""
    begin, end, _ = changed(text, bug)
    return next((body for body in bodies(text) if body.begin <= begin and end <= body.end), None)


def switched(text, bugs, numbers):
    """Returns the text of a file with all of these mutants; each runs if its number is chosen."""
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
