// Times the engine's number formats in turn, and the peers between two halves of the rounds, so that a
// change of the machine's speed shows. Derives rates, shares and ratios from the rounds.
#include "deploy/lab/bench/engine_race.h"

#include <algorithm>
#include <limits>
#include <memory>

#include "kernels/base/check.h"

namespace troupe::deploy {

namespace {

template <class Value>
double median_of(const std::vector<EngineRound>& rounds, Value value) {
  std::vector<double> values;
  for (const EngineRound& round : rounds) values.push_back(value(round));
  return median(std::move(values));
}

double median_ratio(const WorkloadRun& run, const WorkloadRun& f32) {
  TROUPE_CHECK(run.rounds.size() == f32.rounds.size(), "engine race: expected as many rounds of each format");
  std::vector<double> ratios;
  for (std::size_t r = 0; r < run.rounds.size(); ++r)
    ratios.push_back(f32.rounds[r].cpu_seconds / run.rounds[r].cpu_seconds);
  return median(std::move(ratios));
}

std::vector<WorkloadRun> empty_runs(const RaceSetup& setup, const kernels::DecoderConfig& config) {
  std::vector<WorkloadRun> runs;
  for (const Workload workload : setup.workloads) {
    const WorkloadPlan work = make_workload(workload, config.vocabulary, setup.engine.seed);
    const std::size_t cached = work.cached ? work.plan.segments[0].tokens.size() : 0;
    runs.push_back({workload,
                    {},
                    static_cast<double>(kernels::token_count(work.plan) - cached),
                    useful_flops(config, work),
                    {}});
  }
  return runs;
}

using Benches = std::vector<std::unique_ptr<EngineBench>>;

void measure_in_turn(const Benches& benches, ShapeRun& run, std::uint32_t rounds) {
  for (std::uint32_t round = 0; round < rounds; ++round)
    for (std::size_t w = 0; w < run.formats.front().workloads.size(); ++w)
      for (const std::size_t f : turn_of(round, benches.size())) {
        WorkloadRun& workload = run.formats[f].workloads[w];
        workload.rounds.push_back(benches[f]->measure(workload.workload, 1).front());
      }
}

const FormatRun* first_f32(const ShapeRun& run) {
  for (const FormatRun& format : run.formats)
    if (format.formats.weights == kernels::WeightFormat::f32) return &format;
  return nullptr;
}

void derive_figures(ShapeRun& run) {
  const FormatRun* const f32 = first_f32(run);
  for (FormatRun& format : run.formats)
    for (std::size_t w = 0; w < format.workloads.size(); ++w)
      format.workloads[w].figures =
          figures_of(format.workloads[w], format.formats, f32 == nullptr ? nullptr : &f32->workloads[w]);
}

}  // namespace

double EngineFigures::rest_share() const {
  double rest = 1;
  for (const double share : part_shares) rest -= share;
  return rest;
}

EngineFigures figures_of(const WorkloadRun& run, const EngineFormats& formats, const WorkloadRun* f32) {
  EngineFigures f;
  const double cpu = median_of(run.rounds, [](auto& r) { return r.cpu_seconds; });
  const double least = std::ranges::min(run.rounds, {}, &EngineRound::cpu_seconds).cpu_seconds;
  f.cpu_ms = cpu * 1e3;
  f.wall_ms = median_of(run.rounds, [](auto& r) { return r.wall_seconds; }) * 1e3;
  f.fma_gflops = median_of(run.rounds, [](auto& r) { return r.rates.f32(); }) / 1e9;
  f.linear_gflops = median_of(run.rounds, [&](auto& r) { return formats.linear_rate(r.rates); }) / 1e9;
  f.attention_gflops = median_of(run.rounds, [&](auto& r) { return formats.attention_rate(r.rates); }) / 1e9;
  f.share_of_fma =
      median_of(run.rounds, [&](auto& r) { return run.flops.total() / r.cpu_seconds / r.rates.f32(); });
  f.tokens_per_cpu_second = run.tokens / cpu;
  f.best = run.tokens / least;
  f.gflops = run.flops.total() / cpu / 1e9;
  f.ideal =
      run.tokens / median_of(run.rounds, [&](auto& r) { return ideal_seconds(run.flops, formats, r.rates); });
  if (f32 != nullptr) f.ratio_to_f32 = median_ratio(run, *f32);
  double all_cpu = 0;
  for (const EngineRound& round : run.rounds) all_cpu += round.cpu_seconds;
  for (std::size_t p = 0; p < pass_parts.size(); ++p) {
    for (const EngineRound& round : run.rounds)
      f.part_shares[p] += round.times.*pass_parts[p].seconds / all_cpu;
    f.has_parts |= f.part_shares[p] > 0;
  }
  return f;
}

std::vector<EngineFormats> formats_of(const std::vector<std::string>& weights,
                                      const std::vector<std::string>& kv) {
  std::vector<EngineFormats> formats;
  for (const std::string& weight : weights)
    for (const std::string& stored : kv) {
      const kernels::WeightFormat format = kernels::find_weight_format(weight).value();
      const EngineFormats one{format, kv_format_for(format, stored)};
      if (std::ranges::find(formats, one) == formats.end()) formats.push_back(one);
    }
  return formats;
}

std::vector<std::size_t> turn_of(std::size_t round, std::size_t count) {
  std::vector<std::size_t> turn(count);
  for (std::size_t i = 0; i < count; ++i) turn[i] = (round + i) % count;
  return turn;
}

ShapeRun race(const RaceSetup& setup, const EngineShape& shape) {
  std::optional<CorePin> pinned;
  const std::uint32_t threads = setup.engine.threads;
  if (threads == 1) pinned.emplace();  // peers inherit it
  ShapeRun run{&shape, threads, {}, {}};
  Benches benches;
  std::vector<kernels::WeightFormat> weights;
  for (const EngineFormats& formats : setup.formats) {
    EngineSetup engine = setup.engine;
    engine.formats = formats;
    benches.push_back(std::make_unique<EngineBench>(shape, engine));
    run.formats.push_back({formats, benches.back()->memory(), empty_runs(setup, benches.back()->config())});
    weights.push_back(formats.weights);
  }
  measure_in_turn(benches, run, setup.rounds);
  if (setup.folders) {
    for (const Peer& peer : peers_to_race(weights, setup.all_peers))
      run.peers.push_back(run_peer(*setup.folders, peer, shape, threads, setup.rounds, setup.workloads));
    measure_in_turn(benches, run, setup.rounds);
  }
  derive_figures(run);
  return run;
}

const PeerResult* best_peer(const ShapeRun& run, Workload workload, std::string_view width) {
  const PeerResult* best = nullptr;
  for (const PeerRun& peer : run.peers) {
    if (!width.empty() && peer.peer.width() != width) continue;
    if (const PeerResult* line = peer.find(workload))
      if (best == nullptr || line->tokens_per_cpu_second() > best->tokens_per_cpu_second()) best = line;
  }
  return best;
}

double least_peer_wall_ms(const ShapeRun& run, Workload workload) {
  double least = std::numeric_limits<double>::infinity();
  for (const PeerRun& peer : run.peers)
    if (const PeerResult* line = peer.find(workload)) least = std::min(least, line->wall_ms);
  return least;
}

double ratio(const EngineFigures& figures, const PeerResult& peer) {
  return figures.tokens_per_cpu_second / peer.tokens_per_cpu_second();
}

double ratio_at_equal_fma(const EngineFigures& figures, const PeerResult& peer) {
  return ratio(figures, peer) * peer.fma_gflops / figures.fma_gflops;
}

std::vector<std::string_view> widths_of(const std::vector<PeerRun>& peers) {
  std::vector<std::string_view> widths;
  for (const PeerRun& peer : peers)
    if (std::ranges::find(widths, peer.peer.width()) == widths.end()) widths.push_back(peer.peer.width());
  return widths;
}

}  // namespace troupe::deploy
