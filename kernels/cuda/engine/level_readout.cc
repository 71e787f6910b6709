// Plans and launches the readout of one level of beam searches: logits of the tokens that may
// follow each path. The logits stay on the device; the host gets only the best candidates.
#include "kernels/cuda/engine/level_readout.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "kernels/base/check.h"
#include "kernels/cuda/engine/packing.h"

namespace troupe::kernels::cuda {
namespace {

// Returns the maximum bytes of a plan within the bounds: an entry per row, and a block per eight
// logits or fewer.
std::size_t plan_bytes(const LevelBounds& bounds) {
  const std::size_t rows = rounded_rows(bounds.rows), logits = bounds.logits;
  return rows * (2 * sizeof(std::uint32_t) + sizeof(LevelRow) + sizeof(BestRow) + sizeof(SearchSelection)) +
         logits * sizeof(std::uint32_t) +
         rounded_blocks(bounds.logits / readout_block_rows + bounds.rows) * sizeof(ReadoutBlock) +
         6 * packing_alignment;
}

std::size_t sums_bytes(const LevelBounds& bounds) {
  return rounded_rows(bounds.rows) * sizeof(ExponentialSum);
}

// Copies, and pads with entries that are never read.
template <class T>
void fill(T* to, const std::vector<T>& from, std::size_t count) {
  std::fill(std::ranges::copy(from, to).out, to + count, T{});
}

}  // namespace

LevelReadout::LevelReadout(std::shared_ptr<const DeviceWeights> weights, const LevelBounds& bounds,
                           std::uint32_t graphs_max)
    : weights_(std::move(weights)),
      bounds_(bounds),
      stride_(padded_vocabulary(weights_->config.vocabulary)),
      staging_(plan_bytes(bounds)),
      totals_(bounds.rows * sizeof(double)),
      taken_(bounds.logits * sizeof(SelectedLogit)),
      plan_(plan_bytes(bounds)),
      products_(bounds.logits_at_once * sizeof(float)),
      sums_on_(sums_bytes(bounds)),
      numbers_on_(bounds.logits * sizeof(float)),
      tokens_on_(bounds.logits * sizeof(std::uint32_t)),
      totals_on_(bounds.rows * sizeof(double)),
      taken_on_(bounds.logits * sizeof(SelectedLogit)),
      graphs_(graphs_max) {}

std::string LevelReadout::plan(std::span<const LevelRowQuery> rows, std::span<const LevelSearch> searches) {
  rows_.clear(), searches_.clear(), states_.clear(), lists_.clear(), wide_.clear(), blocks_.clear();
  logits_ = best_ = 0;
  std::size_t logits = 0;
  for (const LevelRowQuery& question : rows)
    logits += question.wanted.empty() ? question.largest : question.wanted.size();
  if (rows.size() > bounds_.rows || logits > bounds_.logits)
    return "a level of " + std::to_string(rows.size()) + " rows and " + std::to_string(logits) +
           " logits; expected at most " + std::to_string(bounds_.rows) + " and " +
           std::to_string(bounds_.logits);
  for (std::uint32_t row = 0; row < rows.size(); ++row)
    if (rows[row].over_vocabulary || rows[row].wanted.empty())
      plan_wide_row(row, rows[row]);
    else
      plan_narrow_row(row, rows[row]);
  std::uint32_t row = 0;
  for (const LevelSearch& search : searches) {
    std::uint32_t candidates = 0;
    for (std::uint32_t r = row; r < row + search.rows; ++r) candidates += rows_[r].count;
    searches_.push_back({row, row + search.rows, best_, std::min(search.most, candidates)});
    row += search.rows;
    best_ += searches_.back().count;
  }
  TROUPE_CHECK(row == rows_.size(), "every row belongs to a search");
  shape_ = {rounded_rows(size32(rows_)), rounded_rows(size32(wide_)), rounded_blocks(size32(blocks_)),
            size32(searches_)};
  pack();
  return "";
}

void LevelReadout::plan_wide_row(std::uint32_t row, const LevelRowQuery& question) {
  const bool largest = question.wanted.empty();
  const auto count = largest ? question.largest : static_cast<std::uint32_t>(question.wanted.size());
  rows_.push_back({question.value, logits_, count, size32(wide_), largest});
  states_.push_back(row);
  wide_.push_back(
      {size32(lists_), count, logits_, largest ? LogitSelection::largest : LogitSelection::listed});
  for (const Token token : question.wanted) lists_.push_back(static_cast<std::uint32_t>(token));
  logits_ += count;
}

void LevelReadout::plan_narrow_row(std::uint32_t row, const LevelRowQuery& question) {
  const auto count = static_cast<std::uint32_t>(question.wanted.size());
  rows_.push_back({question.value, logits_, count, BestRow::own, false});
  const std::uint32_t first = size32(lists_);
  for (const Token token : question.wanted) lists_.push_back(static_cast<std::uint32_t>(token));
  const std::uint32_t state = size32(lists_);
  lists_.push_back(row);
  for (std::uint32_t r = 0; r < count; r += readout_block_rows)
    blocks_.push_back({first + r, std::min(readout_block_rows, count - r), state, 1, logits_ + r, count});
  logits_ += count;
}

LevelReadout::Packed LevelReadout::packed(std::byte* at) const {
  const auto take = [&]<class T>(T*& array, std::size_t count) { take_packed(array, count, at); };
  Packed packed;
  take(packed.states, shape_.wide);
  take(packed.wide, shape_.wide);
  take(packed.blocks, shape_.blocks);
  take(packed.rows, shape_.rows);
  take(packed.searches, shape_.searches);
  take(packed.lists, lists_.size());
  return packed;
}

std::size_t LevelReadout::packed_bytes() const {
  std::byte* const anywhere = reinterpret_cast<std::byte*>(packing_alignment);
  return static_cast<std::size_t>(reinterpret_cast<std::byte*>(packed(anywhere).lists + lists_.size()) -
                                  anywhere);
}

void LevelReadout::pack() {
  TROUPE_CHECK(packed_bytes() <= staging_.size_bytes(), "a plan within the bounds fits the buffer");
  const Packed to = packed(staging_.data());
  fill(to.states, states_, shape_.wide);
  fill(to.wide, wide_, shape_.wide);
  fill(to.blocks, blocks_, shape_.blocks);
  fill(to.rows, rows_, shape_.rows);
  fill(to.searches, searches_, shape_.searches);
  std::ranges::copy(lists_, to.lists);
}

// Computes the logits of wide rows [first, first + rows).
void LevelReadout::multiply(const DecoderPass& pass, std::uint32_t first, std::uint32_t rows,
                            Stream& stream) const {
  const std::uint32_t hidden = weights_->config.hidden;
  round_rows(weights_->half, pass.states(), packed(plan_.data()).states + first, rows, hidden, pass.rounded(),
             stream);
  pass.product().run({rows, hidden, stride_, ProductOut::f32},
                     {pass.rounded(), weights_->output, nullptr, products_.data()}, stream);
}

void LevelReadout::launch(const DecoderPass& pass, Stream& stream) const {
  const Packed on = packed(plan_.data());
  const std::uint32_t at_once = bounds_.logits_at_once / stride_;
  for (std::uint32_t first = 0; first < shape_.wide; first += at_once) {
    const std::uint32_t rows = std::min(at_once, shape_.wide - first);
    multiply(pass, first, rows, stream);
    read_level({.logits = products_.as<float>(),
                .vocabulary = weights_->config.vocabulary,
                .stride = stride_,
                .count = rows,
                .rows = on.wide + first,
                .tokens = on.lists,
                .sums = sums_on_.as<ExponentialSum>() + first,
                .logits_out = numbers_on_.as<float>(),
                .tokens_out = tokens_on_.as<std::uint32_t>()},
               stream);
  }
  read_out(weights_->half,
           {.blocks = on.blocks,
            .count = shape_.blocks,
            .width = weights_->config.hidden,
            .lists = on.lists,
            .output = weights_->output,
            .states = pass.states(),
            .out = numbers_on_.as<float>()},
           stream);
  select_candidates({.logits = numbers_on_.as<float>(),
                     .tokens = tokens_on_.as<std::uint32_t>(),
                     .sums = sums_on_.as<ExponentialSum>(),
                     .rows = on.rows,
                     .searches = on.searches,
                     .count = shape_.searches,
                     .log_totals = totals_on_.as<double>(),
                     .out = taken_on_.as<SelectedLogit>()},
                    stream);
}

void LevelReadout::enqueue(const DecoderPass& pass, Stream& stream, PartTimers* marks) {
  stream.upload(plan_.data(), staging_.data(), packed_bytes());
  if (marks != nullptr) {
    launch(pass, stream);
    marks->end(stream, &PassTimes::readout);
  } else {
    graphs_.run(shape_, stream, [&] { launch(pass, stream); });
  }
  if (!rows_.empty()) stream.download(totals_.data(), totals_on_.data(), rows_.size() * sizeof(double));
  if (best_ > 0) stream.download(taken_.data(), taken_on_.data(), best_ * sizeof(SelectedLogit));
}

std::span<const SelectedLogit> LevelReadout::best(std::uint32_t search) const {
  return {taken_.as<SelectedLogit>() + searches_[search].out, searches_[search].count};
}

}  // namespace troupe::kernels::cuda
