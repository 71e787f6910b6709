#pragma once
// Times number formats of the engine, and its peers, on one shape in one run. In every round each workload
// runs under all formats, one after the other, and the format that begins changes from round to round. So
// the ratio of two formats compares passes of the same seconds.
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "deploy/lab/bench/bench_engine.h"
#include "deploy/lab/bench/bench_peers.h"

namespace troupe::deploy {

struct PassPart {
  const char* name;
  double kernels::PassTimes::*seconds;
};
inline constexpr std::array<PassPart, 7> pass_parts{{{"linear", &kernels::PassTimes::linear},
                                                     {"attention", &kernels::PassTimes::attention},
                                                     {"readout", &kernels::PassTimes::readout},
                                                     {"elementwise", &kernels::PassTimes::elementwise},
                                                     {"keys_values", &kernels::PassTimes::keys_values},
                                                     {"embedding", &kernels::PassTimes::embedding},
                                                     {"planning", &kernels::PassTimes::planning}}};

// Troupe's figures on one workload: medians over the rounds, and the best round.
struct EngineFigures {
  double tokens_per_cpu_second = 0, best = 0, gflops = 0, fma_gflops = 0, share_of_fma = 0;
  double linear_gflops = 0, attention_gflops = 0;  // sampled rates of what multiplies there
  // ideal: tokens per CPU-second of the floor (bench_engine.h)
  double wall_ms = 0, cpu_ms = 0, ideal = 0;
  std::array<double, pass_parts.size()> part_shares{};  // fractions of CPU time
  bool has_parts = false;
  // CPU time of the first format with float32 weights over this one's: median over the rounds.
  std::optional<double> ratio_to_f32;

  double rest_share() const;
};

struct WorkloadRun {
  Workload workload;
  std::vector<EngineRound> rounds;
  double tokens = 0;
  Flops flops;
  EngineFigures figures;
};
// `f32` has the rounds of the same workload with float32 weights; null: there are none.
EngineFigures figures_of(const WorkloadRun& run, const EngineFormats& formats, const WorkloadRun* f32);

struct FormatRun {
  EngineFormats formats;
  EngineMemory memory;
  std::vector<WorkloadRun> workloads;
};

struct ShapeRun {
  const EngineShape* shape;
  std::uint32_t threads = 1;
  std::vector<FormatRun> formats;
  std::vector<PeerRun> peers;
};

struct RaceSetup {
  EngineSetup engine;  // its formats are not used
  std::vector<EngineFormats> formats;
  std::vector<Workload> workloads;
  std::uint32_t rounds = 5;            // before the peers, and as many after them
  std::optional<PeerFolders> folders;  // none: no peers
  bool all_peers = false;
};
// Every format of weights with every format of keys and values (kv_format_for), each combination once.
std::vector<EngineFormats> formats_of(const std::vector<std::string>& weights,
                                      const std::vector<std::string>& kv);
// The order of `count` formats in a round.
std::vector<std::size_t> turn_of(std::size_t round, std::size_t count);
ShapeRun race(const RaceSetup& setup, const EngineShape& shape);

// The peer with the most tokens per CPU-second (median) among those of `width` ("" for all); null: none ran
// this workload.
const PeerResult* best_peer(const ShapeRun& run, Workload workload, std::string_view width = "");
double least_peer_wall_ms(const ShapeRun& run, Workload workload);
double ratio(const EngineFigures& figures, const PeerResult& peer);
// Ratio if both had run at the same multiply-add rate. This removes slowdowns of one run by other
// processes on the core.
double ratio_at_equal_fma(const EngineFigures& figures, const PeerResult& peer);
// Widths of the peers' weights, each once, in the order of the peers.
std::vector<std::string_view> widths_of(const std::vector<PeerRun>& peers);

}  // namespace troupe::deploy
