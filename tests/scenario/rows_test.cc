// Tests of a node whose embedding table stays in its file, with few rows in the pool, while the boundary
// between rows and keys and values moves during requests.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "tests/hstu/hstu_golden.h"
#include "tests/scenario/node_world.h"

namespace troupe::scenario::rows_test {  // keeps names apart from other tests of this executable
namespace {

std::vector<std::string> names_of(const std::vector<Token>& items) {
  std::vector<std::string> names;
  for (const Token item : items) names.push_back(std::to_string(item));
  return names;
}
std::vector<std::string> distinct(std::vector<std::string> names) {
  std::ranges::sort(names);
  names.erase(std::ranges::unique(names).begin(), names.end());
  return names;
}

struct GoldenRequest {
  hstu::GoldenCase golden;
  std::string user;
};

// Puts the model's items and users like a client.
std::vector<GoldenRequest> put_all(RunningNode& box, const std::filesystem::path& model, RequestId& id) {
  std::vector<GoldenRequest> all;
  std::set<Token> items;
  for (const hstu::GoldenCase& one : hstu::golden_cases(model / "golden.json")) {
    for (const auto* some : {&one.request.items, &one.request.candidates})
      for (const Token item : *some)
        if (items.insert(item).second)
          REQUIRE(
              std::holds_alternative<Stored>(box.ask(PutItem{++id, std::to_string(item), "", {item}, item})));
    const std::string user = "user-" + std::to_string(all.size());
    REQUIRE(std::holds_alternative<Stored>(box.ask(
        PutUser{++id, "", user, names_of(one.request.items), {}, {{"timestamps", one.request.times}}})));
    all.push_back({one, user});
  }
  return all;
}

double gap_of(const Message& answer, const hstu::GoldenCase& golden) {
  const auto* reply = std::get_if<RankReply>(&answer);
  if (reply == nullptr) return INFINITY;
  double most = 0;
  for (std::size_t c = 0; c < golden.tasks.size(); ++c)
    for (const RankedItem& item : reply->items)
      if (item.id == std::to_string(golden.request.candidates[c]))
        most = std::max(most, std::abs(item.score - golden.tasks[c]));
  return most;
}

TEST_CASE(
    "mapped tables: answers stay golden while the boundary between rows and blocks moves, and no block "
    "moves") {
  const auto model = hstu::shared_model("tiny-hstu-movielens");
  if (!model) {
    MESSAGE("skipped: no ../shared/models/tiny-hstu-movielens");
    return;
  }
  const TestFolder folder;  // 170 pages of 24 rows; all rows would take 71 pages
  RunningNode box(
      World::caf,
      node_config(folder, {"model.directory=" + model->string(), "model.tables=mapped", "pool.memory=1MiB",
                           "pool.row_share=0.025", "pool.item_share=0.1", "inference.executors=2"}),
      false);
  RequestId id = 0;
  const std::vector<GoldenRequest> all = put_all(box, *model, id);
  std::uint64_t epoch = 1'000;
  double most = 0;
  for (int round = 0; round < 3; ++round)
    for (std::size_t first = 0; first < all.size(); first += 4) {
      const std::size_t count = std::min<std::size_t>(4, all.size() - first);
      for (std::size_t i = 0; i < count; ++i) {
        RankRequest request{++id, "", all[first + i].user,
                            distinct(names_of(all[first + i].golden.request.candidates))};
        request.request_timestamp = all[first + i].golden.request.now;
        box.post(std::move(request));
        const std::uint64_t rows = (first / 4 + i) % 2 == 0 ? 40 : 2;
        box.set_split(++epoch, {{16, 0}, {170 - 16 - rows, 0}, {rows, rows}});
      }
      for (std::size_t i = 0; i < count; ++i)
        most = std::max(most, gap_of(box.answer(id - count + 1 + i), all[first + i].golden));
    }
  MESSAGE("largest difference ", most, "; rows hit ", box.metric(Metric::rows_hit), ", missed ",
          box.metric(Metric::rows_missed), ", evicted ", box.metric(Metric::rows_evicted));
  CHECK(most < 1e-4);
  box.settle();
  CHECK(box.metric(Metric::rows_hit) > 0);
  CHECK(box.metric(Metric::rows_missed) > 84);  // a twentieth of the pool does not hold all rows
  CHECK(box.metric(Metric::boundary_bytes_copied) == 0);
  CHECK(box.metric(Metric::rows_corrupt) == 0);
  CHECK(box.metric(Metric::protocol_errors) == 0);
}

TEST_CASE("mapped tables: the marginal split gives users the pages that rows hardly need, without copying") {
  const auto model = hstu::shared_model("tiny-hstu-movielens");
  if (!model) {
    MESSAGE("skipped: no ../shared/models/tiny-hstu-movielens");
    return;
  }
  const TestFolder folder;
  RunningNode box(World::simulation,
                  node_config(folder, {"model.directory=" + model->string(), "model.tables=mapped",
                                       "pool.memory=1MiB", "pool.row_share=0.85", "pool.item_share=0.1",
                                       "pool.split=marginal", "pool.split_window=1s"}),
                  false);
  RequestId id = 0;
  const std::vector<GoldenRequest> all = put_all(box, *model, id);
  double most = 0;
  for (int round = 0; round < 6; ++round) {
    for (const GoldenRequest& one : all) {
      RankRequest request{++id, "", one.user, distinct(names_of(one.golden.request.candidates))};
      request.request_timestamp = one.golden.request.now;
      most = std::max(most, gap_of(box.ask(std::move(request)), one.golden));
    }
    box.run_for({2'000'000});
  }
  MESSAGE("of 170 pages users have ", box.metric(Metric::user_pages), ", rows ",
          box.metric(Metric::row_pages), "; saved ", box.metric(Metric::user_saved), " s and ",
          box.metric(Metric::row_saved), " s by ", box.metric(Metric::rows_hit), " rows");
  CHECK(most < 1e-4);
  CHECK(box.metric(Metric::user_pages) > 25);  // at first nine
  CHECK(box.metric(Metric::row_pages) < 144);
  CHECK(box.metric(Metric::user_saved) > 0);
  CHECK(box.metric(Metric::row_saved) > 0);
  CHECK(box.metric(Metric::boundary_bytes_copied) == 0);
  CHECK(box.metric(Metric::protocol_errors) == 0);
}

}  // namespace
}  // namespace troupe::scenario::rows_test
