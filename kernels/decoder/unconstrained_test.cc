#include "kernels/decoder/unconstrained.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "kernels/decoder/decoder.h"

namespace troupe::kernels {
namespace unconstrained_test {

// A random model of five tokens, and three items of two tokens.
struct SmallGenerator {
  SmallGenerator() {
    DecoderConfig config;
    config.layers = 2;
    config.hidden = 32;
    config.heads = config.kv_heads = 2;
    config.head_dim = 16;
    config.intermediate = 32;
    config.vocabulary = 5;
    config.positions_max = 9;
    config.qkv_bias = config.tied_embeddings = true;
    decoder = make_cpu_decoder(random_decoder(config, 3), {});
    const std::vector<std::vector<Token>> items{{1, 3}, {2, 3}, {2, 4}};
    index = std::make_shared<PathIndex>(std::vector<std::span<const Token>>(items.begin(), items.end()));
  }
  std::unique_ptr<Executor> decoder;
  std::shared_ptr<const PathIndex> index;
};

TEST_CASE(
    "unconstrained search: paths that are no item are dropped, and the items are those of a constrained "
    "search") {
  const SmallGenerator small;
  const auto& decoder = small.decoder;
  const auto whole = unconstrained(decoder->share(1));
  const std::vector<Token> denied{1, 3};
  for (const bool denies : {false, true})
    for (const std::uint32_t results : {1u, 2u, 25u}) {
      Plan plan;
      plan.segments = {{SegmentKind::user, {0, 1}, 0, {}}};
      plan.search.width = 25;  // all paths of two tokens
      plan.search.results = results;
      if (denies) plan.search.denied.emplace_back(denied);
      const Request request{&plan, {{}}, std::make_shared<PathAssets>(small.index)};
      const auto found = whole->run({&request, 1})[0].beams, expected = decoder->run({&request, 1})[0].beams;
      REQUIRE(expected.size() == std::min<std::size_t>(results, denies ? 2 : 3));
      REQUIRE(found.size() == expected.size());
      for (std::size_t i = 0; i < found.size(); ++i) {
        CHECK(found[i].path == expected[i].path);
        CHECK(found[i].log_probability == doctest::Approx(expected[i].log_probability).epsilon(1e-5));
      }
    }
}

TEST_CASE("unconstrained search: a search without an index, or with its own paths, is left as it is") {
  const SmallGenerator small;
  const auto& decoder = small.decoder;
  const auto whole = unconstrained(decoder->share(1));
  Plan plan;
  plan.segments = {{SegmentKind::user, {0, 1}, 0, {}}};
  plan.search.width = plan.search.results = 4;
  plan.search.steps = 1;
  const Request free{&plan, {{}}};
  CHECK(whole->run({&free, 1})[0].beams == decoder->run({&free, 1})[0].beams);
  plan.search.steps = 0;
  plan.search.allowed = {{4, 4}, {4, 3}};
  const Request listed{&plan, {{}}, std::make_shared<PathAssets>(small.index)};
  CHECK(whole->run({&listed, 1})[0].beams.size() == 2);
}

}  // namespace unconstrained_test
}  // namespace troupe::kernels
