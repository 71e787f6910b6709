// Finds once per HSTU pass what its attention bias needs in every layer and head. For each row: the
// keys' positions, the steps of time buckets along the keys, and the first keys that it sees.
#include "kernels/hstu/pair_bias.h"

#include <algorithm>
#include <span>

namespace troupe::kernels {
namespace {

constexpr std::size_t steps_always = 1 << 20;

}  // namespace

std::string HstuBias::note(const DecoderBatch& batch, std::size_t steps_max) {
  rows_.positions.assign(batch.positions.begin(), batch.positions.end());
  rows_.step_begin.clear();
  rows_.step_end.clear();
  rows_.context_begin.clear();
  rows_.tail_begin = batch.visible_begin;
  steps_.clear();
  groups_.resize(batch.groups.size());
  const std::size_t allowed = std::max(steps_always, batch.rows() * steps_max);
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    note_keys(batch, batch.groups[g], groups_[g]);
    if (c_.window > 0) note_window(batch.groups[g], groups_[g]);
    if (!c_.biased()) continue;
    if (std::string beyond = note_steps(batch, batch.groups[g], groups_[g], allowed); !beyond.empty())
      return beyond;
  }
  gather_read_rows(batch);
  return "";
}

void HstuBias::free_memory() {
  groups_ = {};
  steps_ = {};
  rows_ = read_ = {};
}

void HstuBias::note_keys(const DecoderBatch& batch, const RowGroup& group, Group& keys) const {
  const std::size_t features = c_.event_tokens() > 1 ? 0 : c_.features();
  keys.key_positions.clear();
  keys.key_times.clear();
  const auto add = [&](std::uint32_t position, const std::int64_t* of_token) {
    keys.key_positions.push_back(static_cast<std::int32_t>(position));
    if (c_.biased()) keys.key_times.push_back(of_token[0]);
  };
  const auto add_rows = [&](std::uint32_t begin, std::uint32_t end) {
    for (std::uint32_t row = begin; row < end; ++row)
      add(batch.positions[row], batch.features.data() + row * features);
  };
  for (std::uint32_t s = group.span_begin; s < group.span_end; ++s) {
    const ContextSpan& span = batch.spans[s];
    if (span.page == nullptr) {
      add_rows(span.row, span.row + span.tokens);
      continue;
    }
    for (std::uint32_t t = 0; t < span.tokens; ++t) add(span.position + t, span.features + t * features);
  }
  keys.context = keys.key_positions.size();
  add_rows(group.row_begin, group.row_end);
}

// Consecutive rows of one time, such as candidates, share the steps of the last one, which sees the
// most keys.
std::string HstuBias::note_steps(const DecoderBatch& batch, const RowGroup& group, const Group& keys,
                                 std::size_t allowed) {
  const std::size_t features = c_.features();
  const auto time_of = [&](std::uint32_t row) { return batch.features[row * features + 1]; };
  const bool ascending = std::is_sorted(keys.key_times.begin(), keys.key_times.end());
  for (std::uint32_t row = group.row_begin, end = row; row < group.row_end; row = end) {
    const auto begin = static_cast<std::uint32_t>(steps_.size());
    std::uint32_t seen = 0;
    for (end = row; end < group.row_end && time_of(end) == time_of(row); ++end)
      seen = std::max(seen, batch.visible_end[end]);
    append_steps(buckets_, time_of(row), std::span(keys.key_times).first(keys.context + seen), ascending,
                 steps_);
    rows_.step_begin.resize(end, begin);
    rows_.step_end.resize(end, static_cast<std::uint32_t>(steps_.size()));
    if (steps_.size() > allowed)
      return "times that change direction " + std::to_string(steps_.size()) +
             " times between rows and what they see; expected times that do not decrease";
  }
  return "";
}

// The production layer's window counts identities: context tokens are 0, the others follow; a
// context token sees all.
void HstuBias::note_window(const RowGroup& group, const Group& keys) {
  const std::int64_t front = c_.context_tokens > 0 ? c_.context_tokens - 1 : 0;
  for (std::uint32_t row = group.row_begin; row < group.row_end; ++row) {
    const std::int64_t identity = std::max<std::int64_t>(rows_.positions[row] - front, 0),
                       least = identity - c_.window;
    const bool all = least <= 0 || (c_.context_tokens > 0 && identity == 0);
    const auto seen = [&](std::int32_t position) {
      return std::max<std::int64_t>(position - front, 0) >= least;
    };
    std::uint32_t key = 0;
    while (!all && key < keys.context && !seen(keys.key_positions[key])) ++key;
    rows_.context_begin.push_back(key);
    std::uint32_t& tail = rows_.tail_begin[row];
    while (!all && tail < row - group.row_begin && !seen(keys.key_positions[keys.context + tail])) ++tail;
  }
}

void HstuBias::gather_read_rows(const DecoderBatch& batch) {
  const auto gather = [&](const auto& from, auto& to) {
    to.clear();
    if (from.empty()) return;
    for (const std::uint32_t row : batch.read.rows) to.push_back(from[row]);
  };
  gather(rows_.positions, read_.positions);
  gather(rows_.step_begin, read_.step_begin);
  gather(rows_.step_end, read_.step_end);
  gather(rows_.context_begin, read_.context_begin);
  gather(rows_.tail_begin, read_.tail_begin);
}

}  // namespace troupe::kernels
