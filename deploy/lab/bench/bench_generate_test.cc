#include "deploy/lab/bench/bench_generate.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <stdexcept>
#include <string>

using namespace troupe;
using namespace troupe::deploy;

namespace {

// Returns eight items of three tokens, and five prompts whose true item is one of them.
GenerateWork small_work() {
  kernels::DecoderConfig config;
  config.layers = 2, config.hidden = 32, config.heads = 4, config.kv_heads = 2, config.head_dim = 8;
  config.intermediate = 32, config.vocabulary = 20, config.positions_max = 64;
  std::vector<Path> paths;
  for (kernels::Token a = 1; a < 3; ++a)
    for (kernels::Token b = 4; b < 8; ++b) paths.push_back({a, b, static_cast<kernels::Token>(7 + a + b)});
  const std::vector<std::span<const kernels::Token>> views(paths.begin(), paths.end());
  GenerateWork work{
      "small", kernels::random_decoder(config, 5), {std::make_shared<const kernels::PathIndex>(views), {}}};
  for (kernels::Token i = 0; i < 5; ++i)
    work.data.events.push_back(
        {Path(static_cast<std::size_t>(3 + 4 * i), i), paths[static_cast<std::size_t>(i)]});
  return work;
}

}  // namespace

TEST_SUITE("bench generate") {
  TEST_CASE(
      "run_generate: every engine answers every request; only the unconstrained one returns non-items") {
    const GenerateWork work = small_work();
    GenerateSetup setup;
    setup.engines.assign(beam_engines().begin(), beam_engines().end());
    setup.width = 8;
    for (const bool cached : {true, false}) {
      setup.cached = cached;
      const std::vector<GenerateRun> runs = run_generate(work, setup);
      REQUIRE(runs.size() == 5);
      for (const GenerateRun& run : runs) {
        CAPTURE(run.engine.name);
        CHECK(run.requests == 5);
        CHECK(run.wall_ms.size() == 5);
        CHECK(run.returned == 5 * 8);
        CHECK(run.duplicate == 0);
        CHECK((run.invalid > 0) == !run.engine.constrained);
        CHECK(run.hits_at_10 == (run.engine.constrained ? 5 : run.hits_at_10));
        CHECK(run.times.attention > 0);
      }
      // 4 tokens a page, 2 layers, 2 heads of 8 keys and values in float32. The longest prompt has 19
      // tokens, and each path adds one.
      const std::uint64_t token = 2 * 2 * 8 * 2 * 4;
      CHECK(runs[0].kv_bytes_peak == (20 + 8) * token);
      CHECK(runs[1].kv_bytes_peak == (20 + 2 * 8 * 4) * token);
      // A tree keeps as many, and a mask of 8 rows. The last level sees 16 tokens, rounded up to 32.
      CHECK(runs[2].engine.name == "tree");
      CHECK(runs[2].kv_bytes_peak == (20 + 8) * token);
      CHECK(runs[2].mask_bytes == 8 * 32 * 4);
      CHECK(runs[0].mask_bytes == 0);
    }
  }

  TEST_CASE("bench generate: unknown engines, shapes and prompt lengths are refused") {
    CHECK(find_beam_engine("independent").beams == kernels::BeamPaths::copied);
    CHECK(find_beam_engine("tree").beams == kernels::BeamPaths::tree);
    CHECK_THROWS_WITH_AS(find_beam_engine("vllm"), doctest::Contains("expected troupe"),
                         std::invalid_argument);
    CHECK_THROWS_WITH_AS(random_generate_work({"huge", 10}), doctest::Contains("expected tiny"),
                         std::invalid_argument);
    CHECK_THROWS_WITH_AS(random_generate_work({"tiny", 0}), doctest::Contains("expected 1 to 8189"),
                         std::invalid_argument);
    CHECK_THROWS_WITH_AS(random_generate_work({"tiny", 10, 1, 1, 800, 267}),
                         doctest::Contains("expected at most 266, a third of a vocabulary of 800"),
                         std::invalid_argument);
    CHECK_THROWS_WITH_AS(random_generate_work({"tiny", 10, 1, 1, 800, 34}),
                         doctest::Contains("expected at least 35"), std::invalid_argument);
    CHECK(find_normalisation("allowed") == kernels::Search::Normalisation::allowed);
    CHECK_THROWS_WITH_AS(find_normalisation("all"), doctest::Contains("expected vocabulary or allowed"),
                         std::invalid_argument);
  }

  TEST_CASE("random_generate_work: identifiers have the codes asked for, in the vocabulary asked for") {
    const GenerateWork work = random_generate_work({"tiny", 10, 2, 1, 800, 200});
    CHECK(work.model.config.vocabulary == 800);
    CHECK(work.data.events.size() == 2);
    const kernels::PathIndex& index = *work.data.index;
    CHECK(index.next(kernels::PathIndex::root).size() == 200);
  }

  TEST_CASE("run_generate: each engine runs with each normalisation, and the unconstrained one once") {
    const GenerateWork work = small_work();
    GenerateSetup setup;
    setup.engines.assign(beam_engines().begin(), beam_engines().end());
    setup.width = 8;
    setup.normalised = {kernels::Search::Normalisation::vocabulary, kernels::Search::Normalisation::allowed};
    const std::vector<GenerateRun> runs = run_generate(work, setup);
    REQUIRE(runs.size() == 9);
    std::vector<std::string> names;
    for (const GenerateRun& run : runs)
      names.push_back(std::string(run.engine.name) + ", " + std::string(normalisation_name(run.normalised)));
    CHECK(names[0] == "troupe, vocabulary");
    CHECK(names[1] == "troupe, allowed");
    CHECK(names[8] == "unconstrained, vocabulary");
    // Two tokens may come first and four second, and a third follows the second: over those that may follow
    // the eight paths' probabilities add up to 1, over the vocabulary to less.
    CHECK(runs[1].probability == doctest::Approx(1));
    CHECK(runs[3].probability == doctest::Approx(1));
    CHECK(runs[0].probability < 0.5);
    CHECK(runs[0].probability == doctest::Approx(runs[2].probability));
  }
}
