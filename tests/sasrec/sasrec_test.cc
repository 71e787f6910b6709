// Tests the executor of SASRec against the float64 definition: random models of many shapes, blocks that
// are kept and reused, batches, tables that are not in memory, and the best items of the whole table.
#include <doctest/doctest.h>
#include <malloc.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <stdexcept>

#include "kernels/operations/versions.h"
#include "kernels/sasrec/cpu_sasrec.h"
#include "kernels/testing/pass_times_test.h"
#include "kernels/testing/poisoned_pages_test.h"
#include "kernels/testing/small_sasrec_test.h"
#include "kernels/testing/test_folder.h"
#include "tests/sasrec/sasrec_reference.h"

using namespace troupe;
using namespace troupe::sasrec;
using kernels::Beam;
using kernels::Plan;
using kernels::Request;
using kernels::SasrecConfig;
using kernels::SasrecModel;
using kernels::SegmentKv;
using kernels::Source;
using kernels::Token;

namespace {

std::uint32_t one_of(std::mt19937& random, std::initializer_list<std::uint32_t> some) {
  return some.begin()[random() % some.size()];
}

SasrecConfig random_config(std::mt19937& random) {
  SasrecConfig c;
  c.layers = 1 + random() % 4;
  c.heads = one_of(random, {1, 1, 2, 3, 4});
  c.hidden = c.heads * one_of(random, {1, 4, 7, 16, 25, 50});
  c.intermediate = one_of(random, {1, 5, 16, 50, 120});
  if (random() % 2 == 0) c.activation = kernels::SasrecActivation::gelu;
  c.vocabulary = 2 + random() % 300;
  c.history_max = 1 + random() % 70;
  c.position_rows = c.history_max + one_of(random, {0, 1, 11});
  c.epsilon = random() % 2 == 0 ? 1e-8 : 1e-3;
  if (random() % 3 == 0) c.output_norm = kernels::SasrecOutputNorm::layer_norm;
  if (random() % 3 == 0) c.item_l2 = false;
  if (random() % 2 == 0) c.temperature = 0.05;
  return c;
}

std::vector<Token> random_items(std::mt19937& random, const SasrecConfig& c, std::size_t count) {
  std::vector<Token> items;
  for (std::size_t i = 0; i < count; ++i)
    items.push_back(static_cast<Token>(1 + random() % (c.vocabulary - 1)));
  return items;
}

// A model, a history and the numbers that the definition gives for it.
struct SasrecCase {
  SasrecModel model;
  std::vector<Token> history;
  Plan plan;
  std::vector<double> state, similarities;

  explicit SasrecCase(std::mt19937& random)
      : SasrecCase(kernels::random_sasrec(random_config(random), random()), random) {}
  SasrecCase(SasrecModel of, std::mt19937& random) : model(std::move(of)) {
    history = random_items(random, model.config, 1 + random() % model.config.history_max);
    std::vector<Token> all(model.config.vocabulary);
    std::iota(all.begin(), all.end(), 0);
    plan = kernels::sasrec_plan(history, std::move(all));
    state = reference_states(model, history).back();
    similarities = reference_similarities(model, state);
  }
  // Largest difference of the readouts, relative to the size of the numbers.
  double gap(const std::vector<std::vector<float>>& readouts) const {
    double most = 0;
    const auto compare = [&](double found, double wanted) {
      const double off = std::abs(found - wanted) / (1 + std::abs(wanted));
      if (!(off <= most)) most = off;  // also true for NaN
    };
    REQUIRE(readouts.size() == 2);
    REQUIRE(readouts[0].size() == similarities.size());
    REQUIRE(readouts[1].size() == state.size());
    for (std::size_t i = 0; i < similarities.size(); ++i)
      compare(double{readouts[0][i]} * model.config.temperature, similarities[i]);
    for (std::size_t i = 0; i < state.size(); ++i) compare(double{readouts[1][i]}, state[i]);
    return most;
  }
};

// Small epsilons let a norm of a nearly constant state amplify rounding, so the bound is far above that of
// one product, and far below what a wrong formula gives.
constexpr double rounding = 2e-4;

std::size_t bytes_in_use() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

std::vector<SegmentKv> kept_in(const Plan& plan, kernels::PoisonedPages& pages) {
  std::vector<SegmentKv> kv;
  for (const kernels::Segment& segment : plan.segments)
    kv.push_back({Source::compute, pages.take(segment.tokens.size())});
  return kv;
}

TEST_CASE(
    "sasrec: 200 random models equal the float64 definition, cold, and with all but the last event reused") {
  std::mt19937 random(47);
  int reused = 0;
  for (int trial = 0; trial < 200; ++trial) {
    CAPTURE(trial);
    const SasrecCase one(random);
    const kernels::DecoderOptions options{.page_tokens = one_of(random, {1, 4, 16})};
    const auto executor = kernels::make_cpu_sasrec(one.model, options);
    REQUIRE(validate(one.plan, executor->limits()).empty());
    kernels::PoisonedPages pages{executor->layout(), {}};
    Request request{&one.plan, kept_in(one.plan, pages)};
    CHECK(one.gap(executor->run({&request, 1})[0].readouts) < rounding);
    if (one.plan.segments.size() == 1) continue;
    ++reused;
    request.kv[0].source = Source::cached;
    CHECK(one.gap(executor->run({&request, 1})[0].readouts) < rounding);
  }
  CHECK(reused > 150);
}

// Root of the mean square of the states' and similarities' errors, relative to that of their numbers.
double typical_gap(const SasrecCase& one, const std::vector<std::vector<float>>& readouts) {
  const auto share = [](const std::vector<float>& found, const std::vector<double>& wanted, double scale) {
    double off = 0, size = 0;
    for (std::size_t i = 0; i < wanted.size(); ++i)
      off += std::pow(found[i] * scale - wanted[i], 2), size += std::pow(wanted[i], 2);
    return std::sqrt(off / size);
  };
  return std::max(share(readouts.at(0), one.similarities, one.model.config.temperature),
                  share(readouts.at(1), one.state, 1));
}

// Rounding as in tests/hstu/hstu_test.cc, for five linear layers, scores and weighted sums in a layer.
// The epsilon of the norms is large, so that they do not amplify it.
TEST_CASE("sasrec: bf16 weights are within their rounding of the definition, on every instruction set") {
  std::mt19937 random(11);
  for (int trial = 0; trial < 12; ++trial) {
    CAPTURE(trial);
    SasrecConfig config = random_config(random);
    config.epsilon = config.output_epsilon = 0.1;
    config.hidden = config.heads * 16;
    const SasrecCase one(kernels::random_sasrec(config, random()), random);
    const double allowed = 2 * 0x1p-8 * std::sqrt(2.0 / 3.0) * 7 * config.layers;
    for (const kernels::ProductVersion& product : kernels::product_versions()) {
      if (!product.usable) continue;
      CAPTURE(product.name);
      const auto named = [&](auto versions) { return &kernels::version_named(versions, product.name); };
      kernels::Teams teams;
      teams.push_back(std::make_unique<kernels::Team>(2, kernels::CpuSet{}, 0));
      const kernels::DecoderOptions options{.page_tokens = 4,
                                            .kv = kernels::KvFormat::bf16,
                                            .weights = kernels::WeightFormat::bf16,
                                            .cores = 2};
      const auto executor = kernels::make_cpu_sasrec(
          one.model, options,
          {named(kernels::gate_versions()), named(kernels::attend_versions())->run, &product, {}},
          std::move(teams));
      const Request request{&one.plan, std::vector<SegmentKv>(one.plan.segments.size())};
      CHECK(typical_gap(one, executor->run({&request, 1})[0].readouts) < allowed);
    }
  }
}

// Cuts a history into parts of random lengths, as a router does with its blocks.
Plan in_parts(const std::vector<Token>& history, const Plan& whole, std::mt19937& random) {
  Plan plan;
  for (std::size_t begin = 0, end = 0; begin < history.size(); begin = end) {
    end = std::min(history.size(), begin + 1 + random() % 9);
    if (begin + 1 < history.size()) end = std::min(end, history.size() - 1);
    kernels::Segment& segment = plan.segments.emplace_back();
    segment.tokens = std::vector<Token>(history.begin() + static_cast<std::ptrdiff_t>(begin),
                                        history.begin() + static_cast<std::ptrdiff_t>(end));
    segment.start = static_cast<std::int32_t>(begin);
    segment.sees = kernels::VisibleSegments::all_before(static_cast<std::uint32_t>(plan.segments.size() - 1));
  }
  plan.readouts = whole.readouts;
  for (kernels::Readout& readout : plan.readouts)
    readout.segment = static_cast<std::uint32_t>(plan.segments.size() - 1);
  return plan;
}

TEST_CASE("sasrec: a batch of histories in parts, some reused, on each instruction set and two cores") {
  std::mt19937 random(3);
  for (const kernels::Gates& gates : kernels::gate_versions()) {
    const auto attend =
        std::ranges::find(kernels::attend_versions(), gates.name, &kernels::AttendVersion::name);
    const auto score = std::ranges::find(kernels::score_versions(), gates.name, &kernels::ScoreVersion::name);
    const auto readout =
        std::ranges::find(kernels::readout_versions(), gates.name, &kernels::ReadoutVersion::name);
    if (!gates.usable || !attend->usable) continue;
    CAPTURE(gates.name);
    SasrecConfig config = random_config(random);
    config.history_max = config.position_rows = 60;
    const SasrecModel model = kernels::random_sasrec(config, random());
    kernels::Teams teams;
    teams.push_back(std::make_unique<kernels::Team>(2, kernels::CpuSet{}, 0));
    const auto executor = kernels::make_cpu_sasrec(
        model, {.page_tokens = 4, .cores = 2},
        {&gates, attend->run, &kernels::product_version(), {.score = score->run, .readout = readout->run}},
        std::move(teams));
    kernels::PoisonedPages pages{executor->layout(), {}};
    std::vector<SasrecCase> cases;
    for (int i = 0; i < 5; ++i) cases.emplace_back(model, random);
    std::vector<Plan> plans;
    std::vector<Request> requests;
    for (const SasrecCase& one : cases) plans.push_back(in_parts(one.history, one.plan, random));
    for (const Plan& plan : plans) requests.push_back({&plan, kept_in(plan, pages)});
    for (const bool warm : {false, true}) {
      CAPTURE(warm);
      const auto replies = executor->run(requests);
      for (std::size_t i = 0; i < cases.size(); ++i) CHECK(cases[i].gap(replies[i].readouts) < rounding);
      for (Request& request : requests)
        for (std::size_t s = 0; s + 1 < request.kv.size(); ++s)
          request.kv[s].source = random() % 4 == 0 ? Source::compute : Source::cached;
    }
  }
}

TEST_CASE("sasrec: a history that is too large for one pass runs in parts with the same answer") {
  std::mt19937 random(9);
  SasrecConfig config = random_config(random);
  config.history_max = config.position_rows = 64;
  const SasrecModel model = kernels::random_sasrec(config, 5);
  const SasrecCase one(model, random);
  const kernels::DecoderOptions options{.page_tokens = 4, .memory_bytes = 1, .batch_tokens = 2};
  CHECK(kernels::pass_memory(config, options).tokens_max == 64);
  CHECK(kernels::pass_memory(config, options).tokens_kept == 2);
  const auto executor = kernels::make_cpu_sasrec(model, options);
  const std::vector<Request> requests(3, {&one.plan, std::vector<SegmentKv>(one.plan.segments.size())});
  for (const kernels::Reply& reply : executor->run(requests)) CHECK(one.gap(reply.readouts) < rounding);
}

// The items of a model as a table that is not in memory, and may be out of reach.
struct RemoteItems final : kernels::EmbeddingTable {
  kernels::Matrix items;
  bool lost = false;

  explicit RemoteItems(kernels::Matrix of) : items(std::move(of)) {}
  std::uint32_t rows() const override { return items.rows; }
  std::uint32_t columns() const override { return items.columns; }
  void fetch(std::span<const Token> wanted, float* out) override {
    if (lost) throw std::runtime_error("out of reach");
    for (const Token row : wanted)
      out = std::copy_n(&items.values[static_cast<std::size_t>(row) * items.columns], items.columns, out);
  }
};

TEST_CASE("sasrec: a large pass whose items are out of reach frees its memory, and the next one computes") {
  std::mt19937 random(8);
  SasrecConfig config = random_config(random);
  config.heads = 2, config.hidden = 128;
  config.history_max = config.position_rows = 200;
  SasrecCase one(kernels::random_sasrec(config, 6), random);
  one.history = random_items(random, config, 200);
  one.plan = kernels::sasrec_plan(one.history, {1});
  SasrecModel model = one.model;
  const auto items = std::make_shared<RemoteItems>(std::move(model.weights.items));
  model.weights.items = {};
  model.items = items;
  const auto executor =
      kernels::make_cpu_sasrec(std::move(model), {.page_tokens = 4, .memory_bytes = 1, .batch_tokens = 2});
  const Request request{&one.plan, std::vector<SegmentKv>(one.plan.segments.size())};
  const auto expected = executor->run({&request, 1})[0].readouts;
  const std::size_t before = bytes_in_use(), row = config.hidden * sizeof(float);
  items->lost = true;
  CHECK_THROWS_WITH(executor->run({&request, 1}), "out of reach");
  if (before > 0) CHECK(bytes_in_use() < before + 100 * row);  // a sanitizer's allocator does not count
  items->lost = false;
  CHECK(executor->run({&request, 1})[0].readouts == expected);
}

TEST_CASE("sasrec: a history beyond the model's events is refused, although a position is behind it") {
  std::mt19937 random(1);
  SasrecConfig config = random_config(random);
  config.history_max = config.position_rows = 3;
  const auto executor = kernels::make_cpu_sasrec(kernels::random_sasrec(config, 1), {.page_tokens = 4});
  CHECK(executor->limits().positions_max == 4);
  CHECK(executor->fault(kernels::sasrec_plan({1, 1, 1}, {1})).empty());
  const Plan beyond = kernels::sasrec_plan({1, 1, 1, 1}, {1});
  CHECK(validate(beyond, executor->limits()).empty());
  CHECK(executor->fault(beyond) ==
        "segments[1] ends at position 4; expected at most 3, the events of a history");
}

// Returns the rows of all items by similarity, best first.
std::vector<Token> by_similarity(const SasrecCase& one) {
  std::vector<Token> rows(one.similarities.size() - 1);
  std::iota(rows.begin(), rows.end(), 1);
  std::ranges::sort(rows, [&](Token a, Token b) {
    return one.similarities[static_cast<std::size_t>(a)] > one.similarities[static_cast<std::size_t>(b)];
  });
  return rows;
}

TEST_CASE(
    "sasrec: the best items of the whole table are those of a sort, less denied ones, in a warm pass too") {
  std::mt19937 random(21);
  for (int trial = 0; trial < 60; ++trial) {
    CAPTURE(trial);
    SasrecCase one(random);
    kernels::Search& search = one.plan.search;
    search.segment = static_cast<std::uint32_t>(one.plan.segments.size() - 1);
    search.width = search.results = 1 + static_cast<std::uint32_t>(random() % 20);
    search.steps = 1;
    search.of_items = true;
    search.denied = {{one.history[0]}, {one.history.back()}};
    const auto executor = kernels::make_cpu_sasrec(one.model, {.page_tokens = 4});
    REQUIRE(validate(one.plan, executor->limits()).empty());
    REQUIRE(validate(one.plan, nullptr, executor->limits()).empty());
    kernels::PoisonedPages pages{executor->layout(), {}};
    Request request{&one.plan, kept_in(one.plan, pages)};
    std::vector<Token> wanted = by_similarity(one);
    std::erase_if(wanted, [&](Token row) { return row == one.history[0] || row == one.history.back(); });
    wanted.resize(std::min<std::size_t>(wanted.size(), search.results));
    for (const bool warm : {false, true}) {
      const kernels::Reply reply = executor->run({&request, 1})[0];
      CHECK(one.gap(reply.readouts) < rounding);
      REQUIRE(reply.beams.size() == wanted.size());
      for (std::size_t i = 0; i < wanted.size(); ++i) {
        const Token row = reply.beams[i].path.at(0);
        const double similarity = one.similarities[static_cast<std::size_t>(row)];
        CHECK(std::abs(reply.beams[i].score * one.model.config.temperature - similarity) <
              rounding * (1 + std::abs(similarity)));
        // Another row only where rounding may exchange the two.
        CHECK(std::abs(similarity - one.similarities[static_cast<std::size_t>(wanted[i])]) <
              rounding * (1 + std::abs(similarity)));
      }
      if (!warm && one.plan.segments.size() > 1) request.kv[0].source = Source::cached;
    }
  }
}

TEST_CASE("sasrec: every part of a pass takes time, a search too, and all parts at most the pass's time") {
  std::mt19937 random(4);
  for (const bool searches : {false, true}) {
    SasrecCase one(random);
    kernels::PassParts parts = kernels::all_parts();
    if (searches) {
      one.plan.search = {.segment = static_cast<std::uint32_t>(one.plan.segments.size() - 1)};
      one.plan.search.width = one.plan.search.results = one.plan.search.steps = 1;
      one.plan.search.of_items = true;
    } else {
      parts.pop_back();
    }
    const auto executor = kernels::make_cpu_sasrec(one.model, {.page_tokens = 4});
    kernels::check_pass_times(*executor, {&one.plan, std::vector<SegmentKv>(one.plan.segments.size())},
                              parts);
  }
}

TEST_CASE("sasrec: a request of cached segments without readouts computes nothing") {
  std::mt19937 random(6);
  SasrecConfig config = random_config(random);
  config.history_max = config.position_rows = 20;
  const auto executor = kernels::make_cpu_sasrec(kernels::random_sasrec(config, 2), {.page_tokens = 4});
  Plan plan = kernels::sasrec_plan(random_items(random, config, 9), {1});
  plan.readouts.clear();
  kernels::PoisonedPages pages{executor->layout(), {}};
  Request request{&plan, kept_in(plan, pages)};
  for (int pass = 0; pass < 2; ++pass) {
    const kernels::Reply reply = executor->run({&request, 1})[0];
    CHECK(reply.readouts.empty());
    CHECK(reply.too_large.empty());
    for (SegmentKv& kv : request.kv) kv.source = Source::cached;
  }
}

nlohmann::json small_config() {
  nlohmann::json config = nlohmann::json::parse(kernels::small_sasrec());
  config["converted_from"] = "ignored";
  return config;
}

TEST_CASE(
    "sasrec: a directory is read back with equal numbers, in memory and with its items left in the file") {
  const kernels::TestFolder folder;
  folder.write("config.json", small_config().dump());
  std::mt19937 random(2);
  const SasrecModel model = kernels::random_sasrec(kernels::read_sasrec_config(folder.path()), 4);
  kernels::write_sasrec_weights(model, folder.path());
  const SasrecCase one(model, random);
  for (const auto rows : {kernels::ItemRows::in_memory, kernels::ItemRows::apart}) {
    SasrecModel read = kernels::read_sasrec(folder.path(), rows);
    CHECK(read.version == model.version);
    const auto executor = kernels::make_cpu_sasrec(std::move(read), {.page_tokens = 4});
    CHECK((executor->limits().width_max > 0) == (rows == kernels::ItemRows::in_memory));
    const Request request{&one.plan, std::vector<SegmentKv>(one.plan.segments.size())};
    CHECK(one.gap(executor->run({&request, 1})[0].readouts) < rounding);
  }
}

std::string error_with(const char* key, const nlohmann::json& value) {
  nlohmann::json document = small_config();
  document[key] = nlohmann::json::parse(value.dump());  // numbers as a file has them
  return kernels::load_error_of([&] { kernels::sasrec_config_of("config.json", document); });
}

TEST_CASE("sasrec config: a field that would change the mathematics is refused by name") {
  CHECK(error_with("hidden_activation", "gelu").empty());
  CHECK(error_with("output_norm", "layer_norm").empty());
  CHECK(error_with("item_norm", "none").empty());
  CHECK(error_with("similarity", "dot_product").empty());
  CHECK(error_with("hidden_activation", "silu") ==
        "config.json: hidden_activation is \"silu\"; expected \"relu\" or \"gelu\"");
  CHECK(error_with("hidden_activation", nullptr) ==
        "config.json: hidden_activation is null; expected \"relu\" or \"gelu\"");
  CHECK(error_with("num_attention_heads", 3) ==
        "config.json: num_attention_heads is 3; expected a divisor of hidden_size, 8");
  CHECK(error_with("hidden_size", 1024) ==
        "config.json: hidden_size is 1024; expected at most 256 for each head");
  CHECK(error_with("output_norm", "none") ==
        "config.json: output_norm is \"none\"; expected \"l2\" or \"layer_norm\"");
  CHECK(error_with("similarity", "mol") == "config.json: similarity is \"mol\"; expected \"dot_product\"");
  CHECK(error_with("input_scale", "none") ==
        "config.json: input_scale is \"none\"; expected \"sqrt(hidden_size)\"");
  CHECK(error_with("position_embedding", "none") ==
        "config.json: position_embedding is \"none\"; expected \"absolute\"");
  CHECK(error_with("pad_item_id", 1) == "config.json: pad_item_id is 1; expected an integer from 0 to 0");
  CHECK(error_with("task_head", {{"hidden", 4}}).find("task_head") != std::string::npos);
  const SasrecConfig read = kernels::sasrec_config_of("c", small_config());
  CHECK(read.position_rows == 31);
  CHECK(read.output_epsilon == 1e-6);
}

TEST_CASE("sasrec weights: a missing, misshapen or unknown tensor is refused by name") {
  const kernels::TestFolder folder;
  folder.write("config.json", small_config().dump());
  const SasrecConfig config = kernels::read_sasrec_config(folder.path());
  const auto error_of = [&](const SasrecConfig& other) {
    kernels::write_sasrec_weights(kernels::random_sasrec(other, 1), folder.path());
    return kernels::load_error_of([&] { kernels::read_sasrec(folder.path()); });
  };
  const std::string file = (folder.path() / "model.safetensors").string();
  SasrecConfig other = config;
  CHECK(error_of(other).empty());
  other.layers = 1;
  CHECK(error_of(other) == file + ": tensor \"layers.1.qkv_proj.weight\" is missing; expected shape [24, 8]");
  other.layers = 3;
  CHECK(error_of(other) == file +
                               ": unknown tensor \"layers.2.ffn.fc1.bias\"; expected only tensors that "
                               "the model of config.json has");
  other = config, other.intermediate = 13;
  CHECK(error_of(other) ==
        file + ": tensor \"layers.0.ffn.fc1.weight\" has shape [13, 8]; expected [12, 8], by config.json");
}

}  // namespace
