#include "deploy/convert/golden_check.h"

#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "deploy/testing/conversion_test.h"
#include "kernels/testing/test_folder.h"

using namespace troupe;
using namespace troupe::deploy;

namespace golden_check_test {

using nlohmann::json;

// A model of six items whose similarity to item i is (10 - i) / 10, plus what a test adds.
struct Folder : kernels::TestFolder {
  json config{{"model_type", "hstu"}, {"num_items", 6}, {"temperature", 0.5}};
  std::vector<double> added = std::vector<double>(7, 0.0);
  std::vector<json> requests;
  bool as_logits = false;

  GoldenReport check(const json& golden) {
    std::ofstream(path() / "config.json") << config.dump();
    std::ofstream(path() / "golden.json") << golden.dump();
    ModelFamily family;
    family.name = "test";
    family.logits = [this](const std::filesystem::path&, const json& request) {
      requests.push_back(request);
      return answer(request);
    };
    return check_golden(family, path(), path() / "golden.json");
  }
  json answer(const json& request) const {
    json similarities = json::array(), tasks = json::array();
    for (const std::size_t item : request["candidate_ids"].get<std::vector<std::size_t>>()) {
      const double similarity = (10.0 - static_cast<double>(item)) / 10 + added.at(item);
      similarities.push_back(as_logits ? similarity / 0.5 : similarity);
      tasks.push_back({similarity, -similarity});
    }
    if (config.contains("task_head")) return {{"task_logits", tasks}};
    return {{as_logits ? "next_item_logits" : "similarities", similarities}};
  }
};

json good_case() {
  return {{"user_id", 7},
          {"item_ids", {2, 1}},
          {"timestamps", {10, 20}},
          {"ratings", {4, 5}},
          {"request_timestamp", 30},
          {"item_ids_scored", {5, 2}},
          {"similarity", {0.5, 0.8}},
          {"top20", {1, 2, 3}},
          {"top20_unseen", {3, 4, 5}}};
}
json golden_of(json one, const std::string& items = "1..6") {
  return {{"all_item_ids", items}, {"cases", json::array({std::move(one)})}};
}

std::string refused(Folder& folder, const json& golden) {
  try {
    folder.check(golden);
    return "checked";
  } catch (const std::exception& error) {
    return error.what();
  }
}

TEST_CASE("golden check: similarities and both lists agree, and the whole catalog is asked for") {
  Folder folder;
  const GoldenReport report = folder.check(golden_of(good_case()));
  CHECK(report.is_well());
  CHECK(report.cases == 1);
  CHECK(report.numbers == 2);
  CHECK(report.lists == 2);
  CHECK(report.swapped == 0);
  CHECK(report.largest < 1e-12);
  REQUIRE(folder.requests.size() == 1);
  CHECK(folder.requests[0]["candidate_ids"] == json({1, 2, 3, 4, 5, 6}));
  CHECK(folder.requests[0]["request_timestamp"] == 30);
  CHECK_FALSE(folder.requests[0].contains("actions"));
}

TEST_CASE(
    "golden check: logits are multiplied by the temperature, and ratings are actions of a model that reads "
    "them") {
  Folder folder;
  folder.as_logits = true;
  folder.config["action_embedding"] = {{"num_actions", 6}, {"dim", 1}};
  CHECK(folder.check(golden_of(good_case())).is_well());
  CHECK(folder.requests[0]["actions"] == json({4, 5}));
}

TEST_CASE("golden check: a difference beyond the bound, or another order, is a fault of its case") {
  Folder folder;
  folder.added[5] = 2e-5;
  const GoldenReport report = folder.check(golden_of(good_case()));
  CHECK_FALSE(report.is_well());
  CHECK(report.largest == doctest::Approx(2e-5));
  REQUIRE(report.faults.size() == 1);
  CHECK(has(report.faults[0], "case 1 (user 7): the similarity of item 5 is 0.500020; expected 0.5"));
  folder.added = std::vector<double>(7, 0.0);
  json other = good_case();
  other["top20_unseen"] = {3, 5, 4};
  CHECK(has(folder.check(golden_of(other)).faults.at(0), "top20_unseen[1] is item 4; expected item 5"));
  folder.added[1] = NAN;
  CHECK(has(refused(folder, golden_of(good_case())),
            "case 1 (user 7): the model answered a number that is not"));
}

TEST_CASE("golden check: items with equal similarities may change places") {
  Folder folder;
  folder.added[4] = 0.1 + 2e-7;  // item 4 beside item 3
  const GoldenReport report = folder.check(golden_of(good_case()));
  CHECK(report.is_well());
  CHECK(report.swapped == 2);
}

TEST_CASE("golden check: items outside the catalog are in no list") {
  Folder folder;
  json one = good_case();
  one["top20"] = {2, 3, 4};
  one["top20_unseen"] = {3, 4, 5};
  CHECK(folder.check(golden_of(one, "2..6")).is_well());
}

TEST_CASE("golden check: logits of tasks are compared candidate by candidate") {
  Folder folder;
  folder.config["task_head"] = {{"layers", {2}}};
  const json one{{"item_ids", {1}}, {"candidate_ids", {5, 2}}, {"task_logits", {{0.5, -0.5}, {0.8, -0.8}}}};
  CHECK(folder.check(golden_of(one)).is_well());
  CHECK(folder.requests[0]["candidate_ids"] == json({5, 2}));
  json wrong = one;
  wrong["task_logits"][1][1] = 0.8;
  CHECK(has(folder.check(golden_of(wrong)).faults.at(0), "task_logits, number 3, is -0.8"));
  wrong["task_logits"] = {1, 2};
  CHECK(has(refused(folder, golden_of(wrong)), "answered 4 logits of tasks; expected 2"));
}

TEST_CASE("golden check: a file without cases, or with nothing to compare, is refused") {
  Folder folder;
  CHECK(has(refused(folder, json{{"cases", json::array()}}), "there are no cases"));
  CHECK(has(refused(folder, json::object()), "there are no cases"));
  CHECK(has(refused(folder, golden_of({{"user_id", 3}, {"item_ids", {1}}})),
            "golden.json: case 1 (user 3): there is nothing to compare"));
  json one = good_case();
  one["similarity"] = {0.5};
  CHECK(
      has(refused(folder, golden_of(one)), "similarity has 1 entries; expected as many as item_ids_scored"));
  one = good_case();
  one["item_ids_scored"] = {"a"};
  CHECK(has(refused(folder, golden_of(one)), "item_ids_scored has \"a\"; expected items"));
  CHECK(has(refused(folder, golden_of(good_case(), "1..9")), "leaves the model's items, 1 to 6"));
  CHECK(has(refused(folder, golden_of(good_case(), "all")), "expected FIRST..LAST"));
  CHECK(has(refused(folder, golden_of(good_case(), "1..99999999999999999999")), "expected FIRST..LAST"));
  json golden = golden_of(good_case());
  for (const json& items : {json(6), json(), json{{"first", 1}}}) {
    golden["all_item_ids"] = items;
    CHECK(has(refused(folder, golden), "expected a list, or a text FIRST..LAST"));
  }
  CHECK(has(refused(folder, json{{"cases", {3}}}), "case 1: the case is 3; expected an object"));
}

TEST_CASE("golden check: what a case has is compared or refused") {
  Folder folder;
  for (const char* const key : {"top20", "top20_unseen"}) {
    CHECK(has(refused(folder, golden_of({{"item_ids", {1}}, {key, json::array()}})),
              std::string(key) + " is empty; expected the best items"));
    CHECK(has(refused(folder, golden_of({{"item_ids", {6}}, {key, {1, 1}}})), "has an item twice"));
  }
  CHECK(has(refused(folder, golden_of({{"item_ids", {1}}, {"similarity", {9}}, {"top20", {1}}})),
            "similarity is without items; expected item_ids_scored beside it"));
  // A case without a history has seen nothing.
  CHECK(folder.check(golden_of({{"top20_unseen", {1, 2}}})).is_well());
  CHECK_FALSE(folder.check(golden_of({{"top20", {1, 2}}, {"top20_unseen", {2, 3}}})).is_well());
}

}  // namespace golden_check_test
