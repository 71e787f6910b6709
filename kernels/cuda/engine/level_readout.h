#pragma once
// Logits of a level of beam searches: from the final states of its rows to what kernels/search decides by. A
// row's candidates are the tokens that may follow it; where all may, those with the largest logits, as many
// as could be kept (level_rows.h). Where probabilities are normalised over the vocabulary there is a product
// with the output projection, some rows at a time; else the projection's rows of those tokens alone are read
// (decoder_kernels.h). All of that stays on the device, which finds the best candidates of each search
// (level_best.h): these come back, as many as may be kept, and of each row the logarithm of its sum.
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
  std::uint32_t logits_at_once = 0;  // of products; at least a row's
};

// What is asked of a row. Tokens outlive the plan.
struct LevelQuestion {
  std::span<const Token> wanted;  // ascending; empty: the `largest` of all
  std::uint32_t largest = 0;
  bool over_vocabulary = false;  // how its probabilities are normalised; else over what is wanted
  double value = 0;              // of the path that goes on
};

// Rows one after the other that are a search's, or a part of it, and how many of their candidates come back
// at most.
struct LevelSearch {
  std::uint32_t rows = 0, most = 0;
};

class LevelReadout {
 public:
  // Allocates everything.
  LevelReadout(std::shared_ptr<const DeviceWeights> weights, const LevelBounds& bounds,
               std::uint32_t graphs_max);

  // Empty, or what goes beyond the bounds; then there is no plan.
  std::string plan(std::span<const LevelQuestion> rows, std::span<const LevelSearch> searches);
  // For the states of the pass, one a row. `marks` may be null; then launches come from a recording where the
  // level's shape was seen before.
  void enqueue(const DecoderPass& pass, Stream& stream, PartMarks* marks);

  // The stream was waited for. Until the next plan:
  double log_total(std::uint32_t row) const { return totals_.as<double>()[row]; }
  // The best candidates of a search, by row, then by token: children are tokens where all may follow, else
  // places among those that are wanted.
  std::span<const TakenLogit> best(std::uint32_t search) const;

 private:
  // All that launches depend on: numbers of rows, of those with a product and of blocks without, rounded up,
  // and of searches. What fills them up nobody reads.
  struct Shape {
    std::uint32_t rows = 0, wide = 0, blocks = 0, searches = 0;
    auto operator<=>(const Shape&) const = default;
  };
  // Of what is uploaded, on the host or on the device.
  struct Packed {
    std::uint32_t* states = nullptr;  // of wide rows
    LevelRow* wide = nullptr;
    ReadoutBlock* blocks = nullptr;
    BestRow* rows = nullptr;
    BestOf* searches = nullptr;
    std::uint32_t* lists = nullptr;
  };

  void ask_wide(std::uint32_t row, const LevelQuestion& question);
  void ask_alone(std::uint32_t row, const LevelQuestion& question);
  Packed packed(std::byte* at) const;
  std::size_t packed_bytes() const;
  void pack();
  void launch(const DecoderPass& pass, Stream& stream) const;
  void multiply(const DecoderPass& pass, std::uint32_t first, std::uint32_t rows, Stream& stream) const;

  const std::shared_ptr<const DeviceWeights> weights_;
  const LevelBounds bounds_;
  const std::uint32_t stride_;  // of products
  std::vector<BestRow> rows_;
  std::vector<BestOf> searches_;
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
