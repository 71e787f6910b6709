#pragma once
// Computes the readout of a level of beam searches: from the final states of its rows to the
// candidates that kernels/search needs. A row's candidates are the tokens that may follow it. If
// all may follow, they are those with the largest logits, as many as may be kept (level_rows.h).
//
// If probabilities are normalised over the vocabulary, the states are multiplied with the whole
// output projection, some rows at a time. Otherwise only the projection's rows of the candidate
// tokens are read (decoder_kernels.h). The logits stay on the device, which finds the best
// candidates of each search (level_best.h). The host gets these, at most as many as may be kept,
// and the log-sum of each row.
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/base/tokens.h"
#include "kernels/cuda/device/product.h"
#include "kernels/cuda/engine/decoder_pass.h"
#include "kernels/cuda/engine/device_weights.h"
#include "kernels/cuda/engine/pass_graphs.h"
#include "kernels/cuda/kernels/level_best.h"
#include "kernels/cuda/kernels/level_rows.h"

namespace troupe::kernels::cuda {

struct LevelBounds {
  std::uint32_t rows = 0;
  std::uint32_t logits = 0;          // of candidates
  std::uint32_t logits_at_once = 0;  // of products; at least one row's
};

// A row's question. `wanted` must outlive the plan.
struct LevelRowQuery {
  std::span<const Token> wanted;  // ascending; empty: the `largest` logits of all tokens
  std::uint32_t largest = 0;
  bool over_vocabulary = false;  // true: normalise over the vocabulary; false: over `wanted`
  double value = 0;              // log-probability of the row's path so far
};

// Consecutive rows of a search, or of a part of it, and the maximum number of their candidates to
// return.
struct LevelSearch {
  std::uint32_t rows = 0, most = 0;
};

class LevelReadout {
 public:
  // Allocates all buffers.
  LevelReadout(std::shared_ptr<const DeviceWeights> weights, const LevelBounds& bounds,
               std::uint32_t graphs_max);

  // Plans a level. Returns an empty string, or which bound it exceeds; then there is no plan.
  std::string plan(std::span<const LevelRowQuery> rows, std::span<const LevelSearch> searches);
  // Enqueues the readout for the pass's states, one per row. If `marks` is null, the launches are
  // replayed from a recording when the level's shape was seen before.
  void enqueue(const DecoderPass& pass, Stream& stream, PartTimers* marks);

  // Results, valid after the stream was synchronized and until the next plan.
  double log_total(std::uint32_t row) const { return totals_.as<double>()[row]; }
  // Returns the best candidates of a search, ordered by row, then by token. Children are tokens if
  // all tokens may follow, else indices into `wanted`.
  std::span<const SelectedLogit> best(std::uint32_t search) const;

 private:
  // All numbers on which launches depend: rows, rows with a product, blocks without one (all
  // rounded up), and searches. Padding entries are never read.
  struct Shape {
    std::uint32_t rows = 0, wide = 0, blocks = 0, searches = 0;
    auto operator<=>(const Shape&) const = default;
  };
  // Arrays of the upload, on the host or on the device.
  struct Packed {
    std::uint32_t* states = nullptr;  // of wide rows: those with a product
    LevelRow* wide = nullptr;
    ReadoutBlock* blocks = nullptr;
    BestRow* rows = nullptr;
    SearchSelection* searches = nullptr;
    std::uint32_t* lists = nullptr;
  };

  void plan_wide_row(std::uint32_t row, const LevelRowQuery& question);
  void plan_narrow_row(std::uint32_t row, const LevelRowQuery& question);
  Packed packed(std::byte* at) const;
  std::size_t packed_bytes() const;
  void pack();
  void launch(const DecoderPass& pass, Stream& stream) const;
  void multiply(const DecoderPass& pass, std::uint32_t first, std::uint32_t rows, Stream& stream) const;

  const std::shared_ptr<const DeviceWeights> weights_;
  const LevelBounds bounds_;
  const std::uint32_t stride_;  // row stride of products
  std::vector<BestRow> rows_;
  std::vector<SearchSelection> searches_;
  std::vector<std::uint32_t> states_, lists_;
  std::vector<LevelRow> wide_;
  std::vector<ReadoutBlock> blocks_;
  Shape shape_;
  std::uint32_t logits_ = 0, best_ = 0;

  const PageLockedMemory staging_, totals_, taken_;
  const DeviceMemory plan_, products_, sums_on_, numbers_on_, tokens_on_, totals_on_, taken_on_;
  ShapeGraphs<Shape> graphs_;
};

}  // namespace troupe::kernels::cuda
