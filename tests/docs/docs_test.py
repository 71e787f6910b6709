#!/usr/bin/env python3
"""Checks the Markdown of the tree: links, paths, lengths of lines and paragraphs, claims, commits.

    docs_test.py                        # the tree, after a trial of each rule on a planted breach
    docs_test.py --troupe PROGRAM       # also whether the generated reference pages are those of this program

- A link to a file or a heading, and a path in backticks that begins with a folder of the tree, has to exist.
- A line has at most 100 columns; tables, links and code blocks may be wider.
- A paragraph has at most 120 words. At most one sentence in a hundred has more than 40 words.
- What docs/not-yet.md lists is claimed on no other page.
- An environment variable TROUPE_… that a script reads is listed in runtime/config/environment.cc.
- A commit that a page of results names is in the history, or its line says "not reproducible".
"""
import argparse
import pathlib
import re
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.append(str(pathlib.Path(__file__).resolve().parent))
import reference

ROOT = pathlib.Path(__file__).resolve().parents[2]
COLUMNS, PARAGRAPH_WORDS, SENTENCE_WORDS, LONG_SENTENCES = 100, 120, 40, 0.01
FOLDERS = (
    "actors/",
    "cmake/",
    "deploy/",
    "docs/",
    "kernels/",
    "placement/",
    "router/",
    "runtime/",
    "server/",
    "sim/",
    "tests/",
)
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")
PATH = re.compile(r"`((?:%s)[^`\s]*)`" % "|".join(FOLDERS))


def anchor_of(heading):
    """Returns the anchor that Markdown viewers give a heading."""
    text = re.sub(r"[`*_]|\[([^\]]*)\]\([^)]*\)", lambda found: found[1] or "", heading.strip().lower())
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def unfenced(text):
    """Yields (line number, line) outside of code blocks."""
    fenced = False
    for number, line in enumerate(text.split("\n"), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced:
            yield number, line


def anchors_of(text):
    return {anchor_of(line.lstrip("#")) for _, line in unfenced(text) if re.match(r"#{1,6} ", line)}


def link_breaches(root, name, text):
    for number, line in unfenced(text):
        for found in LINK.finditer(line):
            target = found[1] or found[2]
            if re.match(r"[a-z]+:", target):
                continue
            path, _, anchor = target.partition("#")
            file = (root / name).parent / path if path else root / name
            if not file.exists():
                yield f"{name}:{number}: the link {target} leads to no file"
            elif anchor and file.suffix == ".md" and anchor not in anchors_of(file.read_text()):
                yield f"{name}:{number}: the link {target} leads to no heading"


def path_exists(root, path):
    """Whether a path, a stem of file names, or a pattern is in the tree."""
    path = path.rstrip(".,;:").split(":")[0]
    if not (root / path).exists() and re.search(r"[<>{}$…]|[A-Z]{3,}", path):
        return bool(re.search(r"[<>{}$…]|\b[A-Z]{3,}", path))  # a placeholder: tests/fuzz/corpus/NAME
    if "*" in path:
        return any(root.glob(path))
    return (root / path).exists() or any((root / path).parent.glob((root / path).name + "[._]*"))


def path_breaches(root, name, text):
    for number, line in unfenced(text):
        for found in PATH.finditer(line):
            if not path_exists(root, found[1]):
                yield f"{name}:{number}: {found[1]} is not in the tree"


def width_breaches(name, text):
    for number, line in unfenced(text):
        if (
            len(line) > COLUMNS
            and not line.lstrip().startswith("|")
            and "](" not in line
            and "http" not in line
        ):
            yield f"{name}:{number}: {len(line)} columns; expected at most {COLUMNS}"


def paragraphs(text):
    """Yields (line number, text) of paragraphs and list items, without tables, headings and code blocks."""
    block, begin = [], 0
    lines = dict(unfenced(text))
    for number in range(1, max(lines, default=0) + 2):
        line = lines.get(number, "")
        item = re.match(r"\s*(?:[-*]|\d+\.)\s", line)
        if not line.strip() or line.lstrip().startswith(("#", "|", "![", "<!--")) or item:
            if block:
                yield begin, " ".join(block)
            block = [line.strip()] if item else []
            begin = number
        else:
            begin = begin if block else number
            block.append(line.strip())


def length_breaches(name, text):
    for number, paragraph in paragraphs(text):
        if len(paragraph.split()) > PARAGRAPH_WORDS:
            words = len(paragraph.split())
            yield f"{name}:{number}: a paragraph of {words} words; expected at most {PARAGRAPH_WORDS}"


def sentences(text):
    return [
        part for _, paragraph in paragraphs(text) for part in re.split(r"(?<=[.!?])\s+", paragraph) if part
    ]


def claim_breaches(name, text, missing):
    """Yields the features of docs/not-yet.md that another page names."""
    flat = re.sub(r"\s+", " ", text).lower()
    for feature in missing:
        if feature in flat:
            yield f'{name}: says "{feature}", which docs/not-yet.md lists as missing'


def missing_features(text):
    return [re.sub(r"\s+", " ", found).lower() for found in re.findall(r"^- \*\*([^*]+)\*\*", text, re.M)]


def commit_breaches(name, text, known):
    for number, line in unfenced(text):
        for commit in re.findall(r"`([0-9a-f]{7,40})`", line):
            if re.search(r"[a-f]", commit) and not known(commit) and "not reproducible" not in line:
                yield (
                    f"{name}:{number}: commit {commit} is not in the history; "
                    'expected one that is, or "not reproducible"'
                )


def status_breaches(name, text):
    """The summary of `troupe status` has no fields, so what is searched for fields needs --all."""
    for number, line in enumerate(text.split("\n"), 1):
        if re.search(r"troupe status\b[^|`]*\|\s*grep", line) and "--all" not in line.split("|")[0]:
            yield f"{name}:{number}: greps the summary of troupe status for fields; expected --all"


def listed_codes(listing):
    """Returns the codes of each status in server/observability/openapi_errors.cc."""
    rows = re.findall(r'\{(\d{3}), "[^"]*",\s*((?:"[^"]*"\s*)+),', listing)
    return {status: set(" ".join(re.findall(r'"([^"]*)"', codes)).split()) for status, codes in rows}


def code_breaches(listing, sources):
    """Each listed code must be in the sources, whole or made of one of their prefixes, and each code of
    foreign forms, which all have status 400, must be listed."""
    listed, made = listed_codes(listing), tuple(re.findall(r'"((?:empty|no|too_many)_)"', sources))
    for status, codes in listed.items():
        for code in sorted(codes):
            if f'"{code}"' not in sources and not (made and code.startswith(made)):
                yield f"openapi_errors.cc: {code} is listed for {status}, and nothing sends it"
    for code in sorted(set(re.findall(r'tree_fault\(\s*"(\w+)"', sources)) - listed.get("400", set())):
        yield f"openapi_errors.cc: {code} is sent with 400, and not listed"


def sources_of_codes():
    files = [
        path
        for top in ("actors", "deploy", "router", "runtime", "server")
        for path in (ROOT / top).rglob("*.*")
    ]
    return "\n".join(
        path.read_text()
        for path in sorted(files)
        if path.suffix in (".cc", ".h") and "_test" not in path.name and path.name != "openapi_errors.cc"
    )


VARIABLE_READ = re.compile(
    r"environ(?:\.get)?[\[(]\s*[\"'](TROUPE_\w+)|getenv\([\"'](TROUPE_\w+)|\$\{(TROUPE_\w+):?[-=?+]"
    r"|^\s*export (TROUPE_\w+)|\bENVIRONMENT \"?(TROUPE_\w+)=|process\.env\.(TROUPE_\w+)",
    re.M,
)


def variable_breaches(name, text, known):
    """Variables that scripts read may be in the environment of `troupe`, which refuses unknown ones."""
    for found in VARIABLE_READ.finditer(text):
        variable = next(filter(None, found.groups()))
        if variable not in known:
            yield f"{name}: reads {variable}, which runtime/config/environment.cc does not list"


def scripts():
    for top in ("CMakeLists.txt", "cmake", "deploy", "kernels", "tests"):
        for path in [ROOT / top, *(ROOT / top).rglob("*")]:
            if path.suffix in (".py", ".sh", ".mjs", ".txt", ".cmake") and "golden" not in path.parts:
                if path.is_file() and path.name != "docs_test.py":
                    yield str(path.relative_to(ROOT)), path.read_text(errors="replace")


class Rules(unittest.TestCase):
    """Each rule finds a planted breach."""

    def test_links_and_paths(self):
        self.assertTrue(list(link_breaches(ROOT, "README.md", "[x](no/such.md)")))
        self.assertTrue(list(link_breaches(ROOT, "README.md", "[x](#no-such-heading)")))
        self.assertFalse(list(link_breaches(ROOT, "README.md", "[x](CMakeLists.txt) [y](https://a.b/c)")))
        self.assertTrue(list(path_breaches(ROOT, "a.md", "see `tests/no_such_file.cc`")))
        self.assertFalse(
            list(
                path_breaches(
                    ROOT, "a.md", "see `tests/docs/docs_test`, `tests/*.cc`, `tests/fuzz/corpus/NAME`"
                )
            )
        )
        self.assertFalse(list(path_breaches(ROOT, "a.md", "```\n`tests/no_such_file.cc`\n```")))

    def test_lengths(self):
        self.assertTrue(list(width_breaches("a.md", "x" * 101)))
        self.assertFalse(list(width_breaches("a.md", "| " + "x" * 101)))
        self.assertTrue(list(length_breaches("a.md", "word " * 121)))
        self.assertFalse(list(length_breaches("a.md", ("word " * 100 + "\n\n") * 2)))
        self.assertEqual(len(sentences("One is. Two are.\n\nThree")), 3)

    def test_claims_and_commits(self):
        self.assertEqual(missing_features("- **Sharded\n  tables on GPU**: no\n"), ["sharded tables on gpu"])
        self.assertTrue(
            list(claim_breaches("a.md", "Has sharded tables\non GPU.", ["sharded tables on gpu"]))
        )
        self.assertTrue(list(commit_breaches("a.md", "at `abcdef12`", lambda _: False)))
        self.assertFalse(list(commit_breaches("a.md", "at `abcdef12` (not reproducible)", lambda _: False)))

    def test_anchors(self):
        self.assertEqual(anchor_of("Keys, TLS and `troupe certs`"), "keys-tls-and-troupe-certs")

    def test_status(self):
        self.assertEqual(len(list(status_breaches("a", "troupe status --server N | grep -E 'degraded'"))), 1)
        self.assertEqual(list(status_breaches("a", "troupe status --all --server N | grep worker")), [])
        self.assertEqual(list(status_breaches("a", "| `troupe status` shows | it |")), [])

    def test_variables(self):
        for text in (
            'os.environ.get("TROUPE_X")',
            'os.environ["TROUPE_X"] = 1',
            "${TROUPE_X:-none}",
            "  export TROUPE_X=1",
            "PROPERTIES ENVIRONMENT TROUPE_X=${lab}",
            "process.env.TROUPE_X",
        ):
            self.assertEqual(len(list(variable_breaches("a", text, {"TROUPE_Y"}))), 1, text)
            self.assertFalse(list(variable_breaches("a", text, {"TROUPE_X"})))
        self.assertFalse(list(variable_breaches("a", "set(TROUPE_X ${TROUPE_ROOT}/a)", set())))

    def test_codes(self):
        listing = '{400, "It is so.",\n "wrong_type no_items "\n "old_code",\n R"j(x)j"}'
        sources = 'tree_fault("wrong_type", tree_fault("new_code", "no_" + list'
        found = list(code_breaches(listing, sources))
        self.assertEqual(len(found), 2)
        self.assertIn("old_code", found[0])
        self.assertIn("new_code", found[1])


def markdown_files():
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "*.md"], cwd=ROOT, capture_output=True, text=True
    )
    names = (
        listed.stdout.split()
        if listed.returncode == 0
        else [
            str(path.relative_to(ROOT))
            for path in ROOT.rglob("*.md")
            if not path.relative_to(ROOT).parts[0].startswith(("build", "."))
        ]
    )
    return {name: (ROOT / name).read_text() for name in sorted(names) if (ROOT / name).is_file()}


def known_commit(commit):
    return (
        subprocess.run(
            ["git", "cat-file", "-e", f"{commit}^{{commit}}"], cwd=ROOT, capture_output=True
        ).returncode
        == 0
    )


def tree_breaches():
    pages = markdown_files()
    missing = missing_features(pages.get("docs/not-yet.md", ""))
    yield from code_breaches(
        (ROOT / "server" / "observability" / "openapi_errors.cc").read_text(), sources_of_codes()
    )
    known = set(reference.other_variables())
    for name, text in scripts():
        yield from variable_breaches(name, text, known)
    in_git = subprocess.run(["git", "rev-parse"], cwd=ROOT, capture_output=True).returncode == 0
    whole, long = 0, 0
    if not in_git:
        print("skipped: whether commits of results exist, as this is no checkout")
    for name, text in pages.items():
        yield from link_breaches(ROOT, name, text)
        yield from path_breaches(ROOT, name, text)
        yield from width_breaches(name, text)
        yield from length_breaches(name, text)
        yield from status_breaches(name, text)
        if name not in ("docs/not-yet.md", "CHANGELOG.md"):
            yield from claim_breaches(name, text, missing)
        if in_git and name.startswith("tests/bench/results/"):
            yield from commit_breaches(name, text, known_commit)
        counts = [len(sentence.split()) for sentence in sentences(text)]
        whole, long = whole + len(counts), long + sum(count > SENTENCE_WORDS for count in counts)
    if long > whole * LONG_SENTENCES:
        yield (
            f"{long} of {whole} sentences have more than {SENTENCE_WORDS} words; "
            f"expected at most {LONG_SENTENCES:.0%}"
        )


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--troupe")
    options = options.parse_args()
    tried = unittest.TextTestRunner(verbosity=0).run(unittest.defaultTestLoader.loadTestsFromTestCase(Rules))
    breaches = list(tree_breaches())
    print("\n".join(breaches))
    stale = 0
    if options.troupe:
        stale = subprocess.run(
            [
                sys.executable,
                "-B",
                pathlib.Path(__file__).with_name("reference.py"),
                "--troupe",
                options.troupe,
            ],
            check=False,
        ).returncode
    sys.exit(0 if tried.wasSuccessful() and not breaches and not stale else 1)


if __name__ == "__main__":
    main()
