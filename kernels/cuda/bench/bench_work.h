#pragma once
// Defines the rows of the benchmark: what is launched, on which shape, its lower bound, and how its
// result is checked on random numbers. A work with a wrong result is not timed.
#include <functional>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "kernels/checkpoint/model.h"
#include "kernels/cuda/bench/bench_cost.h"
#include "kernels/cuda/bench/bench_data.h"
#include "kernels/cuda/kernels/attend.h"

namespace troupe::kernels::cuda {

// A comparison of a kernel's output with the definition.
struct CheckedSample {
  std::vector<double> got, want;
  std::vector<double> bound;  // of each difference; a single element applies to all
};

// A work in device memory, which lives as long as its functions.
struct PreparedWork {
  std::function<void(Stream&)> before;  // not timed: restores what `run` overwrites; may be empty
  std::function<void(Stream&)> run;
  // Poison until `run`, which writes all of them.
  std::vector<std::shared_ptr<const DeviceNumbers>> outputs;
  std::size_t checks = 0;                           // number of samples, of which some are compared
  std::function<CheckedSample(std::size_t)> check;  // to be called after one run
};

// The same work for a peer that reads it from a file; kind "" if there is none.
struct PeerWork {
  std::string kind;
  std::map<std::string, std::uint64_t> numbers;
};

struct BenchWork {
  std::string kernel, shape;
  std::vector<Cost> steps;
  unsigned launches = 1;
  PeerWork peer;
  std::function<PreparedWork(Chance&)> prepare;

  std::string name() const { return kernel + ", " + shape; }
};

// A decoder's sizes, and those of its timed passes.
struct BenchShape {
  std::string name;
  std::uint32_t layers = 0, hidden = 0, heads = 0, kv_heads = 0, intermediate = 0, vocabulary = 32768;
  std::uint32_t history = 1500, suffix = 1000, candidates = 100, candidate_tokens = 10, prefill = 2048;
  std::uint32_t long_prefill = 4096;  // for attention alone
  std::uint32_t many_rows = 65536;    // of memory-bound kernels, to exceed the caches
  std::uint32_t few_rows = 16;        // of products that read their weights for few rows

  std::uint32_t head_dim() const { return hidden / heads; }
};
constexpr std::uint32_t page_tokens = 16;  // of all shapes
DecoderConfig config_of(const BenchShape& shape);
// Returns the shapes of `troupe-lab bench engine`'s largest model and of a model of 1.5 billion
// weights; a tiny one for `smoke`.
std::vector<BenchShape> bench_shapes(bool smoke);

// Rows of a pass: causal segments of `segment` tokens that all see `context` tokens.
struct PassGeometry {
  std::string text;
  std::uint32_t context = 0, segments = 1, segment = 1;

  std::uint32_t rows() const { return segments * segment; }
  std::uint32_t keys() const { return context + rows(); }
  double pairs() const { return double{1} * segments * segment * (context + (segment + 1) / 2.0); }
};
// Returns the predicted attention time on a device of that data sheet.
double attention_seconds(const DataSheet& sheet, const KvLayout& layout, std::uint32_t heads,
                         const PassGeometry& sight, AttendPath path = AttendPath::by_device);
// Prints a table of predicted times by query tiles.
void print_tiles(const DataSheet& sheet, std::ostream& out);

void add_row_works(const BenchShape& shape, std::vector<BenchWork>& works);
void add_head_works(const BenchShape& shape, std::vector<BenchWork>& works);
void add_product_works(const BenchShape& shape, std::vector<BenchWork>& works);
void add_attend_works(const BenchShape& shape, std::vector<BenchWork>& works);
void add_realign_works(const BenchShape& shape, std::vector<BenchWork>& works);

// An HSTU pass whose time is predicted but not measured yet: `users` at once, each with `events`
// new events and `candidates`.
struct HstuShape {
  std::string text;
  std::uint32_t layers = 0, hidden = 0, heads = 0, head_dim = 0;
  std::uint32_t users = 0, events = 0, candidates = 0;
  bool whole = false;  // with embedding and task head, and candidates alone in the last layer; else the
                       // layers, of all rows
};
std::vector<HstuShape> hstu_shapes();
std::vector<Cost> hstu_costs(const HstuShape& shape);
unsigned hstu_launches(const HstuShape& shape);  // excludes launches of attention

// Returns the numbers of rows on which kernels between products are timed.
std::vector<std::uint32_t> row_counts(const BenchShape& shape);

}  // namespace troupe::kernels::cuda
