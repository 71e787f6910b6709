// Runs a whole beam search with llama.cpp, for tests/bench/peers/beams.py: computes a prompt and searches
// paths of some tokens after it. It uses llama.cpp at its best: one unified cache in which all beams
// share the prompt's cells and follow their parents by llama_memory_seq_cp; logits only where they are
// read. Selection `heap` is a vectorised log-softmax and a bounded heap over all beams, which rejects
// most of the vocabulary with one comparison. Selection `plain` is the obvious way: each beam's best
// tokens by std::nth_element, then the best of those. LLAMA_MAX_SEQ is 256 and a step needs two banks of
// sequences, so 128 beams are the maximum.
//
//   llama_beams BACKENDS MODEL THREADS FLASH SELECT WIDTH PROMPT STEPS ROUNDS     FLASH: auto, on or off;
//   SELECT: heap or plain
//
// Prints a JSON object for each round: milliseconds of wall and CPU time, and where they went.
#include <ggml-backend.h>
#include <llama.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/cpu/products/fma_rate.h"

namespace {

double ms_of(clockid_t clock) {
  timespec t;
  clock_gettime(clock, &t);
  return 1e3 * static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_nsec);
}

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "llama_beams: %s\n", what.c_str());
  std::exit(1);
}

struct Candidate {
  float value;
  int parent, token;
  bool operator<(const Candidate& other) const {
    return value > other.value;
  }  // the worst beam is on top of the heap
};

struct Parts {
  double prompt = 0, decode = 0, select = 0, follow = 0;
};

class Search {
 public:
  Search(const char* backends, const char* file, int threads, const std::string& flash, bool plain, int width,
         int prompt, int steps)
      : plain_(plain), width_(width), prompt_(prompt), steps_(steps) {
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
    params.n_ctx = static_cast<std::uint32_t>(prompt + 2 * steps * width + 256);
    params.n_batch = static_cast<std::uint32_t>(std::max(prompt, width));
    params.n_ubatch = 512;
    params.n_seq_max = static_cast<std::uint32_t>(2 * width);
    params.n_threads = params.n_threads_batch = threads;
    params.kv_unified = params.no_perf = true;
    if (flash != "auto")
      params.flash_attn_type = flash == "on" ? LLAMA_FLASH_ATTN_TYPE_ENABLED : LLAMA_FLASH_ATTN_TYPE_DISABLED;
    context_ = llama_init_from_model(model, params);
    if (!context_) fail("cannot create a context: out of memory, or an unsupported setting");
    memory_ = llama_get_memory(context_);
    batch_ = llama_batch_init(static_cast<int>(params.n_batch), 0, 1);
  }

  Parts run() {
    Parts parts;
    llama_memory_clear(memory_, false);
    timed(parts.prompt, [&] {
      for (int i = 0; i < prompt_; ++i) add(std::rand() % vocabulary_, i, 0, i + 1 == prompt_);
      decode();
    });
    values_.assign(1, 0.0f);
    timed(parts.select, [&] { select(1); });
    int bank = 0;
    timed(parts.follow, [&] {
      for (int k = 1; k < 2 * width_; ++k) llama_memory_seq_cp(memory_, 0, k, -1, -1);
    });
    for (int step = 1; step < steps_; ++step) {
      timed(parts.decode, [&] {
        for (int k = 0; k < width_; ++k)
          add(best_[static_cast<std::size_t>(k)].token, prompt_ + step - 1, bank + k, true);
        decode();
      });
      timed(parts.select, [&] { select(width_); });
      if (step + 1 == steps_) break;
      timed(parts.follow, [&] { follow(bank); });
      bank = width_ - bank;
    }
    return parts;
  }

 private:
  template <class Work>
  static void timed(double& ms, Work work) {
    const double begin = ms_of(CLOCK_MONOTONIC);
    work();
    ms += ms_of(CLOCK_MONOTONIC) - begin;
  }
  void add(int token, int position, int sequence, bool read) {
    const int at = batch_.n_tokens++;
    batch_.token[at] = token;
    batch_.pos[at] = position;
    batch_.n_seq_id[at] = 1;
    batch_.seq_id[at][0] = sequence;
    batch_.logits[at] = read;
  }
  void decode() {
    if (llama_decode(context_, batch_) != 0) fail("decoding of a batch failed");
    llama_synchronize(context_);
    batch_.n_tokens = 0;
  }
  // Gives the beams of the next step, in the other bank's sequences, the cells of their parents in `bank`.
  void follow(int bank) {
    const int next = width_ - bank;
    for (int k = 0; k < width_; ++k)
      llama_memory_seq_cp(memory_, bank + best_[static_cast<std::size_t>(k)].parent, next + k, prompt_, -1);
    for (int k = 0; k < width_; ++k) llama_memory_seq_rm(memory_, bank + k, prompt_, -1);
  }
  // Selects the best continuations of the beams.
  void select(int rows) {
    best_.clear();
    for (int row = 0; row < rows; ++row) {
      const float* logits = llama_get_logits_ith(context_, rows == 1 ? -1 : row);
      float largest = logits[0], sum = 0;
      for (int v = 0; v < vocabulary_; ++v) largest = std::max(largest, logits[v]);
      for (int v = 0; v < vocabulary_; ++v) sum += std::exp(logits[v] - largest);
      const float offset = values_[static_cast<std::size_t>(row)] - largest - std::log(sum);
      plain_ ? take_plainly(logits, row, offset) : take(logits, row, offset);
    }
    if (plain_ && best_.size() > static_cast<std::size_t>(width_)) {
      std::nth_element(best_.begin(), best_.begin() + width_ - 1, best_.end());
      best_.resize(static_cast<std::size_t>(width_));
    }
    std::sort(best_.begin(), best_.end());
    values_.clear();
    for (const Candidate& one : best_) values_.push_back(one.value);
  }
  void take_plainly(const float* logits, int row, float offset) {
    row_.clear();
    for (int v = 0; v < vocabulary_; ++v) row_.push_back({logits[v] + offset, row, v});
    std::nth_element(row_.begin(), row_.begin() + width_ - 1, row_.end());
    best_.insert(best_.end(), row_.begin(), row_.begin() + width_);
  }
  // Skips blocks of the vocabulary in which no token is good enough.
  void take(const float* logits, int row, float offset) {
    const auto width = static_cast<std::size_t>(width_);
    for (int begin = 0; begin < vocabulary_; begin += 256) {
      const int end = std::min(begin + 256, vocabulary_);
      if (best_.size() == width) {
        float largest = logits[begin];
        for (int v = begin; v < end; ++v) largest = std::max(largest, logits[v]);
        if (largest + offset <= best_.front().value) continue;
      }
      for (int v = begin; v < end; ++v) {
        const float value = logits[v] + offset;
        if (best_.size() == width) {
          if (value <= best_.front().value) continue;
          std::pop_heap(best_.begin(), best_.end());
          best_.pop_back();
        }
        best_.push_back({value, row, v});
        std::push_heap(best_.begin(), best_.end());
      }
    }
  }

  bool plain_;
  int width_, prompt_, steps_, vocabulary_ = 0;
  llama_context* context_ = nullptr;
  llama_memory_t memory_ = nullptr;
  llama_batch batch_{};
  std::vector<float> values_;
  std::vector<Candidate> best_, row_;
};

}  // namespace

int main(int count, char** arguments) {
  if (count != 10)
    fail("usage: llama_beams BACKENDS MODEL THREADS auto|on|off heap|plain WIDTH PROMPT STEPS ROUNDS");
  const int threads = std::atoi(arguments[3]), width = std::atoi(arguments[6]),
            rounds = std::atoi(arguments[9]);
  if (width < 1 || width > 128) fail("WIDTH: expected 1 to 128");
  Search search(arguments[1], arguments[2], threads, arguments[4], arguments[5] == std::string("plain"),
                width, std::atoi(arguments[7]), std::atoi(arguments[8]));
  const auto rate = [threads] {
    return troupe::kernels::fma_rate_together(static_cast<unsigned>(threads)) * 1e-9;
  };
  search.run();  // not timed
  for (int round = 0; round < rounds; ++round) {
    const double before = rate(), wall = ms_of(CLOCK_MONOTONIC), cpu = ms_of(CLOCK_PROCESS_CPUTIME_ID);
    const Parts parts = search.run();
    const double wall_ms = ms_of(CLOCK_MONOTONIC) - wall, cpu_ms = ms_of(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    std::printf(
        "{\"wall_ms\": %.3f, \"cpu_ms\": %.3f, \"prompt_ms\": %.3f, \"decode_ms\": %.3f, \"select_ms\": "
        "%.3f, "
        "\"follow_ms\": %.3f, \"fma_gflops\": %.1f}\n",
        wall_ms, cpu_ms, parts.prompt, parts.decode, parts.select, parts.follow, (before + rate()) / 2);
    std::fflush(stdout);
  }
}
