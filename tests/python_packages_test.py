#!/usr/bin/env python3
"""Checks that a program which lacks a package runs again with the system's Python, or says what it lacks."""
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
NEEDS = re.compile(r"^ *(?:import|from) (?:numpy|torch|plain_model|plain_qwen3)\b", re.MULTILINE)
PROGRAM = """
import sys
sys.path.append({here!r})
import python_packages
python_packages.SYSTEM_PYTHON = {system!r}
python_packages.restart_or_skip({modules})
print("all there")
"""


def run(folder, system, modules):
    program = folder / "program.py"
    program.write_text(PROGRAM.format(here=str(HERE), system=str(system), modules=modules))
    command = [sys.executable, "-B", str(program), "--option", "a b"]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.returncode, done.stdout.strip(), done.stderr


class Packages(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="troupe-packages-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.system = self.folder / "system_python"

    def test_a_program_with_its_packages_goes_on(self):
        self.assertEqual(run(self.folder, self.system, "'json', 'math'"), (0, "all there", ""))

    def test_a_program_without_a_package_runs_again_with_the_systems_python_and_its_own_options(self):
        self.system.write_text('#!/bin/sh\nprintf "%s|" "$@"\n')
        self.system.chmod(0o755)
        code, out, error = run(self.folder, self.system, "'json', 'no_such_module'")
        self.assertEqual((code, error), (0, ""))
        self.assertEqual(out, f"-B|{self.folder / 'program.py'}|--option|a b|")

    def test_a_package_that_no_python_has_is_named(self):
        for system in self.system, sys.executable:  # no such file; the Python that lacks it itself
            code, out, error = run(self.folder, system, "'json', 'no_such_module', 'yaml_of_nobody'")
            self.assertEqual((code, error), (77, ""))
            self.assertRegex(out, r"^skipped: no module no_such_module, yaml_of_nobody for /")
            self.assertRegex(out, "expected Debian's python3-no_such_module, python3-yaml_of_nobody$")

    def test_every_program_that_needs_a_package_asks_for_it_here(self):
        """A test that imports numpy or torch must not end with a traceback where they are missing."""
        texts = {path: path.read_text() for path in HERE.glob("*/*.py")}
        programs = [path for path, text in texts.items() if "__main__" in text and NEEDS.search(text)]
        self.assertGreater(len(programs), 3)
        for path in programs:
            # models.py of convert/ is imported first, and asks for its programs.
            self.assertRegex(texts[path], r"restart_or_skip\(|python_with\(|\nimport models  # first", path)
            for helper in set(re.findall(r"(?<![.\w])(restart_or_skip|python_with)\(", texts[path])):
                self.assertRegex(texts[path], rf"\nfrom python_packages import .*\b{helper}\b", path)


if __name__ == "__main__":
    unittest.main()
