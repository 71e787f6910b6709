#pragma once
// Runs the peers of the CPU engine on the same machine in the same minutes: llama.cpp (with an OpenBLAS
// backend, and prebuilt) and onnxruntime. The drivers are the programs of tests/bench/peers; its setup.sh
// builds them and the peers into another folder. Each peer runs as a child process with a time limit, and a
// peer that fails becomes one line of the report. A peer's result lines have its CPU time and the
// multiply-add rate beside it, like ours.
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "deploy/lab/bench/bench_engine.h"

namespace troupe::deploy {

struct PeerFolders {
  std::filesystem::path drivers;    // setup.sh, make_model.mjs, onnx_peer.mjs
  std::filesystem::path installed;  // output of setup.sh
};
// Checks that both folders are complete. Throws std::runtime_error, which names the command that installs
// the peers.
PeerFolders find_peers(const std::filesystem::path& drivers, const std::filesystem::path& installed);

struct Peer {
  enum class Engine : std::uint8_t { llama_blas, llama_prebuilt, onnxruntime } engine;
  std::string weights;  // f32, f16, bf16, q8_0 or int8

  std::string name() const;
  std::string_view width() const;  // of a weight: "f32", "16-bit" or "int8"
  // Number format of keys and values: f16 for llama.cpp, where it is fastest; onnxruntime has only f32.
  std::string kv() const { return engine == Engine::onnxruntime ? "f32" : "f16"; }
};
// Returns the peers with float32 weights and, if `weights` has such a format, those with 16-bit and with
// 8-bit weights; `all` returns every peer.
std::vector<Peer> peers_to_race(std::span<const kernels::WeightFormat> weights, bool all);

// One result line of a driver. Milliseconds are per forward pass; medians and minima are over its rounds.
struct PeerResult {
  std::string workload;  // the peer's name for it
  double tokens = 0;
  double wall_ms = 0, cpu_ms = 0, best_cpu_ms = 0;
  double fma_gflops = 0, share_of_fma = 0;  // share: 0.5 for 50 %

  double tokens_per_cpu_second() const { return tokens / cpu_ms * 1e3; }
  double best_tokens_per_cpu_second() const { return tokens / best_cpu_ms * 1e3; }
};
std::optional<PeerResult> parse_peer_result(const std::string& line);

struct PeerRun {
  Peer peer;
  std::vector<PeerResult> lines;
  std::string failure;  // empty if the peer succeeded

  // Returns null if the peer has no result for `workload`. A peer has one rank workload, which stands for
  // both of ours.
  const PeerResult* find(Workload workload) const;
};
// Makes the peer's model of this shape first, if it is missing.
PeerRun run_peer(const PeerFolders& folders, const Peer& peer, const EngineShape& shape,
                 std::uint32_t threads, std::uint32_t rounds, const std::vector<Workload>& workloads);

}  // namespace troupe::deploy
