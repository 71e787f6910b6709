#include "deploy/bench/beam_search.h"

#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "deploy/data/dataset.h"

using namespace troupe;
using namespace troupe::deploy;

namespace {

// Log-probabilities of tokens 0 to 5; what is not given is as good as impossible.
std::vector<double> logs(std::initializer_list<std::pair<int, double>> given) {
  std::vector<double> all(6, -99);
  for (const auto& [token, log] : given) all[static_cast<std::size_t>(token)] = log;
  return all;
}

Path path_of(std::span<const kernels::Token> tokens) { return {tokens.begin(), tokens.end()}; }

const SemanticIdTrie small_trie(std::vector<Path>{{2, 4}, {1, 3}, {1, 5}, {2, 3}, {2, 4}});

kernels::DecoderConfig small_config() {
  kernels::DecoderConfig config;
  config.layers = 2;
  config.hidden = 32;
  config.heads = 4;
  config.kv_heads = 2;
  config.head_dim = 8;
  config.intermediate = 48;
  config.vocabulary = 24;
  config.positions_max = 32;
  config.qkv_bias = true;
  config.tied_embeddings = true;
  return config;
}

// The same by the definition: each item's tokens behind the prompt in one plain causal pass.
double score_alone(kernels::Executor& decoder, const Path& prompt, const Path& item) {
  Path whole = prompt;
  whole.insert(whole.end(), item.begin(), item.end());
  kernels::Plan plan{{{kernels::SegmentKind::user, std::move(whole), 0, {}}}, {}};
  Path rows(static_cast<std::size_t>(decoder.limits().vocabulary));
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<kernels::Token>(i);
  for (std::size_t i = 0; i < item.size(); ++i)
    plan.readouts.push_back({0, static_cast<std::uint32_t>(prompt.size() + i - 1), rows});
  const kernels::Request request{&plan, {{}}};
  const auto readouts = decoder.run({&request, 1}).at(0).readouts;
  double sum = 0;
  for (std::size_t i = 0; i < item.size(); ++i)
    sum += log_softmax(readouts[i])[static_cast<std::size_t>(item[i])];
  return sum;
}

}  // namespace

TEST_SUITE("beam search") {
  TEST_CASE("the trie gives the tokens that continue a path to an item, each once, ascending") {
    CHECK(small_trie.levels() == 2);
    CHECK(path_of(small_trie.next({})) == Path{1, 2});
    CHECK(path_of(small_trie.next({1})) == Path{3, 5});
    CHECK(path_of(small_trie.next({2})) == Path{3, 4});
    CHECK(small_trie.next({3}).empty());
    CHECK(small_trie.next({2, 4}).empty());
  }

  TEST_CASE("log-probabilities sum to one, and large logits do not overflow") {
    const std::vector<double> even = log_softmax(std::vector<float>{1000, 1000});
    CHECK(even[0] == doctest::Approx(-std::log(2.0)));
    const std::vector<double> uneven = log_softmax(std::vector<float>{0, std::log(3.0f)});
    CHECK(uneven[0] == doctest::Approx(std::log(0.25)));
    CHECK(uneven[1] == doctest::Approx(std::log(0.75)));
  }

  TEST_CASE("a logit that is no finite number is refused") {
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()})
      CHECK_THROWS_WITH_AS(log_softmax(std::vector<float>{0, bad}), doctest::Contains("not finite"),
                           std::runtime_error);
  }

  TEST_CASE("a step keeps the best paths that exist, however probable others are") {
    const std::vector<Beam> first =
        extend_beams(std::vector<Beam>(1),
                     std::vector<std::vector<double>>{logs({{0, -0.1}, {1, -2}, {2, -1}})}, small_trie, 2);
    REQUIRE(first.size() == 2);
    CHECK(first[0].path == Path{2});
    CHECK(first[1].path == Path{1});
    // Behind 2: only 3 and 4 (not 0); behind 1: only 3 and 5. Sums: 2 3: -4, 2 4: -1.5, 1 3: -2.5, 1 5: -7.
    const std::vector<Beam> second = extend_beams(
        first,
        std::vector<std::vector<double>>{logs({{0, -0.1}, {3, -3}, {4, -0.5}}), logs({{3, -0.5}, {5, -5}})},
        small_trie, 3);
    REQUIRE(second.size() == 3);
    CHECK(second[0].path == Path{2, 4});
    CHECK(second[0].log_probability == -1.5);
    CHECK(second[1].path == Path{1, 3});
    CHECK(second[1].log_probability == -2.5);
    CHECK(second[2].path == Path{2, 3});
    CHECK(second[2].log_probability == -4);
  }

  TEST_CASE("equal scores are in the order of their tokens") {
    const std::vector<Beam> beams{{{2}, -1}, {{1}, -1}};
    const std::vector<Beam> longer = extend_beams(
        beams, std::vector<std::vector<double>>{logs({{3, -1}, {4, -1}}), logs({{3, -1}, {5, -1}})},
        small_trie, 3);
    REQUIRE(longer.size() == 3);
    CHECK(longer[0].path == Path{1, 3});
    CHECK(longer[1].path == Path{1, 5});
    CHECK(longer[2].path == Path{2, 3});
  }

  TEST_CASE("a search as wide as the catalog ranks all of it, as scoring each item alone would") {
    const std::uint64_t seed = 11;
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    std::vector<Path> items;
    for (int i = 0; i < 40; ++i)
      items.push_back({static_cast<kernels::Token>(random() % 8),
                       static_cast<kernels::Token>(8 + random() % 8),
                       static_cast<kernels::Token>(16 + random() % 8)});
    const SemanticIdTrie trie(items);
    const kernels::DecoderModel model = random_decoder(small_config(), seed);
    const auto alone = kernels::make_cpu_decoder(model, {});
    Generator generator(kernels::make_cpu_decoder(model, {}));
    for (const Path& prompt : {Path{5, 11, 23, 1, 9}, Path{7}}) {
      generator.set_prompt(prompt);
      const std::vector<Beam> beams = generator.search(trie, items.size());
      CHECK(beams.size() == std::set<Path>(items.begin(), items.end()).size());
      for (std::size_t i = 0; i < beams.size(); ++i) {
        CHECK(std::abs(beams[i].log_probability - score_alone(*alone, prompt, beams[i].path)) < 1e-4);
        if (i > 0) CHECK(beams[i - 1].log_probability >= beams[i].log_probability);
        double sum = 0;
        for (const double log : generator.log_probabilities_of(beams[i].path)) sum += log;
        CHECK(std::abs(beams[i].log_probability - sum) < 1e-4);
      }
    }
  }

  TEST_CASE("the beams of a trained generator are those that its training code found") {
    const auto shared = std::filesystem::path(TROUPE_ROOT_DIR).parent_path() / "shared";
    const auto folder = shared / "models" / "tiny-onerec";
    const auto data = shared / "data" / "amazon-industrial";
    if (!std::filesystem::exists(folder / "golden.json") || !std::filesystem::exists(data)) {
      MESSAGE("skipped: needs ../shared/models/tiny-onerec/golden.json and ../shared/data/amazon-industrial");
      return;
    }
    const auto golden = nlohmann::json::parse(std::ifstream(folder / "golden.json"));
    const auto vocabulary = kernels::read_vocabulary(folder, 772);
    std::vector<Path> ids;
    for (const PutItem& item : read_items(data, vocabulary)) ids.push_back(item.tokens);
    const SemanticIdTrie trie(ids);
    Generator generator(kernels::make_cpu_decoder(kernels::read_decoder(folder), {}));
    CHECK(golden.at("cases").size() == 20);
    for (const auto& user : golden.at("cases")) {
      generator.set_prompt(user.at("prompt").get<Path>());
      const auto beams = generator.search(trie, golden.at("beam_width").get<std::size_t>());
      REQUIRE(beams.size() == user.at("beams").size());
      for (std::size_t b = 0; b < beams.size(); ++b) {
        CHECK(beams[b].path == user.at("beams")[b].at("tokens").get<Path>());
        CHECK(std::abs(beams[b].log_probability - user.at("beams")[b].at("logprob").get<double>()) < 1e-4);
      }
    }
  }
}
