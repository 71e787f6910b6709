#include "deploy/convert/converted_model.h"

#include <doctest/doctest.h>

#include <fstream>
#include <sstream>

#include "deploy/data/text_file.h"
#include "deploy/testing/conversion_test.h"
#include "kernels/checkpoint/safetensors.h"
#include "kernels/testing/test_folder.h"

using namespace troupe;
using namespace troupe::deploy;

namespace converted_model_test {

struct Files : kernels::TestFolder {
  std::vector<ConvertedItem> read(const std::string& text, const ConvertedModel& model) const {
    std::ofstream(path() / "items.tsv", std::ios::binary) << text;
    return read_item_list(path() / "items.tsv", model);
  }
  std::string refused(const std::string& text, const ConvertedModel& model) const {
    try {
      read(text, model);
      return "read";
    } catch (const ImportError& error) {
      return error.what();
    }
  }
};

std::string content(const std::filesystem::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

ConvertedModel of_rows(std::uint64_t rows) {
  ConvertedModel model;
  model.num_items = rows;
  return model;
}

TEST_CASE("item list: ids by line, or rows with ids and titles") {
  const Files files;
  const auto lines = files.read("B00X\nB00Y\n", of_rows(3));
  REQUIRE(lines.size() == 2);
  CHECK(lines[1].id == "B00Y");
  CHECK(lines[1].row == 2);
  const auto rows = files.read("3\tB00X\tA title\n1\tB00Y\n", of_rows(3));
  CHECK(rows[0].row == 3);
  CHECK(rows[0].title == "A title");
  CHECK(rows[1].row == 1);
}

TEST_CASE("item list: keys of a table by key are found") {
  ConvertedModel model = of_rows(2);
  model.items = {{"70", "", 1}, {"-5", "", 2}};
  const Files files;
  const auto items = files.read("-5\tB00X\n", model);
  REQUIRE(items.size() == 1);
  CHECK(items[0].row == 2);
  CHECK(has(files.refused("1\tB00X\n", model), "expected a key of the checkpoint's item table"));
}

TEST_CASE("item list: rows that the checkpoint lacks, and ids and rows that occur twice, are refused") {
  const Files files;
  CHECK(has(files.refused("4\tx\n", of_rows(3)), "items.tsv:1: key \"4\"; expected a row from 1 to 3"));
  CHECK(has(files.refused("0\tx\n", of_rows(3)), "key \"0\""));
  CHECK(has(files.refused("a\tx\n", of_rows(3)), "key \"a\""));
  CHECK(has(files.refused("a\nb\nc\nd\n", of_rows(3)), "items.tsv:4: key \"4\""));
  CHECK(has(files.refused("1\tx\n2\tx\n", of_rows(3)), "item \"x\" occurs twice"));
  CHECK(has(files.refused("1\tx\n1\ty\n", of_rows(3)), "the key of row 1 occurs twice"));
  CHECK(has(files.refused("1\tx\ty\tz\n", of_rows(3)), "4 columns"));
  CHECK(has(files.refused("1\t\n", of_rows(3)), "an id of 0 bytes"));
  CHECK(has(files.refused("", of_rows(3)), "items.tsv:1: no items"));
  CHECK(has(files.refused("1\tx\n\xff\n", of_rows(3)), "items.tsv:2: the line is not UTF-8"));
  CHECK(has(files.refused("1\tx\n2 y\n", of_rows(3)),
            "items.tsv:2: the line has no key, and the first one has one"));
  CHECK(has(files.refused("x\n2\ty\n", of_rows(3)),
            "items.tsv:2: the line has a key, and the first one has none"));
}

TEST_CASE("converted model: is written with a catalog, into an empty folder only") {
  const Files files;
  ConvertedModel model = of_rows(1);
  model.config["model_type"] = "hstu";
  model.tensors.push_back({"a", {1, 2}, {3, 4}});
  model.items.push_back({"B00X", "A \"title\"", 1});
  const auto folder = files.path() / "out" / "model";
  write_model(model, folder);
  CHECK(kernels::SafetensorsFile(folder / "model.safetensors").values("a") == std::vector<float>{3, 4});
  CHECK(content(folder / "items.jsonl") ==
        "{\"id\":\"B00X\",\"tokens\":[1],\"identifier\":1,\"title\":\"A \\\"title\\\"\"}\n");
  CHECK(has(content(folder / "config.json"), "\"model_type\": \"hstu\""));
  CHECK_THROWS_WITH_AS(write_model(model, folder), doctest::Contains("expected a new or empty folder"),
                       std::runtime_error);
}

TEST_CASE("converted model: nothing is left of one that cannot be written") {
  const Files files;
  ConvertedModel model = of_rows(1);
  model.config["model_type"] = "\xff";  // fails after the other files
  model.tensors.push_back({"a", {1}, {3}});
  model.items.push_back({"B00X", "", 1});
  const auto folder = files.path() / "model";
  CHECK_THROWS(write_model(model, folder));
  CHECK_FALSE(std::filesystem::exists(folder));
  std::filesystem::create_directory(folder);
  CHECK_THROWS(write_model(model, folder));
  CHECK(std::filesystem::is_empty(folder));
  model.config["model_type"] = "hstu";
  write_model(model, folder);
  CHECK(std::filesystem::exists(folder / "config.json"));
}

}  // namespace converted_model_test
