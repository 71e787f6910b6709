#include "deploy/convert/gin_file.h"

#include <doctest/doctest.h>

#include "deploy/testing/conversion_test.h"

using namespace troupe;
using namespace troupe::deploy;

namespace gin_file_test {

std::string refused(const std::string& text) {
  try {
    const GinFile file("x.gin", text);
    return "read " + std::to_string(file.bindings().size());
  } catch (const kernels::LoadError& error) {
    return error.what();
  }
}

TEST_CASE("gin file: bindings, comments, macros, lists and references") {
  const GinFile file("x.gin",
                     "# a comment\n"
                     "import my.module\n"
                     "size = 50\n"
                     "train_fn.item_embedding_dim = %size  # behind it\n"
                     "train_fn.l2_norm_eps = 1e-6\n"
                     "package.module.train_fn.main_module = 'H' \"STU\"\n"
                     "train_fn.item_l2_norm = True\n"
                     "train_fn.x = None\n"
                     "Args.sizes = [\n  512,  # inner\n  8,\n]\n"
                     "Args.refs = [@a/Table(), @b/Table()]\n"
                     "Args.dict = {'item': @c/Distribution(), 'n': [1, 2]}\n"
                     "Args.one = (3)\n"
                     "Args.text = 'a # b'\n"
                     "a/Table.rows = 1_000\n"
                     "train_fn.x = 4\n");
  GinReader reader(file);
  CHECK(file.imports() == std::vector<std::string>{"import my.module"});
  CHECK(reader.integer("train_fn.item_embedding_dim", 7, 1, 100) == 50);
  CHECK(reader.number("train_fn.l2_norm_eps", 1.0, 0, 1) == 1e-6);
  CHECK(reader.text("train_fn.main_module", "") == "HSTU");
  CHECK(reader.boolean("train_fn.item_l2_norm", false));
  CHECK(reader.integer("train_fn.x", std::nullopt, 0, 9) == 4);
  CHECK(reader.integers("Args.sizes", 1, 1000) == std::vector<std::uint64_t>{512, 8});
  CHECK(reader.names("Args.refs") == std::vector<std::string>{"a/Table()", "b/Table()"});
  CHECK(reader.integer("Args.one", std::nullopt, 0, 9) == 3);
  CHECK(reader.text("Args.text", std::nullopt) == "a # b");
  CHECK(reader.integer("a/Table.rows", std::nullopt, 0, 9999) == 1000);
  CHECK(reader.unknown() == std::vector<std::string>{"Args.dict"});
}

TEST_CASE(
    "gin reader: says which defaults were taken, which bindings have no effect, and which are unknown") {
  const GinFile file("x.gin",
                     "train_fn.temperature = 0.1\ntrain_fn.num_epochs = 3\nloader.workers = 8\n"
                     "scope/Table.rows = 2\nencoder.typo = 1\n");
  GinReader reader(file);
  reader.ignore("train_fn.num_epochs");
  reader.ignore("loader.*");
  reader.ignore("Table.*");
  CHECK(reader.number("train_fn.temperature", 0.05, 0, 1) == 0.1);
  CHECK(reader.integer("encoder.dqk", 64, 1, 100) == 64);
  CHECK(reader.number("encoder.eps", 1e-6, 0, 1) == 1e-6);
  CHECK_FALSE(reader.boolean("encoder.concat_ua", false));
  CHECK(reader.assumed() ==
        std::vector<std::string>{"encoder.dqk = 64", "encoder.eps = 1e-06", "encoder.concat_ua = False"});
  CHECK(reader.without_effect() ==
        std::vector<std::string>{"loader.workers", "scope/Table.rows", "train_fn.num_epochs"});
  CHECK(reader.unknown() == std::vector<std::string>{"encoder.typo"});
}

TEST_CASE("gin file: what is no binding is refused with its line") {
  CHECK(has(refused("a.b = 1\n\nnonsense\n"), "x.gin:3: \"nonsense\" is no binding"));
  CHECK(has(refused("a.b =\n"), "x.gin:1: \"a.b\" has no value"));
  CHECK(has(refused("a.b = 'x\n"), "has a text without an end"));
  CHECK(has(refused("a.b = [1, 2\n"), "has a list without an end"));
  CHECK(has(refused("a.b = [1 2]\n"), "has a list without a comma"));
  CHECK(has(refused("a.b = {1\n"), "has a dictionary without an end"));
  CHECK(has(refused("a.b = 1 + 1\n"), "has \"+ 1\" behind its value"));
  CHECK(has(refused("a.b = nan\n"), "has the value \"nan\""));
  CHECK(has(refused("a.b = 1e999\n"), "has the value"));
  CHECK(has(refused("a.b = __import__('os').system('x')\n"), "has"));
  CHECK(has(refused("a.b = %missing\n"), "uses the macro \"missing\""));
  CHECK(has(refused("include 'other.gin'\n"), "includes another file"));
  CHECK(has(refused("a.b = " + std::string(100, '[') + "\n"), "is nested too deep"));
  std::string many;
  for (int i = 0; i < 10'002; ++i) many += "a.b" + std::to_string(i) + " = 1\n";
  CHECK(has(refused(many), "one binding too many"));
}

TEST_CASE("gin file: a macro has one value, which is bounded with the macros in it") {
  CHECK(has(refused("n = 2\na.b = %n\nn = 3\n"),
            "x.gin:3: \"n\" is defined again, behind its use in line 2; expected one definition"));
  CHECK(refused("n = 2\nn = 3\na.b = %n\n") == "read 2");
  std::string doubled = "m0 = [1, 1]\n";
  for (int i = 0; i < 60; ++i)
    doubled +=
        "m" + std::to_string(i + 1) + " = [%m" + std::to_string(i) + ", %m" + std::to_string(i) + "]\n";
  CHECK(has(refused(doubled), "stands for too many values"));
  std::string deep = "m0 = 1\n";
  for (int i = 0; i < 9000; ++i) deep += "m" + std::to_string(i + 1) + " = [%m" + std::to_string(i) + "]\n";
  CHECK(has(refused(deep), "stands for too many values"));
}

TEST_CASE("gin reader: values of another type or out of range are refused with their line") {
  const GinFile file("x.gin", "a.n = -1\na.f = 0.5\na.t = 'x'\na.l = [1, 'x']\na.e = []\n");
  GinReader reader(file);
  const auto said = [](auto&& read) -> std::string {
    try {
      read();
      return "read";
    } catch (const kernels::LoadError& error) {
      return error.what();
    }
  };
  CHECK(said([&] { reader.integer("a.n", 1, 0, 9); }) ==
        "x.gin:1: a.n is \"-1\"; expected an integer from 0 to 9");
  CHECK(has(said([&] { reader.integer("a.f", 1, 0, 9); }), "x.gin:2: a.f is \"0.5\"; expected an integer"));
  CHECK(has(said([&] { reader.number("a.t", 1.0, 0, 9); }), "expected a number from 0 to 9"));
  CHECK(has(said([&] { reader.number("a.f", 1.0, 1, 9); }), "expected a number from 1 to 9"));
  CHECK(has(said([&] { reader.boolean("a.n", true); }), "expected True or False"));
  CHECK(has(said([&] { reader.text("a.n", "x"); }), "expected a text"));
  CHECK(has(said([&] { reader.integers("a.l", 0, 9); }), "expected integers from 0 to 9"));
  CHECK(has(said([&] { reader.integers("a.e", 0, 9); }), "expected a list of integers"));
  CHECK(has(said([&] { reader.text("a.missing", std::nullopt); }), "there is no a.missing"));
}

}  // namespace gin_file_test
