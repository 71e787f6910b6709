"""Finds a Python that has packages such as numpy: Debian's packages are invisible to another Python."""
import importlib.util
import os
import subprocess
import sys

SYSTEM_PYTHON, SKIPPED = "/usr/bin/python3", 77
DEBIAN = {  # package of Debian by module, where it is not python3-MODULE
    "grpc": "python3-grpcio",
    "yaml": "python3-yaml",
}


def missing(modules):
    """Returns those of these modules that this Python does not find."""
    return [name for name in modules if importlib.util.find_spec(name) is None]


def missing_text(modules):
    """Returns which packages are not installed, and for which Pythons they were looked for."""
    packages = ", ".join(DEBIAN.get(name, f"python3-{name}") for name in modules)
    pythons = " nor ".join(dict.fromkeys((sys.executable, SYSTEM_PYTHON)))
    return f"no module {', '.join(modules)} for {pythons}; expected Debian's {packages}"


def restart_or_skip(*modules):
    """Returns if all these modules are there. Else runs the program again with the system's Python; one that
    lacks them, too, ends the program with a line that says what is missing."""
    if not (lacking := missing(modules)):
        return
    if sys.executable != SYSTEM_PYTHON and os.path.exists(SYSTEM_PYTHON):
        sys.stdout.flush()
        os.execv(SYSTEM_PYTHON, [SYSTEM_PYTHON, "-B", *sys.argv])
    print("skipped:", missing_text(lacking))
    sys.exit(SKIPPED)


def python_with(*modules):
    """Returns the path of a Python that has all these modules; "" = there is none."""
    if not missing(modules):
        return sys.executable
    look = f"import {', '.join(modules)}"
    has = os.path.exists(SYSTEM_PYTHON) and subprocess.run([SYSTEM_PYTHON, "-c", look], capture_output=True)
    return SYSTEM_PYTHON if has and has.returncode == 0 else ""
