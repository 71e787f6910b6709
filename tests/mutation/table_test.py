"""Tests the reader of the mutant table: an error says what does not fit, where, and what was expected."""
import pathlib
import tempfile
import unittest

import run
import table

ONE = "bug a\nfile router/x.cc\nbreaks all\n-  if (a)\n-    b();\n+  b();\n"


class Table(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.tree = pathlib.Path(self.folder.name)
        (self.tree / "router").mkdir()
        self.write("int main() {\n  if (a)\n    b();\n}\n")

    def tearDown(self):
        self.folder.cleanup()

    def write(self, text):
        (self.tree / "router" / "x.cc").write_text(text)

    def read(self, *texts):
        paths = []
        for number, text in enumerate(texts):
            paths.append(self.tree / f"{number}.txt")
            paths[-1].write_text(text)
        return table.read_all(paths)

    def faults(self, text=ONE):
        return table.check(self.read(text), self.tree, run.PROGRAMS)

    def test_a_mutant_replaces_the_present_text(self):
        bug = self.read("# why\n\n" + ONE)[0]
        self.assertEqual(
            (bug.name, bug.room, bug.programs, bug.where), ("a", "router", ["router"], "0.txt:3")
        )
        self.assertEqual(bug.plant("x\n  if (a)\n    b();\ny"), "x\n  b();\ny")
        self.assertEqual(self.faults(), [])

    def test_each_folder_of_actors_is_a_component(self):
        bug = self.read(ONE.replace("router/x.cc", "actors/kv_worker/x.cc"))[0]
        self.assertEqual((bug.room, bug.programs), ("kv_worker", ["actors"]))

    def test_the_lab_has_a_test_program_of_its_own(self):
        bug = self.read(ONE.replace("router/x.cc", "deploy/lab/bench/x.cc"))[0]
        self.assertEqual((bug.room, bug.programs), ("deploy", ["lab"]))

    def test_an_entry_may_name_other_programs(self):
        self.assertEqual(self.read(ONE + "tests sim, swarm\n")[0].programs, ["sim", "swarm"])
        self.assertIn("no test program none", self.faults(ONE + "tests none\n")[0])

    def test_a_present_text_that_is_missing_or_ambiguous_does_not_fit(self):
        self.write("nothing")
        self.assertIn("0.txt:1: a: its present text is 0 times in router/x.cc; expected once", self.faults())
        self.write("  if (a)\n    b();\n" * 2)
        self.assertIn("2 times", self.faults()[0])
        self.assertIn("no such file in the tree", self.faults(ONE.replace("x.cc", "y.cc"))[0])

    def test_an_incomplete_table_is_refused(self):
        for text in (
            ONE.replace("file", "fiel"),
            ONE.replace("bug a\n", ""),
            ONE + ONE,
            ONE.replace("breaks all\n", ""),
            ONE.replace("+  b();", "+  if (a)\n+    b();"),
            "bug a\nfile x\nbreaks y\n",
        ):
            with self.subTest(text), self.assertRaises(table.TableError):
                self.read(text)

    def test_names_are_unique_across_files(self):
        with self.assertRaises(table.TableError):
            self.read(ONE, ONE)

    def test_the_failed_test_is_the_one_above_the_error(self):
        said = (
            "TEST CASE:  first\n\nx.cc:1: MESSAGE: skipped\n\n"
            "TEST CASE:  second, of *two\n\nx.cc:9: ERROR: CHECK( a ) is NOT correct!\n"
        )
        self.assertEqual(run.failed_test(said), "second, of *two")
        self.assertEqual(run.pattern("second, of *two"), "second? of ?two")
        self.assertEqual(run.failed_test("TEST CASE:  first\n"), "")

    def test_equivalent_mutants_are_not_counted(self):
        bugs = self.read(
            ONE, ONE.replace("bug a", "bug b"), ONE.replace("bug a", "bug c") + "equivalent it is\n"
        )
        verdicts = {"a": {"verdict": "caught"}, "b": {"verdict": "survives"}, "c": {"verdict": "survives"}}
        self.assertEqual(run.summary(bugs, verdicts), {"caught": 1, "survives": 1, "does not build": 0})


if __name__ == "__main__":
    unittest.main()
