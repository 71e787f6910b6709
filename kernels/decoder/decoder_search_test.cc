// Tests beam searches of the CPU's decoder against a search that computes every path as a prompt of
// its own, keeps all paths and sorts all of them.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <string>

#include "kernels/testing/pass_times_test.h"
#include "kernels/testing/plain_search_test.h"
#include "kernels/testing/poisoned_pages_test.h"

namespace troupe::kernels {
namespace decoder_search_test {

DecoderConfig small_config() {
  DecoderConfig config;
  config.layers = 2, config.hidden = 24, config.heads = 4, config.kv_heads = 2, config.head_dim = 10;
  config.intermediate = 36, config.vocabulary = 50, config.positions_max = 300;
  return config;
}

std::unique_ptr<Executor> small_decoder(const DecoderOptions& options = {}) {
  return make_cpu_decoder(random_decoder(small_config(), 7), options);
}

TEST_CASE("decoder search: it finds the same paths in the same order as a search over whole prompts") {
  std::mt19937 random(11);
  const auto decoder = small_decoder();
  for (const auto normalised : {Search::Normalisation::vocabulary, Search::Normalisation::allowed})
    for (const std::size_t depth : {1u, 2u, 3u, 4u, 6u})
      for (const std::uint32_t width : {1u, 2u, 5u, 40u}) {
        CAPTURE(static_cast<int>(normalised));
        CAPTURE(depth);
        CAPTURE(width);
        const std::vector<Path> paths = random_paths(30, depth, random);
        Plan plan = prompt_plan(random);
        plan.search.width = width;
        plan.search.results = std::max(1u, width / 2);
        plan.search.normalised = normalised;
        const Request request = computed(plan, index_of(paths));
        CHECK(difference(decoder->run({&request, 1})[0].beams, plain_search(*decoder, plan, paths)) == "");
      }
}

TEST_CASE("decoder search: each part takes time, and the parts together no more than the search") {
  std::mt19937 random(13);
  const std::vector<Path> paths = random_paths(30, 3, random);
  Plan plan = prompt_plan(random);
  plan.search.width = plan.search.results = 5;
  check_pass_times(*small_decoder(), computed(plan, index_of(paths)), all_parts());
}

TEST_CASE("decoder search: copied paths, a masked tree and fully sorted levels give the same answers") {
  std::mt19937 random(17);
  for (const KvFormat kv : {KvFormat::f32, KvFormat::bf16}) {
    const auto decoder = small_decoder({.page_tokens = 4, .kv = kv});
    const auto copying =
        small_decoder({.page_tokens = 4, .kv = kv, .beams = BeamPaths::copied, .sort_all = true});
    const auto tree = small_decoder({.page_tokens = 4, .kv = kv, .beams = BeamPaths::tree});
    for (const std::size_t depth : {1u, 2u, 3u, 6u, 8u}) {
      CAPTURE(depth);
      std::vector<Plan> plans;
      std::vector<Request> requests;
      for (const std::uint32_t width : {1u, 9u, 30u}) {
        plans.push_back(prompt_plan(random, width));
        plans.back().search.width = plans.back().search.results = width;
      }
      for (const Plan& plan : plans)
        requests.push_back(computed(plan, index_of(random_paths(60, depth, random))));
      const std::vector<Reply> expected = decoder->run(requests), found = copying->run(requests),
                               masked = tree->run(requests);
      for (std::size_t i = 0; i < plans.size(); ++i) {
        CHECK(difference(found[i].beams, expected[i].beams) == "");
        CHECK(difference(masked[i].beams, expected[i].beams) == "");
      }
    }
  }
}

TEST_CASE("decoder search: answers do not depend on where the prompt's keys and values come from") {
  std::mt19937 random(12);
  for (const KvFormat kv : {KvFormat::f32, KvFormat::f16}) {
    const auto decoder = small_decoder({.page_tokens = 4, .kv = kv});
    PoisonedPages memory{decoder->layout(), {}};
    const std::vector<Path> paths = random_paths(40, 3, random);
    Plan plan = prompt_plan(random);
    plan.search.width = plan.search.results = 12;
    Request request = computed(plan, index_of(paths));
    const std::vector<Beam> expected = decoder->run({&request, 1})[0].beams;
    CHECK(expected.size() == 12);
    for (std::size_t s = 0; s < 4; ++s) request.kv[s].pages = memory.take(plan.segments[s].tokens.size());
    CHECK(difference(decoder->run({&request, 1})[0].beams, expected) == "");
    for (unsigned cached = 1; cached < 16; ++cached) {
      CAPTURE(cached);
      for (std::size_t s = 0; s < 4; ++s)
        request.kv[s].source = cached >> s & 1 ? Source::cached : Source::compute;
      CHECK(difference(decoder->run({&request, 1})[0].beams, expected) == "");
    }
  }
}

TEST_CASE("decoder search: a search that follows one token of history caches nothing before it") {
  std::mt19937 random(13);
  const auto decoder = small_decoder();
  PoisonedPages memory{decoder->layout(), {}};
  Plan plan;
  plan.segments = {{SegmentKind::user, Tokens({4}), 0, {}}};
  plan.search.width = plan.search.results = 5;
  const std::vector<Path> paths = random_paths(20, 3, random);
  Request request = computed(plan, index_of(paths));
  request.kv[0].pages = memory.take(1);
  const std::vector<Beam> expected = plain_search(*decoder, plan, paths);
  CHECK(difference(decoder->run({&request, 1})[0].beams, expected) == "");
  request.kv[0].source = Source::cached;
  CHECK(difference(decoder->run({&request, 1})[0].beams, expected) == "");
}

TEST_CASE("decoder search: searches of several requests share passes, whatever else is in the batch") {
  std::mt19937 random(14);
  for (const std::uint32_t batch_tokens : {0u, 20u}) {
    const auto decoder = small_decoder({.memory_bytes = batch_tokens, .batch_tokens = batch_tokens});
    std::vector<Plan> plans;
    std::vector<std::vector<Path>> paths;
    for (std::size_t i = 0; i < 7; ++i) {
      plans.push_back(prompt_plan(random, 3 + 2 * i));
      paths.push_back(random_paths(25, 1 + i % 4, random));
      plans.back().search.width = static_cast<std::uint32_t>(1 + 3 * i);
      plans.back().search.results = 1;
      if (i % 3 == 1) plans.back().search.normalised = Search::Normalisation::allowed;
    }
    plans[2].search = {};
    plans[2].readouts = {{3, 1, {4, 9}}};
    plans[4].readouts = {{1, 0, {7}}};
    std::vector<Request> requests;
    for (std::size_t i = 0; i < plans.size(); ++i) requests.push_back(computed(plans[i], index_of(paths[i])));
    const std::vector<Reply> together = decoder->run(requests);
    for (std::size_t i = 0; i < plans.size(); ++i) {
      CAPTURE(i);
      const std::vector<Reply> alone = decoder->run({&requests[i], 1});
      CHECK(together[i].too_large == "");
      CHECK(difference(together[i].beams, alone[0].beams) == "");
      REQUIRE(together[i].readouts.size() == plans[i].readouts.size());
      CHECK(alone[0].readouts.size() == plans[i].readouts.size());
    }
    CHECK(together[2].beams.empty());
    CHECK(std::abs(together[4].readouts[0][0] - decoder->run({&requests[4], 1})[0].readouts[0][0]) < 1e-4);
  }
}

TEST_CASE("decoder search: without an index, paths are of all tokens, as many as asked for") {
  std::mt19937 random(15);
  const auto decoder = small_decoder();
  Plan plan = prompt_plan(random);
  plan.search.width = plan.search.results = 6;
  plan.search.steps = 2;
  std::vector<Path> all;
  for (Token a = 0; a < 50; ++a)
    for (Token b = 0; b < 50; ++b) all.push_back({a, b});
  const Request request = computed(plan, nullptr);
  CHECK(difference(decoder->run({&request, 1})[0].beams, plain_search(*decoder, plan, all)) == "");
}

TEST_CASE("decoder search: a state that is not finite gives no answer") {
  DecoderModel model = random_decoder(small_config(), 7);
  model.weights.final_norm[3] = INFINITY;
  const auto decoder = make_cpu_decoder(std::move(model), {});
  std::mt19937 random(16);
  Plan plan = prompt_plan(random);
  plan.search.width = plan.search.results = 4;
  const Request request = computed(plan, index_of(random_paths(20, 3, random)));
  const std::vector<Beam> beams = decoder->run({&request, 1})[0].beams;
  REQUIRE(beams.size() == 1);
  CHECK(std::isnan(beams[0].log_probability));
}

}  // namespace decoder_search_test
}  // namespace troupe::kernels
