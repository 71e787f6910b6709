"""Tests builds with many mutants: which function bodies are found, and what they contain."""
import unittest

import switched
import table

TEXT = """#include <x>  // {
namespace a {
struct Point {
  int x = 1;
  Point() : x{2}, y_(3) { set("}"); }
  int twice() const { return 2 * x; }
};
const Table all[] = {{"a", f(1)}, {"b", f(2)}};
int one(int a,
        int b) {
  for (;;) {
    if (a < b) ++a;
  }
}
auto two() -> int {
  return 'x' + 10'000;
}
}  // namespace a
"""


def bug(present, planted, name="a"):
    return table.Bug(name, "", "x.cc", "all", present=present.split("\n"), planted=planted.split("\n"))


def told(*bugs):
    return switched.switched(TEXT, bugs, {bug.name: number for number, bug in enumerate(bugs, 1)})


class Switched(unittest.TestCase):
    def test_only_functions_have_bodies_not_initializers_or_scopes(self):
        found = [TEXT[body.begin : body.end].strip().split("\n")[0] for body in switched.bodies(TEXT)]
        self.assertEqual(found, ['set("}");', "return 2 * x;", "for (;;) {", "return 'x' + 10'000;"])

    def test_a_function_has_both_bodies_and_chooses_one(self):
        text = told(bug("  int twice() const { return 2 * x; }", "  int twice() const { return 3 * x; }"))
        self.assertIn(
            "int twice() const { if (::troupe_planted::chosen(1)) { return 3 * x; \n} else { return 2 "
            "* x; \n}}",
            text,
        )
        self.assertTrue(text.startswith('#include "planted_switch.h"\n#include <x>'))

    def test_mutants_of_one_function_are_independent(self):
        text = told(bug("    if (a < b) ++a;", "    if (a <= b) ++a;"), bug("if (a < b)", "if (b < a)", "b"))
        self.assertEqual(
            [text.count(part) for part in ("chosen(1)", "chosen(2)", "a <= b", "b < a", "a < b")], [1] * 5
        )

    def test_code_outside_bodies_cannot_be_switched(self):
        for present, planted in (
            ("  int x = 1;", "  int x = 2;"),
            ('{"b", f(2)}', '{"b", f(1)}'),
            ("x{2}", "x{3}"),
            ("        int b) {", "        long b) {"),
        ):
            self.assertIsNone(switched.switchable(TEXT, bug(present, planted)), present)


if __name__ == "__main__":
    unittest.main()
