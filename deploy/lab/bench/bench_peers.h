#pragma once
// The peers of the CPU engine, run on the same machine in the same minutes: llama.cpp (with an OpenBLAS
// backend, and as it is prebuilt) and onnxruntime, driven by the programs of tests/bench/peers, which its
// setup.sh builds into another folder together with the peers.
// Each runs as a child process with a time limit; a peer that fails is a line of the report. Their lines have
// process CPU time and the multiply-add rate beside it, as ours have.
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "deploy/lab/bench/bench_engine.h"

namespace troupe::deploy {

struct PeerFolders {
  std::filesystem::path drivers;    // setup.sh, make_model.mjs, onnx_peer.mjs
  std::filesystem::path installed;  // what setup.sh made
};
// Checks that both are there. Throws std::runtime_error that names the command which installs the peers.
PeerFolders find_peers(const std::filesystem::path& drivers, const std::filesystem::path& installed);

struct Peer {
  enum class Engine : std::uint8_t { llama_blas, llama_prebuilt, onnxruntime } engine;
  std::string weights;  // f32, f16, q8_0 or int8

  std::string name() const;
  // f16 for llama.cpp, where it is fastest; onnxruntime has f32 only.
  std::string kv() const { return engine == Engine::onnxruntime ? "f32" : "f16"; }
};
// Those with float32 weights; the 8-bit ones too if `int8`; every one if `all`.
std::vector<Peer> peers_to_race(bool int8, bool all);

// One line of a driver. Milliseconds are of one forward pass; medians and bests are over its rounds.
struct PeerLine {
  std::string workload;  // as the peer calls it
  double tokens = 0;
  double wall_ms = 0, cpu_ms = 0, best_cpu_ms = 0;
  double fma_gflops = 0, share_of_fma = 0;  // share: 0.5 for 50 %

  double tokens_per_cpu_second() const { return tokens / cpu_ms * 1e3; }
  double best_tokens_per_cpu_second() const { return tokens / best_cpu_ms * 1e3; }
};
std::optional<PeerLine> parse_peer_line(const std::string& line);

struct PeerRun {
  Peer peer;
  std::vector<PeerLine> lines;
  std::string failure;  // empty if the peer ended well

  // Null if the peer did not come that far. Both rank workloads are the peer's one.
  const PeerLine* find(Workload workload) const;
};
// Makes the peer's model of this shape first, if it is not there yet.
PeerRun run_peer(const PeerFolders& folders, const Peer& peer, const EngineShape& shape,
                 std::uint32_t threads, std::uint32_t rounds, const std::vector<Workload>& workloads);

}  // namespace troupe::deploy
