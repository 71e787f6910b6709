#include "deploy/verify/verify_requests.h"

#include <doctest/doctest.h>

#include "deploy/data/text_file.h"
#include "kernels/testing/test_folder.h"

using namespace troupe;
using namespace troupe::deploy;

namespace verify_requests_test {

// A data folder with the items a to e, whose tokens are 1 to 5. The model reads times of events if `timed`.
struct Folder {
  explicit Folder(bool timed = false) {
    std::string items;
    for (int i = 0; i < 5; ++i)
      items += std::string("{\"id\":\"") + static_cast<char>('a' + i) + "\",\"tokens\":[" +
               std::to_string(i + 1) + "],\"identifier\":" + std::to_string(i + 1) + "}\n";
    files.write("items.jsonl", items);
    if (timed) model.facts.event_features = {{"timestamps", true}};
  }
  VerifiedRequests read(const std::string& lines, RequestChoice choice = {}) const {
    const std::string name = lines.starts_with("user_id") ? "eval.tsv" : "requests.jsonl";
    files.write(name, lines);
    choice.evaluation = files.path() / name;
    return read_verified_requests(VerifiedData(files.path(), model), choice);
  }
  kernels::TestFolder files;
  ServedModel model;
};

const RequestChoice skips{.model = {}, .evaluation = {}, .count = 0, .skip_unknown = true};

}  // namespace verify_requests_test

TEST_SUITE("verify requests") {
  using namespace verify_requests_test;

  TEST_CASE(
      "requests: an empty history is a cold user, none is that of the folder, which may lack the user") {
    const Folder folder;
    folder.files.write("users.jsonl", "{\"id\":\"u\",\"history\":[\"a\",\"b\"]}\n");
    const VerifiedRequests requests = folder.read(
        "{\"user\":\"u\",\"history\":[],\"candidates\":[\"c\"],\"true_item\":\"c\"}\n\n"
        "{\"user\":\"u\",\"candidates\":[\"c\"],\"true_item\":\"c\"}\n"
        "{\"user\":\"nobody\",\"candidates\":[\"c\"],\"true_item\":\"c\"}\n"
        "{\"user\":\"nobody\",\"history\":[],\"candidates\":[\"c\"],\"true_item\":\"c\"}\n");
    REQUIRE(requests.list.size() == 3);
    CHECK(requests.list[0].profile.tokens.empty());
    CHECK(requests.list[0].name == "requests.jsonl:1: user u");
    CHECK(requests.list[1].profile.tokens == std::vector<Token>{1, 2});
    CHECK(requests.list[1].name == "requests.jsonl:3: user u");
    CHECK(requests.list[2].profile.tokens.empty());
    CHECK(requests.left_out.no_profile == 1);
    CHECK_THROWS_WITH_AS(folder.read("{\"user\":\"no\",\"candidates\":[\"c\"],\"true_item\":\"c\"}\n"),
                         doctest::Contains("has no requests that can be computed"), ImportError);
    const VerifiedRequests table =
        folder.read("user_id\thistory\tcandidates\ttrue_index\nu\t\tc d\t1\nu\ta\tc\t0\n");
    CHECK(table.list.at(0).profile.tokens.empty());
    CHECK(table.list.at(0).truth == 1);
    CHECK(table.list.at(1).name == "eval.tsv:3: user u");
  }

  TEST_CASE("requests: a history of the folder ends before the true item and at the request's time") {
    const Folder folder(true);
    folder.files.write("users.jsonl",
                       "{\"id\":\"u\",\"history\":[\"c\",\"a\",\"c\",\"b\",\"d\"],"
                       "\"timestamps\":[10,20,30,40,50]}\n");
    const VerifiedRequests requests = folder.read(
        "{\"user\":\"u\",\"candidates\":[\"c\",\"e\"],\"true_item\":\"c\"}\n"
        "{\"user\":\"u\",\"candidates\":[\"e\"],\"true_item\":\"e\",\"request_timestamp\":40}\n"
        "{\"user\":\"u\",\"candidates\":[\"e\"],\"true_item\":\"e\"}\n");
    REQUIRE(requests.list.size() == 3);
    CHECK(requests.list[0].profile.tokens == std::vector<Token>{3, 1});
    CHECK(requests.list[0].profile.features == std::vector<Feature>{{"timestamps", {10, 20}}});
    CHECK(requests.list[1].profile.tokens == std::vector<Token>{3, 1, 3, 2});
    CHECK(requests.list[2].profile.tokens.size() == 5);
    CHECK(requests.left_out.cut_histories == 2);
    CHECK(requests.left_out.repeated_items == 0);
  }

  TEST_CASE("requests: a history of their own is used as it is, and one with the true item is counted") {
    const Folder folder;
    const VerifiedRequests requests =
        folder.read(R"({"user":"u","history":["a","c"],"candidates":["c","d"],"true_item":"c"})"
                    "\n"
                    R"({"user":"u","history":["a","c"],"candidates":["c","d"],"true_item":"d"})");
    CHECK(requests.list.at(0).profile.tokens == std::vector<Token>{1, 3});
    CHECK(requests.left_out.repeated_items == 1);
    CHECK(requests.left_out.cut_histories == 0);
  }

  TEST_CASE("requests: a user without events needs no times, and one with events does") {
    const Folder folder(true);
    const VerifiedRequests requests =
        folder.read(R"({"user":"u","history":[],"candidates":["c"],"true_item":"c"})");
    CHECK(requests.list.at(0).profile.features == std::vector<Feature>{{"timestamps", {}}});
    const auto fault = [&](const char* line, const char* text) {
      CHECK_THROWS_WITH_AS(folder.read(line), doctest::Contains(text), ImportError);
    };
    fault(R"({"user":"u","history":["a"],"candidates":["c"],"true_item":"c"})",
          "requests.jsonl:1: user u has no timestamps of events");
    fault(R"({"user":"u","history":["a"],"timestamps":[1,2],"candidates":["c"],"true_item":"c"})",
          "requests.jsonl:1: user u: timestamps has 2 numbers; expected 1");
    fault(R"({"user":"u","timestamps":[1],"candidates":["c"],"true_item":"c"})",
          "has timestamps without a history");
  }

  TEST_CASE("requests: unknown items are an error with file and line, or are left out and counted") {
    const Folder folder(true);
    const std::string lines =
        "{\"user\":\"u\",\"history\":[\"a\"],\"timestamps\":[1],\"candidates\":[\"b\"],\"true_item\":\"b\"}\n"
        "{\"user\":\"u\",\"history\":[\"x\",\"a\",\"y\",\"b\"],\"timestamps\":[1,2,3,4],"
        "\"candidates\":[\"z\",\"d\",\"c\"],\"true_item\":\"c\"}\n"
        "{\"user\":\"u\",\"history\":[],\"candidates\":[\"x\",\"c\"],\"true_item\":\"x\"}\n";
    CHECK_THROWS_WITH_AS(folder.read(lines),
                         doctest::Contains("requests.jsonl:2: user u has item x; expected an item of the "
                                           "catalog, or --skip-unknown"),
                         ImportError);
    const VerifiedRequests requests = folder.read(lines, skips);
    REQUIRE(requests.list.size() == 2);
    CHECK(requests.list[1].profile.tokens == std::vector<Token>{1, 2});
    CHECK(requests.list[1].profile.features == std::vector<Feature>{{"timestamps", {2, 4}}});
    REQUIRE(requests.list[1].items.size() == 2);
    CHECK(requests.list[1].items[1].id == "c");
    CHECK(requests.list[1].truth == 1);
    CHECK(requests.left_out.unknown_items == 4);
    CHECK(requests.left_out.unknown_requests == 1);
    RequestChoice one = skips;
    one.count = 1;
    CHECK(folder.read(lines, one).list.size() == 1);
    CHECK(folder.read(lines, one).left_out.unknown_items == 0);
  }

  TEST_CASE("requests: without an evaluation file they are made of the folder's users") {
    const Folder folder;
    folder.files.write("users.jsonl", "{\"id\":\"u\",\"history\":[\"a\",\"x\"]}\n");
    const VerifiedData data(folder.files.path(), folder.model);
    CHECK_THROWS_WITH_AS(read_verified_requests(data, {}), doctest::Contains("user u has item x"),
                         ImportError);
    const VerifiedRequests requests = read_verified_requests(data, skips);
    CHECK(requests.file.empty());
    CHECK(requests.list.at(0).items.size() == 5);
    CHECK_FALSE(requests.list[0].truth.has_value());
    CHECK(requests.left_out.unknown_items == 1);
  }
}
