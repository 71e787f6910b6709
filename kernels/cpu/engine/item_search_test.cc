#include "kernels/cpu/engine/item_search.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <random>
#include <set>
#include <thread>

#include "kernels/base/plan.h"
#include "kernels/base/thread_clock.h"

using namespace troupe::kernels;

namespace {
namespace item_search_test {

// Whole numbers, and factors that are powers of two: scores are exact, and many are equal.
struct ExactTable {
  Matrix items;
  std::vector<float> factors;

  ExactTable(std::size_t rows, std::size_t columns, std::mt19937& random)
      : items{static_cast<std::uint32_t>(rows), static_cast<std::uint32_t>(columns), {}} {
    for (std::size_t i = 0; i < rows * columns; ++i)
      items.values.push_back(static_cast<float>(static_cast<int>(random() % 5) - 2));
    for (std::size_t r = 0; r < rows; ++r) factors.push_back(random() % 2 == 0 ? 0.5f : 0.25f);
  }
  ItemTable table() const {
    return {items, factors, [](std::vector<float>&) {}};
  }

  double score(std::span<const float> state, std::size_t row) const {
    double sum = 0;
    for (std::size_t c = 0; c < items.columns; ++c)
      sum += double{state[c]} * double{items.values[row * items.columns + c]};
    return sum * double{factors[row]};
  }
};

// One request of a batch, and the rows that it may find.
struct SearchCase {
  Plan plan;
  std::shared_ptr<const PathIndex> paths;
  std::vector<float> state;
  std::set<Token> eligible, denied;
  std::set<Token> catalog;  // rows that probabilities count if not the whole table does
};

std::set<Token> some_rows(std::size_t rows, std::size_t most, std::mt19937& random) {
  std::set<Token> chosen;
  for (std::size_t i = random() % (most + 1); i-- > 0;)
    chosen.insert(static_cast<Token>(random() % std::max<std::size_t>(1, rows)));
  return chosen;
}

std::shared_ptr<const PathIndex> index_of(const std::set<Token>& rows) {
  const std::vector<Token> tokens(rows.begin(), rows.end());
  std::vector<std::span<const Token>> paths;
  for (const Token& token : tokens) paths.emplace_back(&token, 1);
  return std::make_shared<const PathIndex>(paths);
}

std::vector<Tokens> paths_of(const std::set<Token>& rows) {
  std::vector<Tokens> paths;
  for (const Token row : rows) paths.push_back({row});
  return paths;
}

SearchCase draw(std::size_t rows, std::size_t columns, std::mt19937& random) {
  SearchCase asked;
  asked.plan.segments.push_back({.tokens = {1, 2, 3}});
  Search& search = asked.plan.search;
  search.width = 1 + static_cast<std::uint32_t>(random() % 20);
  search.results = 1 + static_cast<std::uint32_t>(random() % search.width);
  search.by_token = random() % 2 == 0;
  if (random() % 2 == 0) search.normalised = Search::Normalisation::allowed;
  const unsigned kind = static_cast<unsigned>(random() % 4);
  for (std::size_t r = 0; kind == 0 && r < rows; ++r) asked.catalog.insert(static_cast<Token>(r));
  if (kind == 1) asked.catalog = some_rows(rows, 8, random);
  if (kind >= 2) asked.catalog = some_rows(rows, 2 * rows, random);
  if (kind == 3 && !asked.catalog.empty())
    search.allowed = paths_of(asked.catalog);
  else
    asked.paths = index_of(asked.catalog);
  if (kind == 0 && random() % 2 == 0) {  // no catalog: every row of the table
    asked.paths = nullptr;
    search.steps = 1;
  }
  asked.catalog.erase(0);
  asked.denied = some_rows(rows, 6, random);
  search.denied = paths_of(asked.denied);
  asked.eligible = asked.catalog;
  for (const Token row : asked.denied) asked.eligible.erase(row);
  for (std::size_t c = 0; c < columns; ++c)
    asked.state.push_back(static_cast<float>(static_cast<int>(random() % 7) - 3));
  return asked;
}

double log_total(const SearchCase& asked, const ExactTable& table) {
  double sum = 0;
  const bool all = asked.plan.search.normalised == Search::Normalisation::vocabulary;
  for (std::size_t r = 1; r < table.items.rows; ++r)
    if (all || asked.catalog.contains(static_cast<Token>(r))) sum += std::exp(table.score(asked.state, r));
  return std::log(sum);
}

std::vector<Beam> plain_answer(const SearchCase& asked, const ExactTable& table) {
  std::vector<std::pair<double, Token>> scored;
  for (const Token row : asked.eligible)
    scored.emplace_back(-table.score(asked.state, static_cast<std::size_t>(row)), row);
  std::ranges::sort(scored);
  scored.resize(std::min<std::size_t>(scored.size(), asked.plan.search.results));
  std::vector<Beam> beams;
  for (const auto& [negative, row] : scored)
    beams.push_back({{row}, -negative - log_total(asked, table), {}, -negative});
  return beams;
}

void check_answer(const std::vector<Beam>& found, const SearchCase& asked, const ExactTable& table) {
  const std::vector<Beam> expected = plain_answer(asked, table);
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    CHECK(found[i].path == expected[i].path);
    CHECK(found[i].score == expected[i].score);
    CHECK(std::abs(found[i].log_probability - expected[i].log_probability) <
          1e-5 * (1 + std::abs(expected[i].log_probability)));
    CHECK(found[i].by_token.size() == (asked.plan.search.by_token ? 1u : 0u));
  }
}

// A batch of requests, of which one has no search.
struct Batch {
  std::vector<SearchCase> asked;
  Plan without;
  std::vector<Request> requests;
  std::vector<Reply> replies;

  explicit Batch(std::vector<SearchCase> drawn) : asked(std::move(drawn)) {
    without.segments.push_back({.tokens = {4}});
    requests.push_back({&without, {{}}});
    for (const SearchCase& each : asked)
      requests.push_back({&each.plan, {{}}, std::make_shared<const PathAssets>(each.paths)});
  }
  // Answers the requests that the search wants computed.
  void compute(std::span<const Request> computed) {
    REQUIRE(computed.size() == requests.size());
    replies.assign(computed.size(), {});
    for (std::size_t i = 0; i < computed.size(); ++i) {
      CHECK(computed[i].plan->search == Search{});
      if (i == 0) continue;
      REQUIRE(computed[i].plan->readouts.size() == 1);
      CHECK(computed[i].plan->readouts[0].what == Readout::What::state);
      CHECK(computed[i].plan->readouts[0].offset == 2);
      replies[i].readouts = {asked[i - 1].state};
    }
  }
};

TEST_CASE("item search: batches over random tables find what a sort of all rows finds, ties by row") {
  std::mt19937 random(11);
  Team team(2, {}, 0);  // two cores share every scan
  ItemSearch search;
  for (int trial = 0; trial < 120; ++trial) {
    CAPTURE(trial);
    const std::size_t rows = trial % 3 == 0 ? 1 + random() % 40 : 1 + random() % 4000;
    const std::size_t columns = 1 + random() % 20;
    const ExactTable table(rows, columns, random);
    std::vector<SearchCase> drawn;
    for (std::size_t i = trial % 4 == 0 ? 20 : 1 + random() % 3; i-- > 0;)
      drawn.push_back(draw(rows, columns, random));
    Batch batch(std::move(drawn));
    batch.compute(search.begin(batch.requests));
    search.finish(batch.replies, table.table(), team);
    for (std::size_t i = 0; i < batch.asked.size(); ++i) {
      CHECK(batch.replies[i + 1].readouts.empty());
      check_answer(batch.replies[i + 1].beams, batch.asked[i], table);
    }
  }
}

// Answers of a batch by the table in bf16, by each version of the product that this CPU has.
template <class Check>
void for_narrow_versions(Batch& batch, const ExactTable& table, Team& team, Check check) {
  for (const ProductVersion& version : product_versions()) {
    if (!version.usable) continue;
    CAPTURE(version.name);
    const NarrowTable narrow = narrow_table(table.items, table.factors, version.panel_width);
    ItemSearch search(with_product({}, &version));
    batch.compute(search.begin(batch.requests));
    ItemTable narrowed = table.table();
    narrowed.narrow = &narrow;
    search.finish(batch.replies, narrowed, team);
    check();
  }
}

TEST_CASE("item search: a table in bf16 finds the same rows as one in float32, ties by row") {
  std::mt19937 random(12);
  Team team(2, {}, 0);
  for (int trial = 0; trial < 40; ++trial) {
    CAPTURE(trial);
    const std::size_t rows = 1 + random() % 3000, columns = 1 + random() % 20;
    const ExactTable table(rows, columns, random);
    std::vector<SearchCase> drawn;
    for (std::size_t i = 1 + random() % 18; i-- > 0;) drawn.push_back(draw(rows, columns, random));
    Batch batch(std::move(drawn));
    for_narrow_versions(batch, table, team, [&] {
      for (std::size_t i = 0; i < batch.asked.size(); ++i)
        check_answer(batch.replies[i + 1].beams, batch.asked[i], table);
    });
  }
}

TEST_CASE("item search: with numbers that bf16 rounds, rows and scores are those of float32") {
  std::mt19937 random(13);
  std::normal_distribution<float> normal;
  Team team(1);
  for (const std::size_t columns : {8u, 64u, 100u}) {
    CAPTURE(columns);
    ExactTable table(5000, columns, random);
    for (float& value : table.items.values) value = normal(random);
    std::vector<SearchCase> drawn;
    for (int i = 0; i < 6; ++i) drawn.push_back(draw(5000, columns, random));
    for (SearchCase& asked : drawn)
      for (float& value : asked.state) value = normal(random);
    Batch batch(std::move(drawn));
    ItemSearch wide;
    batch.compute(wide.begin(batch.requests));
    wide.finish(batch.replies, table.table(), team);
    const std::vector<Reply> expected = batch.replies;
    for_narrow_versions(batch, table, team, [&] {
      for (std::size_t i = 1; i < expected.size(); ++i) {
        const std::vector<Beam>&found = batch.replies[i].beams, &of_wide = expected[i].beams;
        REQUIRE(found.size() == of_wide.size());
        const double off = narrow_table(table.items, table.factors, 8).error_of(batch.asked[i - 1].state);
        for (std::size_t b = 0; b < found.size(); ++b) {
          CHECK(found[b].path == of_wide[b].path);
          CHECK(found[b].score == of_wide[b].score);
          CHECK(std::abs(found[b].log_probability - of_wide[b].log_probability) <= off);
        }
      }
    });
  }
}

TEST_CASE("narrow items: a score in bf16 is off by no more than the bound, and a NaN leaves none") {
  std::mt19937 random(14);
  std::normal_distribution<float> normal;
  const std::size_t rows = 400, columns = 33;
  ExactTable table(rows, columns, random);
  for (float& value : table.items.values) value = normal(random);
  std::vector<float> state(columns), scores(rows);
  for (float& value : state) value = normal(random);
  for (const ProductVersion& version : product_versions()) {
    if (!version.usable) continue;
    CAPTURE(version.name);
    const NarrowTable narrow = narrow_table(table.items, table.factors, version.panel_width);
    ProductTask task;
    task.in = state.data(), task.in_stride = columns;
    task.out = scores.data(), task.out_stride = rows;
    task.rows = 1;
    version.run(narrow.rows, task);
    double worst = 0;
    for (std::size_t r = 0; r < rows; ++r)
      worst = std::max(worst, std::abs(double{scores[r]} * table.factors[r] - table.score(state, r)));
    CHECK(worst > 0);
    CHECK(worst <= narrow.error_of(state));
  }
  table.items.values[100] = std::numeric_limits<float>::quiet_NaN();
  CHECK(std::isnan(narrow_table(table.items, table.factors, 8).error_of(state)));
}

TEST_CASE("item search: requests without a search are computed as they are") {
  Plan plan;
  plan.segments.push_back({.tokens = {1}});
  const Request request{&plan, {{}}};
  ItemSearch search;
  CHECK(search.begin({&request, 1}).data() == &request);
}

TEST_CASE("item search: a score that is not finite fails its search alone, and too large ones are left") {
  std::mt19937 random(5);
  const ExactTable table(700, 4, random);
  std::vector<SearchCase> drawn;
  for (int i = 0; i < 3; ++i) {
    drawn.push_back(draw(700, 4, random));
    drawn.back().plan.search = {.width = 2, .results = 2, .steps = 1};
  }
  Batch batch(std::move(drawn));
  for (SearchCase& asked : batch.asked) asked.state.assign(4, 1);
  batch.asked[0].state[2] = std::numeric_limits<float>::infinity();
  Team team(1);
  ItemSearch search;
  batch.compute(search.begin(batch.requests));
  batch.replies[2].too_large = "too large";
  search.finish(batch.replies, table.table(), team);
  REQUIRE(batch.replies[1].beams.size() == 1);
  CHECK(std::isnan(batch.replies[1].beams[0].log_probability));
  CHECK(batch.replies[2].beams.empty());
  CHECK(batch.replies[3].beams.size() == 2);
}

// The searching thread waits until another one has scored a block, which takes 10 ms of CPU time.
std::thread::id searching_thread;
std::atomic<bool> helped = false;
std::atomic<double> helper_seconds = 0;

void score_with_help(const ScoreTask& task) {
  score_rows(task);
  if (std::this_thread::get_id() == searching_thread) {
    while (!helped) std::this_thread::yield();
    return;
  }
  if (helped) return;
  const double begin = thread_cpu_seconds();
  while (thread_cpu_seconds() < begin + 0.01) continue;
  helper_seconds += thread_cpu_seconds() - begin;
  helped = true;
}

TEST_CASE("item search: the time of helpers counts, and the requests are forgotten") {
  std::mt19937 random(3);
  const ExactTable table(3000, 4, random);
  SearchCase asked = draw(3000, 4, random);
  asked.plan.search = {.width = 5, .results = 5};
  asked.paths = index_of({1, 7, 2999});
  Batch batch({asked});
  const std::weak_ptr<const PathIndex> paths = asked.paths;
  asked.paths = nullptr;
  Team team(2, {}, 0);
  ItemSearch search({.score = score_with_help});
  batch.compute(search.begin(batch.requests));
  searching_thread = std::this_thread::get_id();
  double seconds = 0;
  search.finish(batch.replies, table.table(), team, &seconds);
  CHECK(batch.replies[1].beams.size() == 3);
  CHECK(helper_seconds > 0);
  CHECK(seconds >= helper_seconds);
  CHECK_FALSE(search.pending());
  batch.asked.clear();
  batch.requests.clear();
  CHECK(paths.expired());
}

TEST_CASE("item search: plans of such models may search one-token paths and no longer ones") {
  PlanLimits limits{10, 4};
  allow_item_search(limits);
  Plan plan;
  plan.segments.push_back({.tokens = {1, 2, 3, 4}});  // all positions: a path's last token needs none
  plan.search = {.width = 2, .results = 1};
  plan.search.of_items = true;
  plan.search.allowed = {{3}, {5}};
  CHECK(validate(plan, limits).empty());
  plan.search.allowed = {{3, 5}};
  CHECK(validate(plan, limits) == "the search's longest path has 2 tokens; expected 1, an item");
  plan.search.allowed.clear();
  const std::vector<Token> path{1, 2};
  const std::span<const Token> paths[] = {path};
  const PathIndex index(paths);
  CHECK(validate(plan, &index, limits) == "the index's longest path has 2 tokens; expected 1, an item");
  plan.search.of_items = false;
  CHECK(validate(plan, limits) ==
        "search.of_items is false; expected the other, as the model searches items");
  plan.search.of_items = true, limits.item_searches = false;
  CHECK(validate(plan, limits) == "search.of_items is true; expected the other, as the model searches paths");
}

}  // namespace item_search_test
}  // namespace
