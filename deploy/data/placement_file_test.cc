#include "deploy/data/placement_file.h"

#include <doctest/doctest.h>

#include "runtime/testing/store_test_folder.h"

namespace troupe::deploy {
namespace placement_file_test {

std::string one_plan(const std::string& nodes, const std::string& everywhere, const std::string& shards,
                     const std::string& nowhere = "") {
  return R"({"placements":[{"name":"hrcs","nodes":)" + nodes + R"(,"everywhere":)" + everywhere +
         (nowhere.empty() ? "" : ",\"nowhere\":" + nowhere) + R"(,"shards":)" + shards + "}]}";
}

struct Folder : TestFolder {
  std::string file = (path() / "plan.json").string();

  std::string error_of(const std::string& text, const std::string& name = "hrcs") const {
    write("plan.json", text);
    try {
      read_placement(file, name);
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "";
  }
};

TEST_SUITE("placement file") {
  TEST_CASE("placement file: older files have no list of items on no node") {
    const Folder folder;
    CHECK(folder.error_of(one_plan("[2]", "[]", R"({"2":["x"]})")) == "");
    const PreviousPlacement read = read_placement(folder.file, "hrcs");
    CHECK(read.nowhere.empty());
    CHECK(read.shards.at(2) == std::vector<std::string>{"x"});
  }

  TEST_CASE("placement file: a malformed file is refused with its name") {
    const Folder folder;
    CHECK(folder.error_of("{\"placements\":[]}") ==
          folder.file + ": there is no placement hrcs; expected a plan that plan --json wrote");
    CHECK(folder.error_of("nonsense").starts_with(folder.file + ": "));
    CHECK_FALSE(folder.error_of(one_plan("[]", "[]", "{}")).empty());
    CHECK_THROWS_AS(read_placement(folder.file + "x", "hrcs"), std::runtime_error);
  }

  TEST_CASE("placement file: node numbers are whole, and nodes and items are unique") {
    const Folder folder;
    const std::vector<std::pair<std::string, std::string>> bad{
        {one_plan("[1]", "[]", R"({"2":[]})"), "shards of node 2, which is not among nodes; expected those"},
        {one_plan("[2]", "[]", R"({"2x":[]})"), R"(shards has "2x"; expected the number of a node)"},
        {one_plan("[2]", "[]", R"({" 2":[]})"), R"(shards has " 2")"},
        {one_plan("[1]", "[]", R"({"4294967297":[]})"), R"(shards has "4294967297")"},
        {one_plan("[1]", "[]", R"({"":[]})"), R"(shards has "")"},
        {one_plan("[4294967297]", "[]", R"({"1":[]})"), "nodes has 4294967297; expected numbers of nodes"},
        {one_plan("[1.5]", "[]", R"({"1":[]})"), "nodes has 1.5"},
        {one_plan("[true]", "[]", R"({"1":[]})"), "nodes has true"},
        {one_plan("[1,1]", "[]", "{}"), "each once"},
        {one_plan("[1]", "[]", R"({"1":["x"],"01":["y"]})"),
         "shards of node 1 are given twice; expected one list"},
        {one_plan("[1]", "[]", R"({"1":["x"],"1":["y"]})"),
         R"("1" is given twice; expected each member once)"},
        {one_plan("[1]", R"(["x"])", R"({"1":["x"]})"),
         R"(item "x" is listed twice; expected each item in one list)"},
        {one_plan("[1]", R"(["x"])", "{}", R"(["x"])"), R"(item "x" is listed twice)"},
        {one_plan("[1,2]", "[]", R"({"1":["y"],"2":["x","y"]})"), R"(item "y" is listed twice)"},
        {one_plan("[1]", R"(["x"])", "{}", R"("y")"), "expected a plan that plan --json wrote"}};
    for (const auto& [text, expected] : bad) {
      CAPTURE(text);
      const std::string error = folder.error_of(text);
      CAPTURE(error);
      CHECK(error.starts_with(folder.file + ": "));
      CHECK(error.find(expected) != error.npos);
    }
  }
}

}  // namespace placement_file_test
}  // namespace troupe::deploy
