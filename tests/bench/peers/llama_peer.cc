// Runs llama.cpp on the workloads of `troupe-lab bench engine`, at its best: one unified cache, the history
// shared by all candidates' sequences, logits only where they are read. Wall and CPU time are of the
// process; the multiply-add rate is sampled before and after each pass.
//
//   llama_peer BACKENDS MODEL SHAPE THREADS ROUNDS prefill,suffix,rank LENGTH,...
#include <ggml-backend.h>
#include <llama.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "kernels/cpu/products/fma_rate.h"

namespace {

constexpr int history = 1500, suffix = 1000, candidates = 100, candidate_tokens = 10;
constexpr int batch_tokens = 4096, pass_tokens = 512;  // tokens of a batch, and of a single computation

double seconds_of(clockid_t clock) {
  timespec t;
  clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "llama_peer: %s\n", what.c_str());
  std::exit(1);
}

std::vector<int> numbers(const std::string& text) {
  std::vector<int> list;
  std::istringstream in(text);
  for (std::string one; std::getline(in, one, ',');) list.push_back(std::atoi(one.c_str()));
  return list;
}

struct Shape {
  double layers, hidden, heads, kv_heads, intermediate, vocabulary;

  // Operations of a workload: `pairs` of tokens that see each other, `readouts` of all rows.
  double operations(double tokens, double pairs, double readouts) const {
    const double kv = hidden / heads * kv_heads;
    const double weights = layers * (2 * hidden * hidden + 2 * hidden * kv + 3 * hidden * intermediate);
    return 2 * weights * tokens + 4 * layers * hidden * pairs + 2 * hidden * vocabulary * readouts;
  }
};
double visible(double before, double tokens) { return tokens * before + tokens * (tokens + 1) / 2; }

class Peer {
 public:
  Peer(const char* backends, const char* file, int threads) : threads_(threads) {
    llama_log_set(
        [](ggml_log_level level, const char* text, void*) {
          if (level == GGML_LOG_LEVEL_ERROR) std::fputs(text, stderr);
        },
        nullptr);
    ggml_backend_load_all_from_path(backends);
    llama_backend_init();
    llama_model* model = llama_model_load_from_file(file, llama_model_default_params());
    if (!model) fail(std::string(file) + ": cannot be loaded");
    vocabulary_ = llama_vocab_n_tokens(llama_model_get_vocab(model));
    llama_context_params params = llama_context_default_params();
    params.n_ctx = 2 * batch_tokens;
    params.n_batch = batch_tokens;
    params.n_ubatch = pass_tokens;
    params.n_seq_max = candidates + 1;
    params.n_threads = params.n_threads_batch = threads;
    params.kv_unified = params.no_perf = true;
    context_ = llama_init_from_model(model, params);
    if (!context_) fail("cannot create a context: out of memory");
    memory_ = llama_get_memory(context_);
    batch_ = llama_batch_init(batch_tokens, 0, 1);
  }

  // Adds `count` tokens of a sequence from this position; logits only for the last one.
  void add(int sequence, int position, int count) {
    for (int i = 0; i < count; ++i) {
      const int at = batch_.n_tokens++;
      batch_.token[at] = std::rand() % vocabulary_;
      batch_.pos[at] = position + i;
      batch_.n_seq_id[at] = 1;
      batch_.seq_id[at][0] = sequence;
      batch_.logits[at] = i + 1 == count;
    }
  }
  void decode() {
    if (llama_decode(context_, batch_) != 0) fail("decoding of a batch failed");
    llama_synchronize(context_);
    batch_.n_tokens = 0;
  }
  void feed(int position, int count) { add(0, position, count), decode(); }
  void forget_from(int position) { llama_memory_seq_rm(memory_, 0, position, -1); }

  void rank() {
    for (int c = 1; c <= candidates; ++c) llama_memory_seq_cp(memory_, 0, c, -1, -1);
    for (int c = 1; c <= candidates; ++c) add(c, history, candidate_tokens);
    decode();
    volatile float read = 0;
    for (int c = 0; c < candidates; ++c)
      read = read + llama_get_logits_ith(context_, (c + 1) * candidate_tokens - 1)[1];
  }
  void forget_candidates() {
    for (int c = 1; c <= candidates; ++c) llama_memory_seq_rm(memory_, c, -1, -1);
  }

  double fma_gflops() const {
    return troupe::kernels::fma_rate_together(static_cast<unsigned>(threads_)) * 1e-9;
  }

 private:
  int threads_, vocabulary_ = 0;
  llama_context* context_ = nullptr;
  llama_memory_t memory_ = nullptr;
  llama_batch batch_{};
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}
double least(const std::vector<double>& values) { return *std::min_element(values.begin(), values.end()); }

// `clear` is not timed.
void measure(const Peer& peer, const std::string& name, int tokens, double needed, int rounds,
             const std::function<void()>& pass, const std::function<void()>& clear) {
  std::vector<double> walls, cpus, fmas, shares;
  for (int round = 0; round < rounds; ++round) {
    const double before = peer.fma_gflops();
    const double wall = seconds_of(CLOCK_MONOTONIC), cpu = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    pass();
    cpus.push_back((seconds_of(CLOCK_PROCESS_CPUTIME_ID) - cpu) * 1e3);
    walls.push_back((seconds_of(CLOCK_MONOTONIC) - wall) * 1e3);
    fmas.push_back((before + peer.fma_gflops()) / 2);
    shares.push_back(needed / cpus.back() / 1e4 / fmas.back());
    clear();
  }
  std::printf(
      "llama.cpp %s n=%d | wall med %.1f min %.1f | cpu med %.1f min %.1f ms | %.1f tok/cpu-s |"
      " %.1f GF/cpu-s, peak now %.1f, %% of peak med %.1f max %.1f\n",
      name.c_str(), tokens, median(walls), least(walls), median(cpus), least(cpus),
      tokens / least(cpus) * 1e3, needed / median(cpus) / 1e6, median(fmas), median(shares),
      *std::max_element(shares.begin(), shares.end()));
  std::fflush(stdout);
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 8)
    fail("usage: llama_peer BACKENDS MODEL SHAPE THREADS ROUNDS prefill,suffix,rank LENGTH,...");
  const std::vector<int> s = numbers(arguments[3]);
  if (s.size() != 6) fail("SHAPE: expected six numbers");
  const Shape shape{1.0 * s[0], 1.0 * s[1], 1.0 * s[2], 1.0 * s[3], 1.0 * s[4], 1.0 * s[5]};
  const int rounds = std::atoi(arguments[5]);
  const std::string work = arguments[6];
  Peer peer(arguments[1], arguments[2], std::atoi(arguments[4]));
  const auto forget = [&] { peer.forget_from(0); };
  peer.feed(0, 64), forget();  // untimed
  if (work.find("prefill") != std::string::npos)
    for (const int length : numbers(arguments[7]))
      measure(
          peer, "prefill " + std::to_string(length), length, shape.operations(length, visible(0, length), 1),
          rounds, [&] { peer.feed(0, length); }, forget);
  peer.feed(0, history);
  if (work.find("suffix") != std::string::npos)
    measure(
        peer, "suffix 1000 on 1500", suffix, shape.operations(suffix, visible(history, suffix), 1), rounds,
        [&] { peer.feed(history, suffix); }, [&] { peer.forget_from(history); });
  if (work.find("rank") != std::string::npos)
    measure(
        peer, "rank 100x10 on 1500", candidates * candidate_tokens,
        shape.operations(candidates * candidate_tokens, candidates * visible(history, candidate_tokens),
                         candidates),
        rounds, [&] { peer.rank(); }, [&] { peer.forget_candidates(); });
}
