#include "deploy/data/import_check.h"

#include <doctest/doctest.h>

#include <set>

using namespace troupe;
using namespace troupe::deploy;

namespace {

DataRows<PutItem> items(std::vector<std::string> ids) {
  DataRows<PutItem> data{"folder/items.jsonl"};
  for (std::string& id : ids)
    data.add({0, std::move(id), "", {1}, static_cast<Token>(data.rows.size())}, data.rows.size() + 3);
  return data;
}

DataRows<PutUser> histories(std::vector<std::vector<std::string>> lists) {
  DataRows<PutUser> data{"folder/users.jsonl"};
  for (auto& list : lists) {
    const std::string name = "u" + std::to_string(data.rows.size());
    data.add({0, "", name, std::move(list)}, data.rows.size() + 10);
  }
  return data;
}

bool knows(const std::string& item) { return std::set<std::string>{"a", "b"}.contains(item); }

std::string error_of(auto action) {
  try {
    action();
  } catch (const ImportError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_SUITE("import check") {
  TEST_CASE("import check: a duplicate id is reported with both lines") {
    CHECK(error_of([] { reject_duplicates(items({"a", "b"})); }).empty());
    CHECK(error_of([] {
            reject_duplicates(items({"a", "b", "a"}));
          }) == "items.jsonl:5: item \"a\" is on line 3 already; expected each item once");
    auto users = histories({{}, {}});
    users.rows[1].user = "u0";
    CHECK(error_of([&] { reject_duplicates(users); }) ==
          "users.jsonl:11: user \"u0\" is on line 10 already; expected each user once");
  }

  TEST_CASE("import check: unknown items are counted, and the first is reported with its position") {
    const auto users = histories({{"a", "b"}, {"a", "b", "x", "y", "x"}, {"x"}});
    const UnknownItemEvents unknown = find_unknown(users, knows);
    CHECK(unknown.events == 4);
    CHECK(unknown.histories == 2);
    CHECK(unknown.items.at("x") == 3);
    CHECK(
        error_of([&] { reject_unknown_items(unknown); })
            .starts_with("users.jsonl:11: history[2]: item \"x\" is not in the catalog (in total 4 events of "
                         "2 items, in 2 "
                         "histories); expected items of the catalog, or --skip-unknown"));
    CHECK(describe_left_out(unknown) ==
          "left out 4 events of 2 items that the catalog does not have, in 2 histories: \"x\" (3 times), "
          "\"y\" (1 time)");
    CHECK(error_of([&] { reject_unknown_items(find_unknown(histories({{"a"}}), knows)); }).empty());
  }

  TEST_CASE("import check: dropped events leave the others in their order") {
    auto users = histories({{"a", "x", "b", "x", "a"}, {"x"}});
    drop_unknown(users, knows);
    CHECK(users.rows[0].history == std::vector<std::string>{"a", "b", "a"});
    CHECK(users.rows[1].history.empty());
  }

  TEST_CASE("import check: a dropped event takes its values, its id and its line along") {
    auto users = histories({{"a", "x", "b"}});
    users.rows[0].features = {{"timestamps", {1, 2, 3}}};
    users.rows[0].event_ids = {"e1", "e2", ""};
    users.event_lines = {{5, 6, 7}};
    CHECK(find_unknown(users, knows).first == "users.jsonl:6");
    drop_unknown(users, knows);
    CHECK(users.rows[0].features == std::vector<Feature>{{"timestamps", {1, 3}}});
    CHECK(users.rows[0].event_ids == std::vector<std::string>{"e1", ""});
    CHECK(users.event_lines[0] == std::vector<std::uint64_t>{5, 7});
  }

  TEST_CASE("import check: items that share an identifier are reported") {
    auto data = items({"a", "b", "c"});
    CHECK(describe_shared_identifiers(data).empty());
    data.rows[2].identifier = data.rows[0].identifier;
    CHECK(describe_shared_identifiers(data).starts_with("warning: 2 of 3 items share their identifier"));
  }
}
