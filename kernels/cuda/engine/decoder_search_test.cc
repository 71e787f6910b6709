// Tests the decoder's beam searches on a device against searches over whole prompts on the CPU.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include "kernels/cuda/engine/decoder.h"
#include "kernels/cuda/testing/device_test.h"
#include "kernels/cuda/testing/small_decoder_test.h"
#include "kernels/testing/plain_search_test.h"

using namespace troupe::kernels;
using cuda::CudaDecoderOptions;
using cuda::HalfFormat;

namespace {

CudaDecoderOptions search_options() {
  CudaDecoderOptions options = cuda::small_options();
  options.kv = KvFormat::f16, options.weights = HalfFormat::f16;
  options.logits_max = 1000, options.search_tokens_max = 400, options.search_logits_max = 4000;
  return options;
}

// The same model on the device and on the CPU.
struct Decoders {
  explicit Decoders(const CudaDecoderOptions& chosen = search_options(), bool spoiled = false,
                    const DecoderConfig& config = cuda::small_config())
      : options(chosen) {
    DecoderModel model = cuda::rounded(random_decoder(config, 7), options.weights);
    if (spoiled) model.weights.final_norm[3] = INFINITY;
    on_cpu = make_cpu_decoder(model, {});
    on_device = cuda::make_cuda_decoder(std::move(model), options);
  }
  std::vector<Beam> run(const Request& request) const { return on_device->run({&request, 1})[0].beams; }

  CudaDecoderOptions options;
  std::unique_ptr<Executor> on_cpu, on_device;
};

// Maximum error of a step's log-probability; a difference of two may have twice this error.
constexpr double step_error = 4e-3;

// Returns an empty string, or how a search differs from the plain one by more than rounding. Paths
// must be equal unless a choice between them was closer than `margin`; probabilities must always
// agree.
std::string difference(const std::vector<Beam>& found, const std::vector<Beam>& expected, double margin) {
  if (found.size() != expected.size())
    return std::to_string(found.size()) + " paths; expected " + std::to_string(expected.size());
  if (!std::ranges::is_sorted(found, better)) return "not in order";
  std::map<Path, double> values;
  for (const Beam& beam : expected) values[beam.path] = beam.log_probability;
  for (const Beam& beam : found) {
    const double error = step_error * static_cast<double>(beam.path.size());
    const auto at = values.find(beam.path);
    if (at == values.end() && margin > 2 * error)
      return "another path, by a margin of " + std::to_string(margin);
    if (at != values.end() && !(std::abs(at->second - beam.log_probability) < error))
      return "a path has " + std::to_string(beam.log_probability) + "; expected " +
             std::to_string(at->second);
  }
  return "";
}

}  // namespace

TEST_SUITE("cuda decoder searches") {
  TEST_CASE("CUDA search: a search on the device finds what a search over whole prompts finds on the CPU") {
    if (!cuda::have_device()) return;
    std::mt19937 random(11);
    const Decoders decoders;
    int decided = 0, all = 0;
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
          double margin = 0;
          const std::vector<Beam> expected = plain_search(*decoders.on_cpu, plan, paths, &margin);
          CHECK(difference(decoders.run(computed(plan, index_of(paths))), expected, margin) == "");
          decided += margin > 2 * step_error * static_cast<double>(depth) ? 1 : 0;
          ++all;
        }
    CHECK(2 * decided > all);
  }

  TEST_CASE(
      "CUDA search: a search on the device as wide as its catalog finds all of it, for all models, formats "
      "and pages") {
    if (!cuda::have_device()) return;
    std::mt19937 random(10);
    for (const Family family : {Family::qwen2, Family::qwen3, Family::llama})
      for (const std::uint32_t page_tokens : {1u, 3u, 16u}) {
        CAPTURE(static_cast<int>(family));
        CAPTURE(page_tokens);
        CudaDecoderOptions options = search_options();
        options.page_tokens = page_tokens;
        if (page_tokens == 3) options.kv = KvFormat::bf16, options.weights = HalfFormat::bf16;
        DecoderConfig config = cuda::small_config(family);
        if (page_tokens == 16) config.head_dim = 64, config.vocabulary = 96, config.tied_embeddings = false;
        const Decoders decoders(options, false, config);
        const std::vector<Path> paths = random_paths(30, 5, random);
        Plan plan = prompt_plan(random);
        plan.search.width = plan.search.results = 40;
        std::map<Path, double> expected;
        for (const Beam& beam : plain_search(*decoders.on_cpu, plan, paths))
          expected[beam.path] = beam.log_probability;
        const std::vector<Beam> found = decoders.run(computed(plan, index_of(paths)));
        CHECK(found.size() == paths.size());
        for (const Beam& beam : found) {
          REQUIRE(expected.contains(beam.path));
          CHECK(std::abs(beam.log_probability - expected[beam.path]) <
                5 * 2 * cuda::tolerance(config, options));
        }
      }
  }

  // Returns a plan with an item that is used at another position than it was computed at.
  Plan moved_plan(std::mt19937 & random) {
    Plan plan = prompt_plan(random);
    plan.segments[1].shift = 40;
    plan.search.width = plan.search.results = 7;
    return plan;
  }

  TEST_CASE("CUDA search: on the device, the source of the prompt's keys and values makes no difference") {
    if (!cuda::have_device()) return;
    std::mt19937 random(12);
    const Decoders decoders;
    cuda::DevicePages memory{decoders.on_device->layout(), {}};
    const std::vector<Path> paths = random_paths(40, 4, random);
    Plan plan;
    std::vector<Beam> expected;
    for (double margin = 0; margin < 4 * 2 * step_error;) {
      plan = moved_plan(random);
      expected = plain_search(*decoders.on_cpu, plan, paths, &margin);
    }
    Request request = computed(plan, index_of(paths));
    CHECK(difference(decoders.run(request), expected, INFINITY) == "");
    for (std::size_t s = 0; s < 4; ++s) request.kv[s].pages = memory.take(plan.segments[s].tokens.size());
    CHECK(difference(decoders.run(request), expected, INFINITY) == "");
    for (unsigned cached = 1; cached < 16; ++cached) {
      CAPTURE(cached);
      for (std::size_t s = 0; s < 4; ++s)
        request.kv[s].source = cached >> s & 1 ? Source::cached : Source::compute;
      CHECK(difference(decoders.run(request), expected, INFINITY) == "");
    }
  }

  TEST_CASE("CUDA search: on the device, a prompt of one token has nothing before it, computed or cached") {
    if (!cuda::have_device()) return;
    std::mt19937 random(13);
    const Decoders decoders;
    cuda::DevicePages memory{decoders.on_device->layout(), {}};
    Plan plan;
    plan.segments = {{SegmentKind::user, Tokens({4}), 0, {}}};
    plan.search.width = plan.search.results = 5;
    const std::vector<Path> paths = random_paths(20, 3, random);
    double margin = 0;
    const std::vector<Beam> expected = plain_search(*decoders.on_cpu, plan, paths, &margin);
    Request request = computed(plan, index_of(paths));
    request.kv[0].pages = memory.take(1);
    CHECK(difference(decoders.run(request), expected, margin) == "");
    request.kv[0].source = Source::cached;
    CHECK(difference(decoders.run(request), expected, margin) == "");
  }

  // Searches of several widths and depths, and requests without a search.
  struct SearchMix {
    std::vector<Plan> plans;
    std::vector<std::vector<Path>> paths;
    std::vector<Request> requests;

    explicit SearchMix(std::mt19937& random) {
      for (std::size_t i = 0; i < 7; ++i) {
        plans.push_back(prompt_plan(random, 3 + 2 * i));
        paths.push_back(random_paths(25, 1 + i % 4, random));
        plans.back().search.width = static_cast<std::uint32_t>(1 + 3 * i);
        plans.back().search.results = std::max<std::uint32_t>(1, plans.back().search.width / 2);
        if (i % 3 == 1) plans.back().search.normalised = Search::Normalisation::allowed;
      }
      plans[2].search = {};
      plans[2].readouts = {{3, 1, {4, 9}}};
      plans[4].readouts = {{1, 0, {7}}};
      for (std::size_t i = 0; i < plans.size(); ++i)
        requests.push_back(computed(plans[i], index_of(paths[i])));
    }
  };

  void check_mixture(const Decoders& decoders) {
    std::mt19937 random(14);
    const SearchMix given(random);
    const std::vector<Reply> found = decoders.on_device->run(given.requests);
    for (std::size_t i = 0; i < found.size(); ++i) {
      CAPTURE(i);
      CHECK(found[i].too_large == "");
      REQUIRE(found[i].readouts.size() == given.plans[i].readouts.size());
      Plan plain = given.plans[i];
      plain.search = {};
      const Request read = computed(plain, nullptr);
      const std::vector<Reply> want = decoders.on_cpu->run({&read, 1});
      for (std::size_t r = 0; r < plain.readouts.size(); ++r)
        CHECK(std::abs(found[i].readouts[r][0] - want[0].readouts[r][0]) < step_error);
      if (given.plans[i].search.width == 0) {
        CHECK(found[i].beams.empty());
        continue;
      }
      double margin = 0;
      const std::vector<Beam> expected =
          plain_search(*decoders.on_cpu, given.plans[i], given.paths[i], &margin);
      CHECK(difference(found[i].beams, expected, margin) == "");
    }
  }

  TEST_CASE("CUDA search: searches of several requests share passes on the device, within any bounds") {
    if (!cuda::have_device()) return;
    check_mixture(Decoders());
    CudaDecoderOptions options = search_options();
    SUBCASE("fewer rows than a level has") { options.rows_max = 33; }
    SUBCASE("fewer keys than a level sees") { options.keys_max = 60; }
    SUBCASE("fewer logits than a level asks for") { options.logits_max = 40; }
    SUBCASE("products of a row at a time") { options.search_logits_max = 104; }
    SUBCASE("pages for one search at a time") { options.search_tokens_max = 80; }
    SUBCASE("no recordings") { options.graphs_max = 0; }
    check_mixture(Decoders(options));
  }

  TEST_CASE(
      "CUDA search: a recorded search gives the same result as an unrecorded one, also for others of its "
      "shape") {
    if (!cuda::have_device()) return;
    CudaDecoderOptions options = search_options();
    options.graphs_max = 0;
    const Decoders plain(options);
    options.graphs_max = 8;
    const Decoders recorded(options);
    std::mt19937 random(20);
    for (const std::uint32_t width : {3u, 5u, 4u, 9u, 7u, 12u})
      for (const auto normalised : {Search::Normalisation::vocabulary, Search::Normalisation::allowed}) {
        CAPTURE(width);
        Plan plan = prompt_plan(random);
        plan.search.width = plan.search.results = width;
        plan.search.normalised = normalised;
        const Request request = computed(plan, index_of(random_paths(30, 3, random)));
        CHECK(recorded.run(request) == plain.run(request));
      }
  }

  TEST_CASE("CUDA search: a search beyond the bounds is refused, and the others are answered") {
    if (!cuda::have_device()) return;
    std::mt19937 random(15);
    CudaDecoderOptions options = search_options();
    const std::vector<Path> paths = random_paths(40, 3, random);
    std::vector<Plan> plans;
    for (const std::size_t history : {9, 60, 9}) {
      plans.push_back(prompt_plan(random, history));
      plans.back().search.width = plans.back().search.results = 4;
    }
    std::string says;
    SUBCASE("pages") {
      options.search_tokens_max = 40;
      says = "a search that keeps 20 pages; expected at most 10";
    }
    SUBCASE("keys of the prompt") {
      options.keys_max = 60;
      says = "a pass of 73 keys; expected at most 60";
    }
    SUBCASE("keys of one path, behind a prompt that fits in parts") {
      options.keys_max = 70;
      says = "a pass of 71 keys; expected at most 70";
    }
    const Decoders decoders(options);
    std::vector<Request> requests;
    for (const Plan& plan : plans) requests.push_back(computed(plan, index_of(paths)));
    const std::vector<Reply> found = decoders.on_device->run(requests);
    CHECK(found[1].too_large == says);
    CHECK(found[1].beams.empty());
    for (const std::size_t i : {0, 2}) {
      double margin = 0;
      const std::vector<Beam> expected = plain_search(*decoders.on_cpu, plans[i], paths, &margin);
      CHECK(found[i].too_large == "");
      CHECK(difference(found[i].beams, expected, margin) == "");
    }
  }

  TEST_CASE("CUDA search: without an index, paths use all tokens, and others replace denied ones") {
    if (!cuda::have_device()) return;
    std::mt19937 random(16);
    const Decoders decoders;
    Plan plan = prompt_plan(random);
    plan.search.width = plan.search.results = 6;
    plan.search.steps = 2;
    std::vector<Path> all;
    for (Token a = 0; a < 97; ++a)
      for (Token b = 0; b < 97; ++b) all.push_back({a, b});
    double margin = 0;
    const std::vector<Beam> expected = plain_search(*decoders.on_cpu, plan, all, &margin);
    CHECK(difference(decoders.run(computed(plan, nullptr)), expected, margin) == "");
    // Also with a width and denied paths beyond the vocabulary.
    Plan wide = plan;
    wide.search.width = 120;
    const std::vector<Beam> before = decoders.run(computed(wide, nullptr));
    for (std::size_t i = 0; i < 3; ++i) wide.search.denied.push_back(Tokens(before[i].path));
    const std::vector<Beam> found = decoders.run(computed(wide, nullptr));
    REQUIRE(found.size() == 6);
    for (std::size_t i = 3; i < 6; ++i) CHECK(found[i - 3].path == before[i].path);
  }

  TEST_CASE(
      "CUDA search: a wide search on the device keeps the best of many more, with each token's "
      "log-probability") {
    if (!cuda::have_device()) return;
    std::mt19937 random(21);
    const Decoders decoders;
    const std::vector<Path> paths = random_paths(300, 3, random);
    Plan plan = prompt_plan(random);
    plan.search.width = plan.search.results = 60;
    plan.search.by_token = true;
    double margin = 0;
    const std::vector<Beam> expected = plain_search(*decoders.on_cpu, plan, paths, &margin);
    const std::vector<Beam> found = decoders.run(computed(plan, index_of(paths)));
    CHECK(difference(found, expected, margin) == "");
    for (const Beam& beam : found) {
      REQUIRE(beam.by_token.size() == 3);
      CHECK(std::abs(beam.by_token[0] + beam.by_token[1] + beam.by_token[2] - beam.log_probability) < 1e-9);
    }
  }

  TEST_CASE("CUDA search: the device does not answer with a state that is not finite") {
    if (!cuda::have_device()) return;
    const Decoders decoders(search_options(), true);
    std::mt19937 random(17);
    for (const auto normalised : {Search::Normalisation::vocabulary, Search::Normalisation::allowed}) {
      Plan plan = prompt_plan(random);
      plan.search.width = plan.search.results = 4;
      plan.search.normalised = normalised;
      const std::vector<Beam> beams = decoders.run(computed(plan, index_of(random_paths(20, 3, random))));
      REQUIRE(beams.size() == 1);
      CHECK(std::isnan(beams[0].log_probability));
    }
  }

  TEST_CASE("CUDA decoder: a requested state equals the CPU's, beside logits and alone") {
    if (!cuda::have_device()) return;
    const Decoders decoders;
    CHECK(decoders.on_device->limits().state == decoders.on_cpu->limits().state);
    std::mt19937 random(18);
    Plan plan = prompt_plan(random);
    plan.search = {};
    const Readout state{3, 8, {}, Readout::What::state}, other{1, 4, {}, Readout::What::state};
    for (const std::vector<Readout>& readouts :
         {std::vector<Readout>{state, {3, 2, {1, 2, 3}}, other}, {other}}) {
      plan.readouts = readouts;
      const Request request = computed(plan, nullptr);
      const auto found = decoders.on_device->run({&request, 1}), want = decoders.on_cpu->run({&request, 1});
      for (std::size_t r = 0; r < readouts.size(); ++r) {
        REQUIRE(found[0].readouts[r].size() == want[0].readouts[r].size());
        for (std::size_t i = 0; i < want[0].readouts[r].size(); ++i)
          CHECK(std::abs(found[0].readouts[r][i] - want[0].readouts[r][i]) < 4 * step_error);
      }
    }
  }

  TEST_CASE(
      "CUDA search: an executor without search pages has no searches, and one with too few says what it "
      "needs") {
    if (!cuda::have_device()) return;
    CudaDecoderOptions options = search_options();
    CHECK(Decoders(options).on_device->limits().width_max == search_width_max);
    options.rows_max = 100;
    CHECK(Decoders(options).on_device->limits().width_max == 100);
    options.search_logits_max = 103;
    CHECK(cuda_decoder_fault(cuda::small_config(), options) ==
          "search_logits_max 103; expected at least 104");
    options.search_tokens_max = 0;
    CHECK(cuda_decoder_fault(cuda::small_config(), options) == "");
    CHECK(Decoders(options).on_device->limits().width_max == 0);
  }

  TEST_CASE("CUDA search: the parts of a search on the device are measured") {
    if (!cuda::have_device()) return;
    const Decoders decoders;
    std::mt19937 random(19);
    Plan plan = prompt_plan(random);
    plan.search.width = plan.search.results = 4;
    PassTimes times;
    decoders.on_device->measure(&times);
    decoders.run(computed(plan, index_of(random_paths(20, 3, random))));
    for (const double part : {times.planning, times.linear, times.attention, times.readout, times.search})
      CHECK(part > 0);
  }
}
