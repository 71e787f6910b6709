"""The table of mutants: reads entries like this one, checks them, and applies them to a file.

    bug fingerprint_without_labels
    file router/fleet/fingerprint.cc
    breaks one poisonous query refuses others with other labels
    -  print.add(request.label_tokens);

Lines after `-` are the present text; lines after `+` replace it, and may be absent. The present text must
occur exactly once in its file. Optional lines: `tests router,scenario` names the programs to run instead
of the component's own. `equivalent WHY` says that no test can detect the mutant; it is not counted. `#`
begins a comment.
"""
import pathlib
import re
from dataclasses import dataclass, field

FOLDER = pathlib.Path(__file__).parent
WORDS = ("file", "breaks", "tests", "equivalent")


class TableError(Exception):
    pass


@dataclass
class Bug:
    name: str
    where: str  # file and line in the table
    file: str = ""
    breaks: str = ""
    equivalent: str = ""
    tests: list = field(default_factory=list)
    present: list = field(default_factory=list)
    planted: list = field(default_factory=list)

    @property
    def room(self):
        parts = self.file.split("/")
        return parts[1] if parts[0] == "actors" else parts[0]

    @property
    def programs(self):
        own = "lab" if self.file.startswith("deploy/lab/") else self.file.split("/")[0]
        return self.tests or [own]

    def span(self, text):
        """Returns (begin, end) of the present text in its file; comments and white space may differ."""
        found = [match.span() for match in pattern_of("\n".join(self.present)).finditer(text)]
        if len(found) != 1:
            raise TableError(
                f"{self.where}: {self.name}: its present text is {len(found)} times in {self.file}; "
                "expected once"
            )
        return found[0]

    def plant(self, text):
        """Returns the text of its file with the mutation applied."""
        begin, end = self.span(text)
        return text[:begin] + "\n".join(self.planted).strip() + text[end:]


TOKEN = re.compile(r'//[^\n]*|"(?:\\.|[^"\\\n])*"|\w+|\s+|.', re.S)


def pattern_of(code):
    """Returns an expression for these tokens with any white space and comments between them."""
    tokens = [token for token in TOKEN.findall(code) if not token.isspace() and not token.startswith("//")]
    between = r"(?:\s|//[^\n]*\n)*"
    text = "".join((between if i else "") + re.escape(token) for i, token in enumerate(tokens))
    return re.compile(
        (r"(?<!\w)" if tokens and re.match(r"\w", tokens[0]) else "")
        + text
        + (r"(?!\w)" if tokens and re.search(r"\w$", tokens[-1]) else "")
    )


def read(path):
    bugs = []
    for number, line in enumerate(path.read_text().split("\n"), 1):
        where = f"{path.name}:{number}"
        word, _, rest = line.partition(" ")
        if not line.strip() or line.startswith("#"):
            continue
        if word == "bug":
            bugs.append(Bug(rest.strip(), where))
            continue
        if not bugs:
            raise TableError(f"{where}: \"{line}\" comes before the first mutant; expected `bug NAME`")
        if line[0] in "-+":
            (bugs[-1].present if line[0] == "-" else bugs[-1].planted).append(line[1:])
        elif word == "tests":
            bugs[-1].tests = [name.strip() for name in rest.split(",")]
        elif word in WORDS:
            setattr(bugs[-1], word, rest.strip())
        else:
            raise TableError(
                f"{where}: \"{word}\" is not a keyword of the table; expected bug, {', '.join(WORDS)}, - or +"
            )
    return bugs


def read_all(paths):
    bugs = [bug for path in paths for bug in read(path)]
    seen = set()
    for bug in bugs:
        if bug.name in seen:
            raise TableError(f"{bug.where}: duplicate name {bug.name}")
        if not (bug.name and bug.file and bug.breaks and any(bug.present)):
            raise TableError(
                f"{bug.where}: {bug.name}: expected a name, `file`, `breaks` and the present text behind `-`"
            )
        if bug.present == bug.planted:
            raise TableError(f"{bug.where}: {bug.name} changes nothing")
        seen.add(bug.name)
    return bugs


def check(bugs, tree, programs):
    """Returns one line for each problem: every mutant must fit into the tree, in exactly one place."""
    faults = []
    for bug in bugs:
        path = tree / bug.file
        if not path.is_file():
            faults.append(f"{bug.where}: {bug.name}: {bug.file} no such file in the tree")
            continue
        try:
            bug.plant(path.read_text())
        except TableError as error:
            faults.append(str(error))
        faults += [
            f"{bug.where}: {bug.name}: no test program {name}; expected {', '.join(programs)}"
            for name in bug.programs
            if name not in programs
        ]
    return faults
