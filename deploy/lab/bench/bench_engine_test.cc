#include "deploy/lab/bench/bench_engine.h"

#include <doctest/doctest.h>

#include <stdexcept>
#include <string>

#include "kernels/cpu/products/product.h"

using namespace troupe;
using namespace troupe::deploy;

namespace {

const kernels::DecoderConfig tiny = shape_config(find_shape("tiny"), kernels::Family::qwen2);
constexpr Workload all_workloads[] = {Workload::prefill_512, Workload::prefill_2048, Workload::suffix,
                                      Workload::rank, Workload::rank_all_logits};

Flops flops(Workload workload) { return useful_flops(tiny, make_workload(workload, 32768, 1)); }

}  // namespace

TEST_SUITE("bench engine") {
  TEST_CASE("workloads: each is a valid plan for every shape") {
    for (const EngineShape& shape : engine_shapes())
      for (const Workload workload : all_workloads) {
        CAPTURE(shape.name);
        CAPTURE(workload_name(workload));
        const kernels::DecoderConfig config = shape_config(shape, kernels::Family::qwen2);
        CHECK(config.head_dim == 64);
        const WorkloadPlan work = make_workload(workload, config.vocabulary, 1);
        CHECK(validate(work.plan, {32768, static_cast<std::int32_t>(config.positions_max)}) == "");
      }
  }

  TEST_CASE("workloads: a prefill is one segment whose last token reads all rows") {
    const WorkloadPlan work = make_workload(Workload::prefill_2048, 300, 1);
    CHECK(!work.cached);
    REQUIRE(work.plan.segments.size() == 1);
    CHECK(work.plan.segments[0].tokens.size() == 2048);
    REQUIRE(work.plan.readouts.size() == 1);
    CHECK(work.plan.readouts[0].offset == 2047);
    CHECK(work.plan.readouts[0].rows.size() == 300);
  }

  TEST_CASE("workloads: a suffix starts where the cached history ends") {
    const WorkloadPlan work = make_workload(Workload::suffix, 300, 1);
    CHECK(work.cached);
    REQUIRE(work.plan.segments.size() == 2);
    CHECK(work.plan.segments[0].tokens.size() == 1500);
    CHECK(work.plan.segments[1].tokens.size() == 1000);
    CHECK(work.plan.segments[1].start == 1500);
    CHECK(work.plan.segments[1].sees == kernels::VisibleSegments{0});
    CHECK(work.plan.readouts.at(0).offset == 999);
  }

  TEST_CASE("workloads: every candidate starts behind the history and sees nothing else") {
    for (const Workload workload : {Workload::rank, Workload::rank_all_logits}) {
      const WorkloadPlan work = make_workload(workload, 300, 1);
      REQUIRE(work.plan.segments.size() == 101);
      REQUIRE(work.plan.readouts.size() == 100);
      for (std::uint32_t i = 0; i < 100; ++i) {
        const kernels::Segment& item = work.plan.segments[i + 1];
        CHECK(item.tokens.size() == 10);
        CHECK(item.start == 1500);
        CHECK(item.sees == kernels::VisibleSegments{0});
        CHECK(work.plan.readouts[i].segment == i + 1);
        CHECK(work.plan.readouts[i].offset == 9);
        CHECK(work.plan.readouts[i].rows.size() == (workload == Workload::rank ? 2 : 300));
      }
    }
  }

  // Multiply-adds per token and layer of the shape tiny: 2·256·128 = 65,536 for keys and values, and
  // 2·256·256 + 3·256·1024 = 917,504 for queries, output projection and feed-forward. A visible pair
  // takes 2·256 = 512 over 4 heads of 64.
  TEST_CASE("useful_flops: the operations equal a hand count") {
    // 512 tokens see 512·513/2 = 131,328 pairs. The last layer counts only the read token, which sees 512.
    const Flops prefill = flops(Workload::prefill_512);
    CHECK(prefill.linear == 2.0 * (4 * 512 * 65'536.0 + (3 * 512 + 1) * 917'504.0));
    CHECK(prefill.attention == 2.0 * 512 * (3 * 131'328.0 + 512));
    CHECK(prefill.logits == 2.0 * 256 * 32'768);
    CHECK(prefill.total() == prefill.linear + prefill.attention + prefill.logits);
    // 1000 tokens see 1000·1500 + 1000·1001/2 = 2,000,500 pairs.
    CHECK(flops(Workload::suffix).attention == 2.0 * 512 * (3 * 2'000'500.0 + 2'500));
    // 100 candidates see 100·(10·1500 + 55) = 1,505,500 pairs, 1,510 each at the read token.
    const Flops rank = flops(Workload::rank);
    CHECK(rank.linear == 2.0 * (4 * 1'000 * 65'536.0 + (3 * 1'000 + 100) * 917'504.0));
    CHECK(rank.attention == 2.0 * 512 * (3 * 1'505'500.0 + 151'000));
    CHECK(rank.logits == 2.0 * 256 * 200);
    CHECK(flops(Workload::rank_all_logits).logits == 2.0 * 256 * 100 * 32'768);
    CHECK(flops(Workload::rank_all_logits).linear == rank.linear);
  }

  TEST_CASE(
      "ideal_seconds: linear layers run at 90 % of the rate of their format, int8 ones at 60 %, others at "
      "80 %") {
    using kernels::WeightFormat;
    kernels::MultiplyAddRates rates;
    rates.by_format = {100, 400, 200};  // f32, int8, bf16
    const Flops some{.linear = 90, .attention = 80, .logits = 80};
    CHECK(ideal_seconds(some, {WeightFormat::f32}, rates) == doctest::Approx(3));
    CHECK(ideal_seconds({.linear = 480}, {WeightFormat::int8}, rates) == doctest::Approx(2));
    CHECK(ideal_seconds({.linear = 360}, {WeightFormat::bf16}, rates) == doctest::Approx(2));
    // Attention runs at the rate of bf16 only where it multiplies bf16.
    const EngineFormats pairs{WeightFormat::bf16, kernels::KvFormat::bf16};
    const double rate = pairs.rounds_attention() ? 200 : 100;
    CHECK(ideal_seconds({.attention = 160}, pairs, rates) == doctest::Approx(200 / rate));
    CHECK(ideal_seconds({.attention = 160}, {WeightFormat::bf16}, rates) == doctest::Approx(2));
  }

  TEST_CASE("formats: automatic keys and values are bf16 unless the weights are float32") {
    using kernels::KvFormat;
    using kernels::WeightFormat;
    CHECK(kv_format_for(WeightFormat::f32, "auto") == KvFormat::f32);
    CHECK(kv_format_for(WeightFormat::bf16, "auto") == KvFormat::bf16);
    CHECK(kv_format_for(WeightFormat::int8, "auto") == KvFormat::bf16);
    CHECK(kv_format_for(WeightFormat::int8, "f16") == KvFormat::f16);
  }

  TEST_CASE("formats: a version that rounds to bf16 is named only where it does") {
    using kernels::KvFormat;
    using kernels::WeightFormat;
    const EngineFormats f32, bf16{WeightFormat::bf16, KvFormat::bf16},
        int8{WeightFormat::int8, KvFormat::f32};
    CHECK(f32.linear_version().find("bf16") == std::string::npos);
    CHECK(f32.attention_version().find("bf16") == std::string::npos);
    CHECK(int8.attention_version() == f32.attention_version());
    CHECK((bf16.linear_version() != f32.linear_version()) == kernels::product_version().rounds_input);
    CHECK(bf16.rounds_attention() == (bf16.attention_version() != f32.attention_version()));
    CHECK(bf16.attention_instruction() == bf16.linear_instruction());
  }

  TEST_CASE("median: the middle value, or the mean of the middle two") {
    CHECK(median({3, 1, 2}) == 2);
    CHECK(median({4, 1, 2, 3}) == 2.5);
    CHECK(median({5}) == 5);
  }

  TEST_CASE("engine bench: a run has the requested rounds, each with its times and rate") {
    const EngineShape micro{"micro", 2, 64, 2, 1, 96};
    EngineBench bench(micro, {});
    // Embedding; per layer queries, keys and values with biases, the output projection, three matrices of
    // the feed-forward and two norms; one final norm.
    const std::uint64_t layer = (64 * 64 + 64) + 2 * (32 * 64 + 32) + 64 * 64 + 3 * 64 * 96 + 2 * 64;
    CHECK(bench.memory().weight_bytes == 4 * (32'768 * 64 + 2 * layer + 64));
    for (const Workload workload : {Workload::prefill_512, Workload::rank}) {
      const std::vector<EngineRound> rounds = bench.measure(workload, 2);
      REQUIRE(rounds.size() == 2);
      for (const EngineRound& round : rounds) {
        CHECK(round.cpu_seconds > 0);
        CHECK(round.wall_seconds > 0);
        for (const double rate : round.rates.by_format) CHECK(!(rate <= 0));  // NaN where it is not measured
        CHECK(round.times.linear > 0);
        CHECK(round.times.attention > 0);
        CHECK(round.times.linear + round.times.attention < round.cpu_seconds);
      }
    }
  }

  TEST_CASE("find_shape: an unknown shape is refused by name") {
    CHECK_THROWS_WITH_AS(find_shape("huge"), "--shape is huge; expected tiny, small or qwen05",
                         std::invalid_argument);
  }
}
