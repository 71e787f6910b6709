"""Tests the mutation rules: which mutations a line can have, and which lines are left alone."""
import random
import unittest

import slips
import table


def kinds(line):
    return sorted({kind for kind, _ in slips.slips_of(line)})


TEXT = """int f(int a) {
  if (a < 2) return 0;
  if (a > 9)
    g(a);
  g(a - 1);
  TROUPE_CHECK(a > 0, "is");
  return a;
}
"""


class Slips(unittest.TestCase):
    def test_bounds_conditions_and_constants_are_mutated(self):
        self.assertEqual(slips.slips_of("  while (a < b)"), [("<", "  while (a <= b)")])
        self.assertEqual(slips.slips_of("  x = a || !b"), [("||", "  x = a && !b"), ("!", "  x = a || b")])
        self.assertEqual(
            slips.slips_of("  f(7, 12, x7);")[:2],
            [("number", "  f(8, 12, x7);"), ("number", "  f(7, 13, x7);")],
        )
        self.assertEqual(kinds("  n = std::min(a, b - 1);"), ["-", "- 1", "number", "statement", "std::min"])

    def test_literals_comments_and_parts_of_words_are_not_mutated(self):
        self.assertEqual(kinds('  const char* a = "1 < 2 && true";  // a == b'), [])
        self.assertEqual(kinds("  return is_true + 10 - 12;"), ["-", "number"])

    def test_guards_and_statements_are_left_out(self):
        self.assertIn(("guard", ""), slips.slips_of("  if (!a) return b;"))
        self.assertIn(("statement", ""), slips.slips_of("  rows_[x].count += y;"))
        self.assertNotIn(("statement", ""), slips.slips_of("  return f(x);"))

    def test_a_mutant_fits_its_file(self):
        for number, line in ((1, 2), (4, 5)):
            bug = slips.slip_at("router/x.cc", TEXT, number, random.Random(1))
            self.assertEqual(bug.name, f"slip_x_{line}")
            self.assertNotEqual(bug.plant(TEXT), TEXT)

    def test_branches_checks_and_code_outside_functions_are_left_alone(self):
        self.assertIsNone(slips.slip_at("router/x.cc", TEXT, 3, random.Random(1)), "the branch of an if")
        self.assertIsNone(slips.slip_at("router/x.cc", TEXT, 5, random.Random(1)), "a check of our own state")
        self.assertIsNone(slips.slip_at("router/x.cc", "const int a = 7;\n", 0, random.Random(1)))

    def test_code_without_visible_effect_is_left_alone(self):
        self.assertEqual(kinds("  if (descriptor.number < 0) fail(a);"), [])
        self.assertEqual(kinds("  limit = std::chrono::seconds(10);"), ["statement"])
        for line in (
            "  mallopt(a, b);",
            "  log(LogLevel::debug, a + 1);",
            "  n = (n ^ (n >> 27)) * 0x94d049bb133111eb;",
        ):
            self.assertIsNone(
                slips.slip_at("router/x.cc", f"int f() {{\n{line}\n  return 1;\n}}\n", 1, random.Random(1)),
                line,
            )
        text = (
            "int f() { return 1; }\nstatic_assert(\n    [] {\n      int i = f(2);\n      return i == "
            "1;\n    }());\n"
        )
        self.assertIsNone(slips.slip_at("router/x.cc", text, 4, random.Random(1)), "the compiler runs it")

    def test_the_same_seed_makes_the_same_table(self):
        self.assertEqual(slips.make(3, 5, 12), slips.make(3, 5, 12))


if __name__ == "__main__":
    unittest.main()
