#include "kernels/search/beam_search.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <string>

namespace troupe::kernels {
namespace {

using Path = std::vector<Token>;

std::shared_ptr<const PathIndex> shared_index(const std::vector<Path>& paths) {
  const std::vector<std::span<const Token>> runs(paths.begin(), paths.end());
  return std::make_shared<const PathIndex>(runs);
}

// A random model whose logits depend on the path only. A small number of distinct logits makes
// ties.
struct ChanceModel {
  std::uint32_t vocabulary = 0, seed = 0, different = 0;  // 0: all distinct

  std::vector<float> operator()(std::span<const Token> path) const {
    std::uint32_t state = seed;
    for (const Token token : path) state = state * 2654435761u + static_cast<std::uint32_t>(token) + 1;
    std::mt19937 random(different > 0 ? seed : state);  // ties also between beams
    std::vector<float> logits(vocabulary);
    for (float& logit : logits)
      logit = different > 0 ? static_cast<float>(random() % different)
                            : static_cast<float>(random() % 100000) / 1e4f;
    return logits;
  }
};

// Keeps the `count` largest logits, the first among equals, and returns their indices.
std::vector<std::uint32_t> keep_likeliest(std::vector<float>& logits, std::uint32_t count) {
  std::vector<std::uint32_t> likely(logits.size());
  std::iota(likely.begin(), likely.end(), 0);
  std::ranges::stable_sort(likely, [&](std::uint32_t a, std::uint32_t b) { return logits[a] > logits[b]; });
  likely.resize(count);
  std::ranges::sort(likely);
  for (std::uint32_t i = 0; i < count; ++i) logits[i] = logits[likely[i]];
  logits.resize(count);
  return likely;
}

// Runs a search as an engine does: tracks each row's path by its parent and token, and computes
// what is wanted.
std::vector<Beam> run(BeamSearch& search, const Search& what, const std::vector<Path>& paths, bool indexed,
                      const ChanceModel& model, bool likeliest = false) {
  search.begin(what, indexed ? shared_index(paths) : nullptr, model.vocabulary);
  std::vector<Path> rows(1);
  while (!search.done()) {
    std::vector<std::vector<float>> logits;
    std::vector<const float*> addresses;
    std::vector<double> totals;
    for (std::uint32_t r = 0; r < search.rows(); ++r) {
      const std::vector<float> all = model(rows[r]);
      std::vector<float>& wanted = logits.emplace_back();
      for (const Token token : search.wanted(r)) wanted.push_back(all[static_cast<std::size_t>(token)]);
      if (search.wanted(r).empty()) wanted = all;
      totals.push_back(log_sum_exp(what.normalised == Search::Normalisation::allowed ? wanted : all));
    }
    std::vector<std::vector<std::uint32_t>> likely;
    for (std::uint32_t r = 0; likeliest && r < search.rows(); ++r)
      likely.push_back(keep_likeliest(logits[r], search.enough(r)));
    for (const std::vector<float>& row : logits) addresses.push_back(row.data());
    REQUIRE(search.advance(totals, addresses,
                           std::vector<BeamSearch::LikelyChildren>(likely.begin(), likely.end())));
    CHECK(std::is_sorted(search.parents().begin(), search.parents().end()));
    std::vector<Path> next;
    for (std::uint32_t r = 0; r < search.rows(); ++r) {
      next.push_back(rows[search.parents()[r]]);
      next.back().push_back(search.tokens()[r]);
    }
    rows = next;
    CHECK(std::is_sorted(rows.begin(), rows.end()));
    CHECK(rows.size() <= what.width);
    CHECK(search.level() <= search.steps());
  }
  std::vector<Beam> found(7);
  search.finish(found);
  return found;
}

std::vector<Beam> run(const Search& what, const std::vector<Path>& paths, const ChanceModel& model) {
  BeamSearch search;
  return run(search, what, paths, true, model);
}

std::vector<Path> paths_of(const std::vector<Beam>& beams) {
  std::vector<Path> paths;
  for (const Beam& beam : beams) paths.push_back(beam.path);
  return paths;
}

std::uint32_t below(std::uint32_t bound, std::mt19937& random) {
  return static_cast<std::uint32_t>(random() % bound);
}

Path random_path(std::uint32_t length, std::uint32_t vocabulary, std::mt19937& random) {
  Path path(length);
  for (Token& token : path) token = static_cast<Token>(random() % vocabulary);
  return path;
}

std::vector<Path> random_catalog(std::size_t items, std::uint32_t depth, std::uint32_t vocabulary,
                                 std::mt19937& random) {
  const bool one_length = random() % 2;
  std::vector<Path> paths;
  for (std::size_t i = 0; i < items; ++i)
    paths.push_back(random_path(one_length ? depth : 1 + random() % depth, vocabulary, random));
  return paths;
}

const std::vector<Path> kShop{{1, 2, 3}, {1, 2, 4}, {1, 5, 3}, {6, 2, 3}, {7}};

TEST_CASE(
    "beam search: with a width of the whole catalog it returns all paths, best first, with their "
    "probabilities") {
  const ChanceModel model{10, 3};
  const std::vector<Beam> found = run({0, 8, 8}, kShop, model);
  REQUIRE(found.size() == kShop.size());
  std::set<Path> different;
  for (const Beam& beam : found) {
    double value = 0;
    for (std::size_t t = 0; t < beam.path.size(); ++t) {
      const std::vector<float> logits = model({beam.path.data(), t});
      value += logits[static_cast<std::size_t>(beam.path[t])] - log_sum_exp(logits);
    }
    CHECK(beam.log_probability == doctest::Approx(value).epsilon(1e-12));
    different.insert(beam.path);
  }
  CHECK(different == std::set<Path>(kShop.begin(), kShop.end()));
  CHECK(std::is_sorted(found.begin(), found.end(),
                       [](const Beam& a, const Beam& b) { return a.log_probability > b.log_probability; }));
}

TEST_CASE("beam search: each token's log-probability follows its path, and is returned only if asked for") {
  const ChanceModel model{10, 3};
  Search search{0, 3, 3};
  for (const Beam& beam : run(search, kShop, model)) CHECK(beam.by_token.empty());
  search.by_token = true;
  const std::vector<Beam> found = run(search, kShop, model);
  REQUIRE(found.size() == 3);
  for (const Beam& beam : found) {
    REQUIRE(beam.by_token.size() == beam.path.size());
    for (std::size_t t = 0; t < beam.path.size(); ++t) {
      const std::vector<float> logits = model({beam.path.data(), t});
      CHECK(beam.by_token[t] ==
            doctest::Approx(logits[static_cast<std::size_t>(beam.path[t])] - log_sum_exp(logits))
                .epsilon(1e-12));
    }
  }
}

TEST_CASE("beam search: normalised over allowed tokens, the paths of a catalog sum to probability one") {
  double sum = 0;
  for (const Beam& beam : run({0, 8, 8, 0, Search::Normalisation::allowed}, kShop, {10, 3}))
    sum += std::exp(beam.log_probability);
  CHECK(sum == doctest::Approx(1).epsilon(1e-12));
}

TEST_CASE("beam search: equal paths come in the order of their tokens, shorter ones included") {
  const std::vector<Path> paths{{5, 1}, {3}, {4, 0}, {9, 2}, {7}, {4, 1}};
  Search search{0, 6, 6};
  search.normalised = Search::Normalisation::allowed;
  // Under equal logits, a path of two tokens is as probable as one of one token if its second token
  // has no alternative.
  CHECK(paths_of(run(search, paths, {10, 1, 1})) ==
        std::vector<Path>{{3}, {5, 1}, {7}, {9, 2}, {4, 0}, {4, 1}});
  search.width = search.results = 3;
  CHECK(paths_of(run(search, paths, {10, 1, 1})) == std::vector<Path>{{3}, {5, 1}, {4, 0}});
}

TEST_CASE("beam search: denied paths are not returned, and others take their positions") {
  Search search{0, 2, 2};
  for (const Path& path : kShop) {
    const std::size_t denied = search.denied.size();
    const std::vector<Beam> found = run(search, kShop, {10, 3});
    CHECK(found.size() == std::min<std::size_t>(2, kShop.size() - denied));
    for (const Tokens& out : search.denied)
      for (const Beam& beam : found) CHECK(beam.path != out.copy());
    search.denied.push_back(path);
  }
  BeamSearch state;
  state.begin(search, shared_index(kShop), 10);
  CHECK(state.done());
  CHECK(run(search, kShop, {10, 3}).empty());
  search.denied = {{1, 2}, {1, 2, 3, 4}, {8}, {7, 7}};  // these are not paths of the catalog
  CHECK(run(search, kShop, {10, 3}) == run({0, 2, 2}, kShop, {10, 3}));
}

TEST_CASE("beam search: with allowed paths the index is not used") {
  Search search{0, 4, 4};
  search.allowed = {{8, 8}, {1, 2, 3}, {8, 8}};
  std::vector<Path> found = paths_of(run(search, kShop, {10, 3}));
  std::sort(found.begin(), found.end());
  CHECK(found == std::vector<Path>{{1, 2, 3}, {8, 8}});
  search.denied = {{8, 8}};
  CHECK(paths_of(run(search, kShop, {10, 3})) == std::vector<Path>{{1, 2, 3}});
}

TEST_CASE("beam search: a search without paths is done at once") {
  CHECK(run({0, 4, 4}, {}, {10, 3}).empty());
}

// Advances a search of logits in which the one at `bad` is `what`, with the total of these logits
// or a given one.
bool advances(std::size_t bad, float what, std::optional<double> given = {}) {
  BeamSearch search;
  search.begin({0, 2, 2}, shared_index({{1}, {3}, {5}}), 6);
  std::vector<float> logits{1, 2, 3};
  logits[bad] = what;
  const double total = given.value_or(log_sum_exp(logits));
  const float* const row = logits.data();
  const bool went_on = search.advance({&total, 1}, {&row, 1});
  std::vector<Beam> found;
  search.finish(found);
  CHECK(found.empty() == !went_on);
  CHECK(search.done());
  return went_on;
}

TEST_CASE("beam search: a logit that is not finite ends the search") {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  CHECK(advances(0, 1));
  CHECK_FALSE(
      // the logit of another token of the vocabulary is not finite
      advances(0, 1, std::numeric_limits<double>::quiet_NaN()));
  CHECK_FALSE(advances(0, 1, infinity));
  for (const float what : {infinity, -infinity, std::numeric_limits<float>::quiet_NaN()})
    for (const std::size_t at : {0u, 1u, 2u}) {
      CHECK_FALSE(advances(at, what));
      if (what != -infinity) CHECK_FALSE(advances(at, what, 4));  // detected when it would be chosen
    }
}

TEST_CASE("beam search: a probability is at most one, even if a total is rounded down") {
  BeamSearch search;
  search.begin({0, 1, 1}, shared_index({{1}}), 6);
  const float logit = 1;
  const float* const row = &logit;
  const double total = 0.999;
  CHECK(search.advance({&total, 1}, {&row, 1}));
  std::vector<Beam> found;
  search.finish(found);
  CHECK(found == std::vector<Beam>{{{1}, 0}});
}

TEST_CASE("beam search: random searches in reused memory agree with the reference") {
  BeamSearch search;
  for (std::uint32_t seed = 1; seed <= 400; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    const std::uint32_t depth = 1 + random() % 6;
    const std::uint32_t widths[] = {1, 2, 3, 5, 8, 17, 64, 512};
    ChanceModel model{2 + below(9, random), seed, below(3, random) == 0 ? 1 + below(3, random) : 0};
    Search what{0, widths[random() % 8]};
    what.results = 1 + random() % what.width;
    if (random() % 2) what.normalised = Search::Normalisation::allowed;
    what.by_token = random() % 2;
    const bool indexed = random() % 4 != 0;
    if (!indexed && std::pow(model.vocabulary, depth) > 2000) model.vocabulary = 2;
    if (!indexed) what.steps = depth;
    std::vector<Path> paths;
    if (indexed) paths = random_catalog(1 + random() % 200, depth, model.vocabulary, random);
    if (random() % 4 == 0) {
      what.steps = 0;
      for (const Path& path : random_catalog(1 + random() % 30, depth, model.vocabulary, random))
        what.allowed.push_back(path);
    }
    const std::uint32_t denied = random() % 3 == 0 ? random() % 300 : random() % 3;
    for (std::uint32_t i = 0; i < denied; ++i) {
      if (paths.empty() || random() % 4 == 0)
        what.denied.push_back(
            random_path(std::max(1u, depth - below(3, random) / 2), model.vocabulary, random));
      else
        what.denied.push_back(paths[random() % paths.size()]);
    }
    CHECK(run(search, what, paths, indexed, model, random() % 2) ==
          beam_search_reference(what, paths, model.vocabulary, std::cref(model)));
  }
}

TEST_CASE(
    "beam search: a width of all paths is an exhaustive search, and a smaller one returns `width` paths") {
  for (std::uint32_t seed = 1; seed <= 60; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    const ChanceModel model{8, seed, 2 * below(2, random)};
    std::vector<Path> paths = random_catalog(1 + random() % 400, 1 + random() % 5, 8, random);
    Search what{0, 512, 512};
    for (std::uint32_t i = random() % 100; i > 0; --i) what.denied.push_back(paths[random() % paths.size()]);
    std::vector<Beam> all;
    const auto index = shared_index(paths);
    for (const Path& path : std::set<Path>(paths.begin(), paths.end())) {
      const PathIndex::Node node = index->find(path);
      if (node == PathIndex::none || std::count(what.denied.begin(), what.denied.end(), Tokens(path)))
        continue;
      Beam& beam = all.emplace_back(Beam{path, 0});
      for (std::size_t t = 0; t < path.size(); ++t) {
        const std::vector<float> logits = model({path.data(), t});
        beam.log_probability +=
            std::min(0.0, logits[static_cast<std::size_t>(path[t])] - log_sum_exp(logits));
      }
    }
    std::stable_sort(all.begin(), all.end(),
                     [](const Beam& a, const Beam& b) { return a.log_probability > b.log_probability; });
    CHECK(run(what, paths, model) == all);
    what.width = what.results = 1 + random() % 40;
    CHECK(run(what, paths, model).size() == std::min<std::size_t>(what.width, all.size()));
  }
}

}  // namespace
}  // namespace troupe::kernels
