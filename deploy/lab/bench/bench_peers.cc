// Runs other engines (peers: llama.cpp and ONNX Runtime) as child processes on the workloads of the
// engine's benchmark. Parses the result lines of their drivers (the programs of tests/bench/peers),
// so that the benchmark can print Troupe's speed beside theirs.
#include "deploy/lab/bench/bench_peers.h"

#include <algorithm>
#include <cstdio>
#include <sstream>
#include <stdexcept>

#include "deploy/lab/bench/child_process.h"

namespace troupe::deploy {

namespace {

namespace fs = std::filesystem;

// Time limits of child processes: making a model file, starting a driver, and each round of timings.
constexpr std::chrono::seconds model_limit{600}, start_limit{120}, round_limit{180};

fs::path prebuilt_llama(const fs::path& installed) {
  return installed / "npm/node_modules/@node-llama-cpp/linux-x64/bins/linux-x64";
}

// Formats a shape for the drivers: layers,hidden,heads,kv_heads,intermediate,vocabulary.
std::string numbers_of(const EngineShape& shape) {
  const std::uint32_t vocabulary = shape_config(shape, kernels::Family::qwen2).vocabulary;
  std::string text;
  for (const std::uint32_t number :
       {shape.layers, shape.hidden, shape.heads, shape.kv_heads, shape.intermediate, vocabulary})
    text += (text.empty() ? "" : ",") + std::to_string(number);
  return text;
}

std::string model_file(const Peer& peer, const EngineShape& shape) {
  const std::string name(shape.name);
  if (peer.engine != Peer::Engine::onnxruntime) return name + "-" + peer.weights + ".gguf";
  return name + (peer.weights == "f32" ? "" : "-" + peer.weights) + ".onnx";
}

// Writes the model under a temporary name first, so that a half-written file is never used. Returns an error
// text, or "" on success.
std::string make_model(const PeerFolders& folders, const Peer& peer, const EngineShape& shape,
                       const fs::path& model) {
  if (fs::exists(model)) return "";
  const fs::path part = model.string() + ".part";
  ChildProcess child;
  child.limit = model_limit;
  child.arguments = {"node",
                     (folders.drivers / "make_model.mjs").string(),
                     peer.engine == Peer::Engine::onnxruntime ? "onnx" : "gguf",
                     peer.weights,
                     numbers_of(shape),
                     part.string()};
  const ChildResult made = run_child(child);
  if (!made.failure.empty()) return "its model could not be made: " + made.failure;
  std::error_code error;
  fs::rename(part, model, error);
  return error ? model.string() + " could not be made: " + error.message() : "";
}

// Returns a core type that OpenBLAS knows, or "". Debian's OpenBLAS 0.3.21 uses its slowest kernels on
// processors newer than itself; with a known core type it is 2.5 times faster.
std::string openblas_core() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl")) return "SKYLAKEX";
  if (__builtin_cpu_supports("avx2")) return "HASWELL";
#endif
  return "";
}

bool has(const std::vector<Workload>& workloads, Workload workload) {
  return std::find(workloads.begin(), workloads.end(), workload) != workloads.end();
}

std::string joined(const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& text : texts) all += (all.empty() ? "" : ",") + text;
  return all;
}

std::string lengths_of(const std::vector<Workload>& workloads) {
  std::vector<std::string> lengths;
  if (has(workloads, Workload::prefill_512)) lengths.push_back("512");
  if (has(workloads, Workload::prefill_2048)) lengths.push_back("2048");
  return lengths.empty() ? "512" : joined(lengths);
}

std::string work_of(const std::vector<Workload>& workloads) {
  std::vector<std::string> work;
  if (has(workloads, Workload::prefill_512) || has(workloads, Workload::prefill_2048))
    work.push_back("prefill");
  if (has(workloads, Workload::suffix)) work.push_back("suffix");
  if (has(workloads, Workload::rank) || has(workloads, Workload::rank_all_logits)) work.push_back("rank");
  return joined(work);
}

std::vector<std::string> driver_arguments(const PeerFolders& folders, const Peer& peer,
                                          const EngineShape& shape, const fs::path& model,
                                          std::uint32_t threads, std::uint32_t rounds,
                                          const std::vector<Workload>& workloads) {
  const bool onnx = peer.engine == Peer::Engine::onnxruntime;
  const fs::path backends = peer.engine == Peer::Engine::llama_blas ? folders.installed / "blas"
                                                                    : prebuilt_llama(folders.installed);
  std::vector<std::string> arguments =
      onnx ? std::vector<std::string>{"node", (folders.drivers / "onnx_peer.mjs").string(),
                                      folders.installed.string()}
           : std::vector<std::string>{(folders.installed / "llama_peer").string(), backends.string()};
  arguments.insert(arguments.end(), {model.string(), numbers_of(shape), std::to_string(threads),
                                     std::to_string(rounds), work_of(workloads), lengths_of(workloads)});
  return arguments;
}

}  // namespace

PeerFolders find_peers(const fs::path& drivers, const fs::path& installed) {
  for (const char* file : {"setup.sh", "make_model.mjs", "onnx_peer.mjs"})
    if (!fs::exists(drivers / file))
      throw std::runtime_error("--against " + drivers.string() + " has no " + file +
                               "; expected the folder of the peers' drivers, tests/bench/peers");
  for (const fs::path& file : {fs::path("llama_peer"), fs::path("fma_now"), fs::path("blas/libggml-blas.so"),
                               prebuilt_llama(""), fs::path("npm/node_modules/onnxruntime-node")})
    if (!fs::exists(installed / file))
      throw std::runtime_error("--peers " + installed.string() + " has no " + file.string() +
                               "; expected installed peers: run `" + (drivers / "setup.sh").string() + " " +
                               installed.string() + "`");
  fs::create_directories(installed / "models");
  return {fs::absolute(drivers), fs::absolute(installed)};
}

std::string Peer::name() const {
  const char* engines[] = {"llama.cpp+OpenBLAS", "llama.cpp", "onnxruntime"};
  return std::string(engines[static_cast<std::size_t>(engine)]) + " " + weights;
}

std::string_view Peer::width() const {
  if (weights == "f32") return "f32";
  return weights == "f16" || weights == "bf16" ? "16-bit" : "int8";
}

std::vector<Peer> peers_to_race(std::span<const kernels::WeightFormat> weights, bool all) {
  const auto race = [&](kernels::WeightFormat format) {
    return all || std::ranges::find(weights, format) != weights.end();
  };
  std::vector<Peer> peers{{Peer::Engine::llama_blas, "f32"}, {Peer::Engine::onnxruntime, "f32"}};
  if (race(kernels::WeightFormat::int8))
    peers.insert(peers.end(), {{Peer::Engine::onnxruntime, "int8"}, {Peer::Engine::llama_prebuilt, "q8_0"}});
  if (race(kernels::WeightFormat::bf16))
    peers.insert(peers.end(),
                 {{Peer::Engine::llama_prebuilt, "f16"}, {Peer::Engine::llama_prebuilt, "bf16"}});
  return peers;
}

// Parses a line such as
//   prefill 512 n=512 | wall med 91.2 min 90.1 | cpu med 180.3 min 179.9 ms | 2840 tok/cpu-s |
//   33 GF/cpu-s, peak now 60, % of peak med 55 max 56
// which is one line in the output. The peak is the machine's multiply-add rate (FMA), sampled by
// the driver beside each round. Returns nullopt for any other line.
std::optional<PeerResult> parse_peer_result(const std::string& line) {
  const std::size_t numbers = line.find(" n=");
  if (numbers == std::string::npos) return std::nullopt;
  PeerResult parsed;
  double best_wall = 0, rate = 0, gflops = 0, share = 0, best_share = 0;
  const int found = std::sscanf(line.c_str() + numbers,
                                " n=%lf | wall med %lf min %lf | cpu med %lf min %lf ms | %lf tok/cpu-s |"
                                " %lf GF/cpu-s, peak now %lf, %% of peak med %lf max %lf",
                                &parsed.tokens, &parsed.wall_ms, &best_wall, &parsed.cpu_ms,
                                &parsed.best_cpu_ms, &rate, &gflops, &parsed.fma_gflops, &share, &best_share);
  if (found != 10 || !(parsed.tokens > 0 && parsed.cpu_ms > 0 && parsed.best_cpu_ms > 0)) return std::nullopt;
  parsed.share_of_fma = share / 100;
  for (const char* workload : {"prefill ", "suffix ", "rank "})
    if (const std::size_t at = line.rfind(workload, numbers); at != std::string::npos) {
      const std::size_t end = line.find_last_not_of(' ', numbers);
      parsed.workload = line.substr(at, end + 1 - at);
    }
  if (parsed.workload.empty()) return std::nullopt;
  return parsed;
}

// Drivers have one workload `rank`, which both ranking workloads (rank and rank_all_logits, the last
// of the enum) are compared with.
const PeerResult* PeerRun::find(Workload workload) const {
  for (const PeerResult& line : lines) {
    const std::string& name = line.workload;
    const bool same = (workload == Workload::prefill_512 && name == "prefill 512") ||
                      (workload == Workload::prefill_2048 && name == "prefill 2048") ||
                      (workload == Workload::suffix && name.starts_with("suffix ")) ||
                      (workload >= Workload::rank && name.starts_with("rank "));
    if (same) return &line;
  }
  return nullptr;
}

PeerRun run_peer(const PeerFolders& folders, const Peer& peer, const EngineShape& shape,
                 std::uint32_t threads, std::uint32_t rounds, const std::vector<Workload>& workloads) {
  PeerRun run{peer, {}, {}};
  const fs::path model = folders.installed / "models" / model_file(peer, shape);
  run.failure = make_model(folders, peer, shape, model);
  if (!run.failure.empty()) return run;
  ChildProcess child;
  child.arguments = driver_arguments(folders, peer, shape, model, threads, rounds, workloads);
  child.environment = {{"OPENBLAS_NUM_THREADS", std::to_string(threads)}};
  if (const std::string core = openblas_core(); !core.empty())
    child.environment.push_back({"OPENBLAS_CORETYPE", core});
  child.limit = start_limit + rounds * round_limit;
  const ChildResult result = run_child(child);
  run.failure = result.failure;
  std::istringstream output(result.output);
  for (std::string line; std::getline(output, line);)
    if (const auto parsed = parse_peer_result(line)) run.lines.push_back(*parsed);
  if (run.failure.empty() && run.lines.empty()) run.failure = "printed no result line";
  return run;
}

}  // namespace troupe::deploy
