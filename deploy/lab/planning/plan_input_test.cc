#include "deploy/lab/planning/plan_input.h"

#include <doctest/doctest.h>

#include "deploy/data/text_file.h"
#include "deploy/lab/planning/command_plan.h"
#include "runtime/testing/store_test_folder.h"

using namespace troupe;
using namespace troupe::deploy;

namespace plan_input_test {

struct Folder : TestFolder {
  Folder() {
    write("items.tsv", "item_id\tsid\nx\t1,2,3\ny\t4\nz\t1,2,3,4\n");
    write("sequences.tsv",
          "user_id\tn_train\tn_valid\tn_test\titems\nann\t3\t1\t1\tx y z y x\nbob\t1\t0\t0\tz\n");
  }
  std::string popularity_error(const std::string& text) const {
    write("popularity.tsv", text);
    try {
      read_popularity(path() / "popularity.tsv", read_plan_catalog(path()));
    } catch (const ImportError& error) {
      return error.what();
    }
    return "";
  }
};

TEST_SUITE("plan input") {
  TEST_CASE("plan input: a catalog is read without a model, with one token per code") {
    const Folder folder;
    const PlanCatalog catalog = read_plan_catalog(folder.path());
    CHECK(catalog.ids == std::vector<std::string>{"x", "y", "z"});
    CHECK(catalog.tokens == std::vector<std::uint32_t>{3, 1, 4});
    CHECK(catalog.numbers.at("z") == 2);
    CHECK(catalog.mean_tokens() == doctest::Approx(8.0 / 3));
    folder.write("items.jsonl",
                 "\n"
                 R"({"id":"j","tokens":[1,"<a>"],"identifier":3})"
                 "\n\n"
                 R"({"id":"k","tokens":[],"identifier":4})"
                 "\n");
    CHECK(read_plan_catalog(folder.path()).tokens == std::vector<std::uint32_t>{2, 1});
  }

  TEST_CASE("plan input: histories are runs of a user's consecutive items") {
    const Folder folder;
    const PlanHistories histories = read_plan_histories(folder.path(), read_plan_catalog(folder.path()), 3);
    CHECK(histories.requests.items == std::vector<placement::ItemNumber>{0, 1, 2, 1, 0, 2});
    CHECK(histories.requests.ends == std::vector<std::uint64_t>{3, 5, 6});
    CHECK(histories.mean_events == 3);
    CHECK(count_uses(histories.requests, 3) == std::vector<std::uint64_t>{2, 2, 2});
  }

  TEST_CASE("plan input: split requests are a partition with the requested sizes") {
    placement::Requests requests;
    const std::vector<placement::ItemNumber> one{0};
    for (int i = 0; i < 10'000; ++i) requests.add(one);
    const SplitRequests parts = split_requests(requests, 0.4);
    CHECK(parts.plan.size() + parts.predict.size() + parts.simulate.size() == 10'000);
    CHECK(parts.plan.size() == doctest::Approx(6'000).epsilon(0.03));
    CHECK(parts.predict.size() == doctest::Approx(2'000).epsilon(0.06));
    CHECK(split_requests(requests, 0).plan.size() == 10'000);
  }

  TEST_CASE("plan input: a plan is simulated with other requests than those of its prediction") {
    PlanOptions options;
    options.items = 1'000;
    options.zipf = 0.8;
    options.memory_bytes = 1'000'000'000;
    const PlanWorkload workload = make_planning(options).workload;
    CHECK(workload.predict.size() == workload.simulate.size());
    CHECK(workload.predict.items != workload.simulate.items);
  }

  TEST_CASE("plan input: popularity is item, tab, count; items without a line have count 0") {
    const Folder folder;
    folder.write("popularity.tsv", "item_id\tcount\nz\t7\nx\t2\n");
    CHECK(read_popularity(folder.path() / "popularity.tsv", read_plan_catalog(folder.path())) ==
          std::vector<std::uint64_t>{2, 0, 7});
  }

  TEST_CASE("plan input: a fault of a file is reported with its line") {
    const Folder folder;
    CHECK(folder.popularity_error("x\t1\nq\t2\n") ==
          "popularity.tsv:2: item q is not in the catalog; expected items of the catalog");
    CHECK(folder.popularity_error("x\t1\nx\t2\n") ==
          "popularity.tsv:2: item x is there twice; expected each item once");
    CHECK(folder.popularity_error("x 1\n") == "popularity.tsv:1: 1 columns; expected item, tab, count");
    CHECK(folder.popularity_error("x\t-1\n") ==
          "popularity.tsv:1: count is -1; expected a whole number from 0 to 9007199254740992");
    folder.write("items.tsv", "item_id\nx\nx\n");
    CHECK_THROWS_WITH_AS(read_plan_catalog(folder.path()),
                         "items.tsv:3: item x is there twice; expected each item once", ImportError);
    folder.write("items.tsv", "item_id\nx\n");
    CHECK_THROWS_AS(read_plan_histories(folder.path(), read_plan_catalog(folder.path()), 3), ImportError);
    folder.write("items.tsv", "item_id\n");
    CHECK_THROWS_AS(read_plan_catalog(folder.path()), ImportError);
    CHECK_THROWS_AS(read_plan_catalog(folder.path() / "absent"), ImportError);
  }
}

}  // namespace plan_input_test
