// Measures and fills the reused tokens of a plan with a repair, layer by layer (RcLLM §III-C). It
// measures the attention that tokens receive, and how far their keys and values are from their
// block's. Tokens that are not chosen then take over their block's keys and values.
#include "kernels/cpu/engine/repair_pass.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/base/check.h"
#include "kernels/base/float_formats.h"

namespace troupe::kernels {
namespace {

constexpr std::size_t no_mass = SIZE_MAX;

// Head sizes are at most 256.
struct HeadVector {
  float numbers[256];
};

void widen(KvFormat format, const void* from, std::size_t at, std::size_t count, float* to) {
  if (format == KvFormat::f32) {
    std::memcpy(to, static_cast<const float*>(from) + at, count * sizeof(float));
    return;
  }
  const auto* stored = static_cast<const std::uint16_t*>(from) + at;
  for (std::size_t i = 0; i < count; ++i)
    to[i] = format == KvFormat::f16 ? from_f16(stored[i]) : from_bf16(stored[i]);
}

// Rotates a key by the angles; backwards with sign -1.
void rotate(float* key, std::size_t half, const float* cosines, const float* sines, float sign) {
  for (std::size_t i = 0; i < half; ++i) {
    const float first = key[i], second = key[half + i], sine = sign * sines[i];
    key[i] = first * cosines[i] - second * sine;
    key[half + i] = second * cosines[i] + first * sine;
  }
}

// Divides `count` sums of one budget, each `width` numbers and a count, by their counts; a sum
// without entries becomes the mean of all.
void divide_sums(float* sums, std::size_t count, std::size_t width) {
  const std::size_t step = width + 1;
  std::vector<float> all(step);
  for (std::size_t s = 0; s < count; ++s)
    for (std::size_t i = 0; i < step; ++i) all[i] += sums[s * step + i];
  for (std::size_t s = 0; s < count; ++s) {
    float* const sum = sums + s * step;
    const bool none = sum[width] == 0;
    const float over = none ? std::max(1.0f, all[width]) : sum[width];
    for (std::size_t i = 0; i < width; ++i) sum[i] = (none ? all[i] : sum[i]) / over;
  }
}

}  // namespace

// Reads a block forwards, token after token.
struct RepairPass::Block {
  Block(const RepairPass& pass, const RepairedSpan& reused, std::uint32_t layer, std::uint32_t head,
        std::vector<KvRun>& runs)
      : width(pass.layout_.head_dim), runs(runs) {
    const auto spans =
        std::span(pass.batch_->spans).subspan(reused.span_begin, reused.span_end - reused.span_begin);
    pass.kv_.resolve(spans, pass.key_rotations_, layer, head, runs);
  }

  // Reads the next token: its key rotated to the span's position, and its value.
  void next() {
    while (at == runs[run].tokens) ++run, at = 0;
    const KvRun& from = runs[run];
    widen(from.format, from.keys, std::size_t{at} * from.stride, width, key.numbers);
    widen(from.format, from.values, std::size_t{at} * from.stride, width, value.numbers);
    if (from.cosines != nullptr) rotate(key.numbers, width / 2, from.cosines, from.sines, 1);
    ++at;
  }

  std::size_t width;
  std::vector<KvRun>& runs;
  std::size_t run = 0;
  std::uint32_t at = 0;
  HeadVector key, value;
};

void RepairPass::start(const DecoderBatch& batch) {
  batch_ = &batch;
  choices_.start(batch);
  sums_at_.clear();
  std::size_t sums = 0;
  for (std::size_t r = 0; r < batch.repairs.size(); ++r) {
    sums_at_.push_back(sums);
    if (batch.repairs[r].repair->mean) sums += sums_of_head(r) * layout_.kv_heads;
  }
  if (sums_.size() < sums) sums_.resize(sums);
  row_mass_.assign(choices_.needs_attention() ? batch.rows() : 0, 0);
}

void RepairPass::free_memory() {
  choices_.free_memory();
  sums_at_ = mass_begin_ = {};
  mass_ = row_mass_ = sums_ = {};
}

void RepairPass::allocate_mass(const AttentionParts& parts, const RowSet* set) {
  std::size_t floats = 0;
  mass_begin_.assign(parts.parts.size(), no_mass);
  for (std::size_t i = 0; i < parts.parts.size(); ++i) {
    const AttentionPart& part = parts.parts[i];
    const RowGroup& group = batch_->groups[part.group];
    if (part.row_end <= (set == nullptr ? group.measured_from : set->index_of(group.measured_from))) continue;
    mass_begin_[i] = floats;
    for (std::uint32_t s = group.span_begin; s < group.span_end; ++s) floats += batch_->spans[s].tokens;
    floats += group.row_end - group.row_begin;
  }
  mass_.assign(floats, 0);
}

float* RepairPass::mass(std::size_t part) const {
  return mass_begin_[part] == no_mass ? nullptr : const_cast<float*>(mass_.data()) + mass_begin_[part];
}

// Adds in the order of the parts, so that sums do not depend on timing.
void RepairPass::sum_mass(const AttentionParts& parts) {
  for (std::size_t i = 0; i < parts.parts.size(); ++i) {
    if (mass_begin_[i] == no_mass) continue;
    const AttentionPart& part = parts.parts[i];
    const RowGroup& group = batch_->groups[part.group];
    const float* paid = mass(i);
    for (std::uint32_t s = group.span_begin; s < group.span_end; ++s) {
      const ContextSpan& span = batch_->spans[s];
      for (std::uint32_t t = 0; t < span.tokens && span.page == nullptr; ++t)
        row_mass_[span.row + t] += paid[t];
      paid += span.tokens;
    }
    for (std::uint32_t row = group.row_begin; row < group.row_end; ++row) row_mass_[row] += *paid++;
  }
}

void RepairPass::compare(std::uint32_t number, std::vector<KvRun>& runs) {
  if (choices_.repair_of(number).divergence == 0) return;
  const RepairedSpan& reused = batch_->reused_spans[number];
  const std::span<float> lengths = choices_.divergence(number);
  const std::size_t width = layout_.head_dim;
  HeadVector own;
  for (std::uint32_t head = 0; head < layout_.kv_heads; ++head) {
    Block block(*this, reused, 1, head, runs);
    const KvRun rows = kv_.rows(head, reused.row, reused.tokens);
    for (std::uint32_t t = 0; t < reused.tokens; ++t) {
      block.next();
      widen(rows.format, rows.keys, t * width, width, own.numbers);
      for (std::size_t i = 0; i < width; ++i)
        lengths[t] += (own.numbers[i] - block.key.numbers[i]) * (own.numbers[i] - block.key.numbers[i]);
      widen(rows.format, rows.values, t * width, width, own.numbers);
      for (std::size_t i = 0; i < width; ++i)
        lengths[t] += (own.numbers[i] - block.value.numbers[i]) * (own.numbers[i] - block.value.numbers[i]);
    }
  }
  for (std::uint32_t t = 0; t < reused.tokens; ++t) lengths[t] = std::sqrt(lengths[t]);
}

// Numbers of a (repair, head): for each budget and offset a key, a value and a count.
std::size_t RepairPass::sums_of_head(std::size_t repair) const {
  return batch_->repairs[repair].repair->budgets.size() * choices_.longest(repair) *
         (2 * layout_.head_dim + 1);
}

float* RepairPass::sums(std::size_t repair, std::uint32_t head) const {
  return const_cast<float*>(sums_.data()) + sums_at_[repair] + head * sums_of_head(repair);
}

void RepairPass::find_mean(std::size_t mean, std::uint32_t layer, std::vector<KvRun>& runs) {
  const std::size_t number = mean / layout_.kv_heads, longest = choices_.longest(number);
  const BatchRepair& of = batch_->repairs[number];
  const auto head = static_cast<std::uint32_t>(mean % layout_.kv_heads);
  if (!of.repair->mean || layer < of.repair->exact_layers) return;
  const std::size_t width = layout_.head_dim, step = 2 * width + 1;
  float* const all = sums(number, head);
  std::fill_n(all, sums_of_head(number), 0.0f);
  HeadVector key, value;
  for (std::uint32_t p = of.reused_begin; p < of.reused_end; ++p) {
    const RepairedSpan& reused = batch_->reused_spans[p];
    const std::span<const std::uint8_t> chosen = choices_.chosen(p);
    Block block(*this, reused, layer, head, runs);
    const KvRun rows = kv_.rows(head, reused.row, reused.tokens);
    for (std::uint32_t t = 0; t < reused.tokens; ++t) {
      block.next();
      if (chosen[t] == 0) continue;
      widen(rows.format, rows.keys, t * width, width, key.numbers);
      widen(rows.format, rows.values, t * width, width, value.numbers);
      float* const sum = all + (reused.budget * longest + t) * step;
      for (std::size_t i = 0; i < width; ++i) key.numbers[i] -= block.key.numbers[i];
      const std::size_t angles = (reused.row + t) * width / 2;
      rotate(key.numbers, width / 2, rows_.cosines() + angles, rows_.sines() + angles, -1);
      for (std::size_t i = 0; i < width; ++i) sum[i] += key.numbers[i];
      for (std::size_t i = 0; i < width; ++i) sum[width + i] += value.numbers[i] - block.value.numbers[i];
      sum[2 * width] += 1;
    }
  }
  for (std::size_t budget = 0; budget < of.repair->budgets.size(); ++budget)
    divide_sums(all + budget * longest * step, longest, 2 * width);
}

void RepairPass::fill(std::uint32_t number, std::uint32_t layer, std::vector<KvRun>& runs) {
  const Repair& repair = choices_.repair_of(number);
  if (layer < repair.exact_layers) return;
  const RepairedSpan& reused = batch_->reused_spans[number];
  const std::size_t width = layout_.head_dim, step = 2 * width + 1, of = choices_.repair_number(number);
  const std::span<const std::uint8_t> chosen = choices_.chosen(number);
  HeadVector mean;
  for (std::uint32_t head = 0; head < layout_.kv_heads; ++head) {
    Block block(*this, reused, layer, head, runs);
    const float* mean_of =
        repair.mean ? sums(of, head) + reused.budget * choices_.longest(of) * step : nullptr;
    for (std::uint32_t t = 0; t < reused.tokens; ++t) {
      block.next();
      if (chosen[t] != 0) continue;
      if (mean_of != nullptr) {
        const std::size_t angles = (reused.row + t) * width / 2;
        std::copy_n(mean_of + t * step, width, mean.numbers);
        rotate(mean.numbers, width / 2, rows_.cosines() + angles, rows_.sines() + angles, 1);
        for (std::size_t i = 0; i < width; ++i) block.key.numbers[i] += mean.numbers[i];
        for (std::size_t i = 0; i < width; ++i) block.value.numbers[i] += mean_of[t * step + width + i];
      }
      kv_.store(reused.row + t, head, block.key.numbers, block.value.numbers);
    }
  }
}

}  // namespace troupe::kernels
