// The keys and values of attention's context or tail, cut into panels of kPanel tokens whatever
// their runs; included once per target. Panels are packed for the tiles (keys transposed, rows
// padded to whole vectors), all at once or one by one, or stay where they are for the direct path
// of very few queries. Numbers of 16 bits are widened on the way: once per panel, in the
// first-level cache. For AVX512_BF16 panels of bf16 numbers are packed as pairs instead.
#if defined(TROUPE_KERNELS_CPU_ATTEND_PANELS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TROUPE_KERNELS_CPU_ATTEND_PANELS_INL_H
#undef TROUPE_KERNELS_CPU_ATTEND_PANELS_INL_H
#else
#define TROUPE_KERNELS_CPU_ATTEND_PANELS_INL_H
#endif

#include <algorithm>
#include <cstring>
#include <span>

#include "kernels/cpu/versions/attend_tile_inl.h"
#include "kernels/cpu/versions/half_inl.h"
#include "kernels/operations/attend.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::HWY_NAMESPACE {
#if TROUPE_VECTOR_TARGET

inline constexpr std::size_t kHeadDimMax = 256;
HWY_ALIGN inline constexpr float kZeros[kHeadDimMax] =
    {};  // stands in for tokens and queries that do not exist

constexpr std::size_t round_up(std::size_t n, std::size_t step) { return (n + step - 1) / step * step; }

// Returns at least `count` floats, aligned to a cache line; the scratch only grows.
inline float* reserve(AttendScratch& scratch, std::size_t count) {
  constexpr std::size_t kLine = 64;
  if (scratch.floats.size() < count + kLine / sizeof(float))
    scratch.floats.resize(count + kLine / sizeof(float));
  const auto address = reinterpret_cast<std::uintptr_t>(scratch.floats.data());
  return scratch.floats.data() + (round_up(address, kLine) - address) / sizeof(float);
}

inline std::size_t count_tokens(std::span<const KvRun> runs) {
  std::size_t tokens = 0;
  for (const KvRun& run : runs) tokens += run.tokens;
  return tokens;
}

// How a task's keys and values are read. in_place_rounded: queries, weights and rotated keys are rounded
// as for pairs, so that a row's result does not depend on how many rows are beside it.
enum class Keys : std::uint8_t { packed, in_place, in_place_rounded, pairs };

constexpr bool stay_in_place(Keys keys) { return keys == Keys::in_place || keys == Keys::in_place_rounded; }

inline bool all_bf16(std::span<const KvRun> runs) {
  return std::ranges::all_of(runs, [](const KvRun& run) { return run.format == KvFormat::bf16; });
}

// Reads the tokens of a list of runs in order.
class TokenReader {
 public:
  explicit TokenReader(std::span<const KvRun> runs) : runs_(runs) {}

  void skip_to(std::size_t token) {
    while (position_ < token) position_ += advance(token - position_);
  }

  // Calls take(run, first token, tokens) for the next `count` tokens, in pieces of one run. There
  // must be that many tokens left.
  template <class Take>
  void read(std::size_t count, Take take) {
    for (std::size_t got = 0; got < count;) {
      const KvRun& run = runs_[run_];
      const std::size_t first = in_run_, n = advance(count - got);
      take(run, first, n);
      got += n;
    }
    position_ += count;
  }

 private:
  // Moves on by at most `count` tokens, inside one run; returns by how many.
  std::size_t advance(std::size_t count) {
    const std::size_t n = std::min<std::size_t>(count, runs_[run_].tokens - in_run_);
    in_run_ += n;
    if (in_run_ == runs_[run_].tokens) ++run_, in_run_ = 0;
    return n;
  }

  std::span<const KvRun> runs_;
  std::size_t run_ = 0, in_run_ = 0, position_ = 0;
};

class Panels {
 public:
  // `width`: numbers of a packed value; `value_dim`: of a stored one. `pairs`: panels are packed in
  // pairs; all runs must be bf16, head_dim even, and panels packed.
  Panels(std::span<const KvRun> runs, std::size_t head_dim, std::size_t width, std::size_t value_dim,
         bool pairs = false)
      : reader_(runs),
        tokens_(count_tokens(runs)),
        head_dim_(head_dim),
        width_(width),
        value_dim_(value_dim),
        pairs_(pairs) {}

  std::size_t tokens() const { return tokens_; }
  std::size_t panels() const { return (tokens_ + kPanel - 1) / kPanel; }
  std::size_t slot_floats() const { return key_floats() + (pairs_ ? kPanel / 2 : kPanel) * width_; }

  // Exactly one of these is called before the first panel(): pack_all packs all panels into
  // panels() slots; pack_on_demand packs each panel's keys into the one slot when it is read; the
  // third packs only what must be widened. Slots are cache-line aligned, slot_floats() each;
  // `wide_keys` has memory for the keys of one panel, kPanel * head_dim floats.
  void pack_all(float* wide_keys, float* slots) {
    wide_keys_ = wide_keys;
    slots_ = slots;
    for (std::size_t i = 0; i < panels(); ++i) {
      find_rows(i, slots + i * slot_floats());
      pack_keys(slots + i * slot_floats());
      pack_values(slots + i * slot_floats() + key_floats());
    }
    packing_ = Packing::done;
  }
  // `values`: packs values too, even if they could be read in place, a stride apart.
  void pack_on_demand(float* wide_keys, float* slot, bool values = false) {
    wide_keys_ = wide_keys;
    slots_ = slot;
    packs_values_ = values || width_ != value_dim_ || pairs_;
    packing_ = Packing::on_demand;
  }
  void leave_in_place(float* wide_keys, float* slot, bool rounds) {
    rounds_ = rounds;
    wide_keys_ = wide_keys;
    slots_ = slot;
    packing_ = Packing::none;
  }

  // Returns a panel, valid until the next call. Unless all are packed, panels must be read in
  // ascending order.
  const Panel& panel(std::size_t index) {
    if (packing_ == Packing::done) {
      panel_.keys = slots_ + index * slot_floats();
      panel_.values = panel_.keys + key_floats();
      return panel_;
    }
    find_rows(index, slots_);
    if (packing_ == Packing::on_demand) pack_keys(slots_);
    if (packing_ == Packing::on_demand && packs_values_) pack_values(slots_ + key_floats());
    return panel_;
  }

  // For panels that are packed one by one: records the cache lines of the next panel's rows, a
  // share of which is prefetched into the second-level cache during work on the current one.
  // Otherwise packing would wait for memory.
  void note_next(std::size_t index) {
    ahead_count_ = 0;
    if (packing_ != Packing::on_demand || index >= panels()) return;
    TokenReader next = reader_;
    next.read(std::min(kPanel, tokens_ - index * kPanel), [&](const KvRun& run, std::size_t from,
                                                              std::size_t tokens) {
      const std::size_t value_bytes = run.format == KvFormat::f32 ? sizeof(float) : sizeof(std::uint16_t);
      const auto note = [&](const void* rows, std::size_t stride, std::size_t numbers) {
        for (std::size_t t = from; t < from + tokens; ++t) {
          const char* const row = static_cast<const char*>(rows) + t * stride * value_bytes;
          for (std::size_t byte = 0; byte < numbers * value_bytes; byte += kLineBytes)
            ahead_[ahead_count_++] = row + byte;
        }
      };
      note(run.keys, run.stride, head_dim_);
      note(run.values, run.stride_of_values(), value_dim_);
    });
  }
  std::span<const char* const> ahead(std::size_t step, std::size_t steps) const {
    const std::size_t begin = ahead_count_ * step / steps;
    return {ahead_ + begin, ahead_count_ * (step + 1) / steps - begin};
  }

 private:
  static constexpr std::size_t kLineBytes = 64;

  enum class Packing { none, on_demand, done };

  std::size_t key_floats() const { return kPanel * head_dim_ / (pairs_ ? 2 : 1); }

  // Values that must be widened go to their part of `slot`: they need no packing then.
  void find_rows(std::size_t index, float* slot) {
    const std::size_t first = index * kPanel, count = std::min(kPanel, tokens_ - first);
    float* const wide_values = slot + key_floats();
    std::size_t at = 0;
    reader_.skip_to(first);
    reader_.read(count, [&](const KvRun& run, std::size_t from, std::size_t tokens) HWY_ATTR {
      if (pairs_)
        point_to_pairs(run, from, tokens, at);
      else if (run.format == KvFormat::f32)
        point_to_rows(run, from, tokens, at);
      else if (run.format == KvFormat::f16)
        widen_rows<KvFormat::f16>(run, from, tokens, at, wide_values);
      else
        widen_rows<KvFormat::bf16>(run, from, tokens, at, wide_values);
      if (run.cosines != nullptr && !pairs_) rotate_rows(run, at, at + tokens);
      at += tokens;
    });
    std::fill(panel_.key_rows + count, panel_.key_rows + kPanel, kZeros);
    std::fill(panel_.value_rows + count, panel_.value_rows + kPanel, kZeros);
  }

  void point_to_rows(const KvRun& run, std::size_t from, std::size_t tokens, std::size_t at) {
    const float* key = static_cast<const float*>(run.keys) + from * run.stride;
    const std::size_t value_stride = run.stride_of_values();
    const float* value = static_cast<const float*>(run.values) + from * value_stride;
    for (const std::size_t end = at + tokens; at < end; ++at, key += run.stride, value += value_stride) {
      panel_.key_rows[at] = key;
      panel_.value_rows[at] = value;
    }
  }

  // Rows of numbers in bf16 stay as they are. Rotated keys are rounded to bf16 once more.
  void point_to_pairs(const KvRun& run, std::size_t from, std::size_t tokens, std::size_t at) {
    const auto* key = static_cast<const std::uint16_t*>(run.keys) + from * run.stride;
    const std::size_t value_stride = run.stride_of_values();
    const auto* value = static_cast<const std::uint16_t*>(run.values) + from * value_stride;
    for (const std::size_t end = at + tokens; at < end; ++at, key += run.stride, value += value_stride) {
      panel_.key_rows[at] = reinterpret_cast<const float*>(key);
      panel_.value_rows[at] = reinterpret_cast<const float*>(value);
      if (run.cosines == nullptr) continue;
      float* const wide_key = wide_keys_ + at * head_dim_;
      widen_row<KvFormat::bf16>(key, head_dim_, wide_key);
      panel_.key_rows[at] = wide_key;
      rotate_rows(run, at, at + 1);
      narrow_row(wide_key, head_dim_, reinterpret_cast<std::uint16_t*>(wide_key));
    }
  }

  template <KvFormat kFormat>
  void widen_rows(const KvRun& run, std::size_t from, std::size_t tokens, std::size_t at,
                  float* wide_values) {
    const auto* key = static_cast<const std::uint16_t*>(run.keys) + from * run.stride;
    const std::size_t value_stride = run.stride_of_values();
    const auto* value = static_cast<const std::uint16_t*>(run.values) + from * value_stride;
    for (const std::size_t end = at + tokens; at < end; ++at, key += run.stride, value += value_stride) {
      float *const wide_key = wide_keys_ + at * head_dim_, *const wide_value = wide_values + at * width_;
      widen_row<kFormat>(key, head_dim_, wide_key);
      widen_row<kFormat>(value, value_dim_, wide_value);
      panel_.key_rows[at] = wide_key;
      panel_.value_rows[at] = wide_value;
    }
  }

  // Rotated keys are widened keys, or become such.
  void rotate_rows(const KvRun& run, std::size_t at, std::size_t end) {
    const std::size_t half = head_dim_ / 2;
    for (; at < end; ++at) {
      const float* const from = panel_.key_rows[at];
      float* const to = wide_keys_ + at * head_dim_;
      for (std::size_t i = 0; i < half; ++i) {
        const float first = from[i], second = from[half + i];
        to[i] = first * run.cosines[i] - second * run.sines[i];
        to[half + i] = second * run.cosines[i] + first * run.sines[i];
      }
#if TROUPE_PAIR_TARGET
      if (rounds_) round_floats(to, head_dim_);
#endif
      panel_.key_rows[at] = to;
    }
  }

  void pack_keys(float* to) {
    panel_.keys = to;
#if TROUPE_PAIR_TARGET
    if (pairs_) return transpose<true>(panel_.key_rows, kPanel, head_dim_ / 2, to, kPanel);
#endif
    transpose(panel_.key_rows, kPanel, head_dim_, to, kPanel);
  }

  // Pads rows to whole vectors.
  void pack_values(float* to) {
    panel_.values = to;
#if TROUPE_PAIR_TARGET
    if (pairs_) return pack_value_pairs(to);
#endif
    for (std::size_t t = 0; t < kPanel; ++t, to += width_) {
      if (panel_.value_rows[t] != to) std::memcpy(to, panel_.value_rows[t], value_dim_ * sizeof(float));
      std::fill(to + value_dim_, to + width_, 0.0f);
    }
  }

#if TROUPE_PAIR_TARGET
  void pack_value_pairs(float* to) {
    for (std::size_t t = 0; t < kPanel; t += 2, to += width_)
      pair_values(reinterpret_cast<const std::uint16_t*>(panel_.value_rows[t]),
                  reinterpret_cast<const std::uint16_t*>(panel_.value_rows[t + 1]), value_dim_, width_, to);
  }
#endif

  TokenReader reader_;
  std::size_t tokens_, head_dim_, width_, value_dim_;
  float *wide_keys_ = nullptr, *slots_ = nullptr;
  Packing packing_ = Packing::none;
  bool pairs_, packs_values_ = false;
  bool rounds_ = false;  // rotated keys that stay in place, to bf16
  Panel panel_;
  const char* ahead_[2 * kPanel * kHeadDimMax * sizeof(float) / kLineBytes];
  std::size_t ahead_count_ = 0;
};

#endif  // TROUPE_VECTOR_TARGET
}  // namespace troupe::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target toggle
