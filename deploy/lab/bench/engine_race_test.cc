#include "deploy/lab/bench/engine_race.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

using namespace troupe;
using namespace troupe::deploy;
using kernels::KvFormat;
using kernels::WeightFormat;

namespace {

EngineRound round_of(double cpu_seconds) {
  EngineRound round;
  round.cpu_seconds = round.wall_seconds = cpu_seconds;
  round.rates.by_format = {10e9, 40e9, 20e9};  // f32, int8, bf16
  return round;
}

WorkloadRun run_of(const std::vector<double>& cpu_seconds) {
  WorkloadRun run{Workload::suffix, {}, 1000, {.linear = 9e9, .attention = 0, .logits = 0}, {}};
  for (const double seconds : cpu_seconds) run.rounds.push_back(round_of(seconds));
  return run;
}

PeerRun peer_of(const char* weights, double cpu_ms) {
  PeerRun run{{Peer::Engine::llama_prebuilt, weights}, {}, {}};
  PeerResult line;
  line.workload = "suffix 1000 on 1500";
  line.tokens = 1000;
  line.cpu_ms = line.wall_ms = cpu_ms;
  line.fma_gflops = 10;
  run.lines.push_back(line);
  return run;
}

}  // namespace

TEST_SUITE("engine race") {
  TEST_CASE("formats: every combination once, and automatic keys and values by the weights") {
    const std::vector<EngineFormats> formats = formats_of({"f32", "bf16", "int8"}, {"auto", "f32"});
    REQUIRE(formats.size() == 5);
    CHECK(formats[0] == EngineFormats{WeightFormat::f32, KvFormat::f32});
    CHECK(formats[1] == EngineFormats{WeightFormat::bf16, KvFormat::bf16});
    CHECK(formats[2] == EngineFormats{WeightFormat::bf16, KvFormat::f32});
    CHECK(formats[3] == EngineFormats{WeightFormat::int8, KvFormat::bf16});
    CHECK(formats[4] == EngineFormats{WeightFormat::int8, KvFormat::f32});
  }

  TEST_CASE("turn: every format once a round, and each begins a round") {
    CHECK(turn_of(0, 3) == std::vector<std::size_t>{0, 1, 2});
    CHECK(turn_of(1, 3) == std::vector<std::size_t>{1, 2, 0});
    CHECK(turn_of(5, 3) == std::vector<std::size_t>{2, 0, 1});
    CHECK(turn_of(4, 1) == std::vector<std::size_t>{0});
  }

  TEST_CASE("figures: the ratio to float32 is that of passes of the same round") {
    // The machine is half as fast in the second round and a third in the last; the formats' ratio is 2.
    const WorkloadRun f32 = run_of({1, 2, 3}), bf16 = run_of({0.5, 1, 1.5});
    const EngineFormats formats{WeightFormat::bf16, KvFormat::f32};
    const EngineFigures figures = figures_of(bf16, formats, &f32);
    REQUIRE(figures.ratio_to_f32.has_value());
    CHECK(*figures.ratio_to_f32 == doctest::Approx(2));
    CHECK(figures.tokens_per_cpu_second == doctest::Approx(1000));
    CHECK(figures.best == doctest::Approx(2000));
    CHECK(figures.linear_gflops == doctest::Approx(20));
    CHECK(figures.fma_gflops == doctest::Approx(10));
    // 9 Gop at 90 % of 20 a second take half a second.
    CHECK(figures.ideal == doctest::Approx(2000));
    CHECK(!figures_of(bf16, formats, nullptr).ratio_to_f32.has_value());
  }

  TEST_CASE("best peer: of all, and of each width of weights") {
    ShapeRun run{&find_shape("tiny"), 1, {}, {}};
    for (const auto& [weights, ms] : std::vector<std::pair<const char*, double>>{
             {"f32", 400}, {"q8_0", 100}, {"f16", 300}, {"bf16", 200}})
      run.peers.push_back(peer_of(weights, ms));
    CHECK(widths_of(run.peers) == std::vector<std::string_view>{"f32", "int8", "16-bit"});
    CHECK(best_peer(run, Workload::suffix)->cpu_ms == 100);
    CHECK(best_peer(run, Workload::suffix, "f32")->cpu_ms == 400);
    CHECK(best_peer(run, Workload::suffix, "16-bit")->cpu_ms == 200);
    CHECK(best_peer(run, Workload::prefill_512) == nullptr);
    CHECK(least_peer_wall_ms(run, Workload::suffix) == 100);
  }

  TEST_CASE("race: every format has all rounds of every workload") {
    const EngineShape micro{"micro", 2, 64, 2, 1, 96};
    RaceSetup setup;
    setup.formats = formats_of({"f32", "bf16"}, {"auto"});
    setup.workloads = {Workload::prefill_512, Workload::rank};
    setup.rounds = 2;
    const ShapeRun run = race(setup, micro);
    REQUIRE(run.formats.size() == 2);
    for (const FormatRun& format : run.formats) {
      REQUIRE(format.workloads.size() == 2);
      for (const WorkloadRun& workload : format.workloads) {
        CHECK(workload.rounds.size() == 2);
        CHECK(workload.figures.tokens_per_cpu_second > 0);
        CHECK(workload.figures.ratio_to_f32.has_value());
      }
    }
    CHECK(*run.formats[0].workloads[0].figures.ratio_to_f32 == 1);
  }
}
