// Tests attention with the policies and formats that attend_test.cc leaves out (SiLU with its bias,
// numbers in two parts, the attention that keys receive) against the CPU's definitions on the same
// numbers.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "kernels/base/float_formats.h"
#include "kernels/cuda/kernels/attend.h"
#include "kernels/cuda/kernels/attend_mass.h"
#include "kernels/cuda/testing/device_test.h"
#include "kernels/operations/attend.h"
#include "kernels/operations/silu_attend.h"

namespace troupe::kernels::cuda {
namespace {
namespace attend_kinds_test {

struct Kind {
  KvFormat format = KvFormat::bf16;
  ScorePolicy softening = ScorePolicy::softmax;
  std::uint32_t head_dim = 32, kv_heads = 1, heads = 1;
  std::uint32_t tile_vectors = 64;
  bool splits = false;  // split lists of keys even if this is predicted to be slower
  bool biased = true;
};

// A group with random numbers; queries, keys and values are rounded to their format.
class KindCase {
 public:
  KindCase(const Kind& kind, std::uint32_t context, const std::vector<std::uint32_t>& segments, unsigned seed)
      : kind_(kind), layout_{1, kind.kv_heads, kind.head_dim, 4, kind.format}, random_(seed) {
    group_.context_tokens = context;
    for (const std::uint32_t length : segments) {
      for (std::uint32_t r = 0; r < length; ++r)
        begin_.push_back(group_.tail_tokens), end_.push_back(group_.tail_tokens + r + 1);
      group_.tail_tokens += length;
    }
    group_.row_end = rows();
    const std::size_t numbers = std::size_t{keys()} * kind.kv_heads * kind.head_dim;
    for (std::vector<float>* all : {&key_, &value_}) *all = drawn(numbers);
    query_ = drawn(std::size_t{rows()} * width());
    draw_bias();
  }

  void check() {
    run();
    const std::vector<float> want = reference(), sizes = reference_sizes(want);
    double worst = 0;
    for (std::size_t i = 0; i < want.size(); ++i) {
      const double share = std::abs(double{out_[i]} - want[i]) / (roundoff() * sizes[i] + 1e-12);
      if (!(share <= worst)) worst = std::isnan(share) ? INFINITY : share;
    }
    CHECK(worst <= 1);
    if (kind_.softening == ScorePolicy::softmax && kind_.format != KvFormat::f32) check_mass();
  }

 private:
  std::uint32_t rows() const { return static_cast<std::uint32_t>(begin_.size()); }
  std::uint32_t keys() const { return group_.context_tokens + group_.tail_tokens; }
  std::uint32_t width() const { return kind_.kv_heads * kind_.heads * kind_.head_dim; }
  std::uint32_t parts() const { return kind_.format == KvFormat::f32 ? 2 : 1; }
  float scale() const { return 1 / std::sqrt(float(kind_.head_dim)); }
  // Maximum error of a weight, relative to the sum of absolute values: its rounding, and the error
  // of SiLU or of the powers.
  double roundoff() const {
    return kind_.format == KvFormat::f32 ? 0x1p-17 : kind_.format == KvFormat::f16 ? 0x1p-10 : 0x1p-7;
  }

  float kept(float x) const {
    if (kind_.format == KvFormat::bf16) return from_bf16(to_bf16(x));
    if (kind_.format == KvFormat::f16) return from_f16(to_f16(x));
    const float rounded = from_f16(to_f16(x));
    return rounded + from_f16(to_f16(x - rounded));
  }
  std::vector<float> drawn(std::size_t count) {
    std::vector<float> numbers(count);
    for (float& x : numbers) x = kept(std::normal_distribution<float>()(random_));
    return numbers;
  }
  // Stores a vector's numbers in the device's format.
  void store(const float* numbers, std::uint16_t* to) const {
    for (std::uint32_t i = 0; i < kind_.head_dim; ++i) {
      to[i] = kind_.format == KvFormat::bf16 ? to_bf16(numbers[i]) : to_f16(numbers[i]);
      if (parts() == 2) to[kind_.head_dim + i] = to_f16(numbers[i] - from_f16(to[i]));
    }
  }

  void draw_bias() {
    constexpr std::uint32_t positions = 50, buckets = 9;
    const auto position = [&] { return static_cast<std::int32_t>(random_() % positions); };
    for (std::uint32_t k = 0; k < keys(); ++k) key_positions_.push_back(position());
    for (std::uint32_t r = 0; r < rows(); ++r) {
      row_positions_.push_back(position());
      row_steps_.push_back(static_cast<std::uint32_t>(steps_.size()));
      for (std::uint32_t key = 0; key < keys(); key += 1 + static_cast<std::uint32_t>(random_() % 40))
        steps_.push_back({key, static_cast<std::uint32_t>(random_() % buckets)});
      step_end_.push_back(static_cast<std::uint32_t>(steps_.size()));
      steps_.push_back({~0u, 0});
    }
    const auto weights = [&](std::size_t count) {
      std::vector<float> all(count);
      for (float& x : all) x = std::normal_distribution<float>()(random_);
      return all;
    };
    by_distance_ = weights(2 * positions - 1), by_bucket_ = weights(buckets);
    zero_distance_ = positions - 1;
  }

  void run();
  std::vector<float> reference();
  std::vector<float> reference_sizes(const std::vector<float>& want);
  std::vector<KvRun> runs(const std::vector<float>& values, std::uint32_t head) const;
  void check_mass();

  const Kind kind_;
  const KvLayout layout_;
  std::mt19937 random_;
  AttendGroup group_;
  std::vector<std::uint32_t> begin_, end_;
  std::vector<float> key_, value_, query_, out_, mass_;  // keys and values: [token][head][number]
  std::vector<std::int32_t> key_positions_, row_positions_;
  std::vector<std::uint32_t> row_steps_, step_end_;
  std::vector<BucketStep> steps_;
  std::vector<float> by_distance_, by_bucket_;
  std::uint32_t zero_distance_ = 0;
};

void KindCase::run() {
  Stream stream;
  AttendMachine machine = attend_machine(layout_, kind_.kv_heads * kind_.heads, device_properties(0),
                                         AttendPath::by_device, kind_.softening);
  (kind_.tile_vectors == 64 ? machine.large : machine.small) = {};
  if (kind_.splits) machine.multiprocessors = 64, machine.launch_cycles = machine.block_cycles = 0;
  AttendPlan plan;
  plan_attention(machine, {&group_, 1}, begin_, end_, plan);
  CHECK((plan.partials > 0) == kind_.splits);
  const std::size_t vector = layout_.vector_bytes() / 2;
  std::vector<std::uint16_t> pool(layout_.pages_for(keys()) * layout_.page_bytes() / 2, 0xffff);
  std::vector<std::uint16_t> queries(query_.size() * parts());
  const DeviceCopy<std::uint16_t> on_device(pool);
  std::vector<const std::byte*> addresses;
  for (std::uint32_t t = 0; t < keys(); ++t) {
    const std::size_t at = t / 4 * layout_.page_bytes() + t % 4 * layout_.vector_bytes();
    addresses.push_back(reinterpret_cast<const std::byte*>(on_device.get()) + at);
    for (std::uint32_t h = 0; h < kind_.kv_heads; ++h) {
      const std::size_t from = (std::size_t{t} * kind_.kv_heads + h) * kind_.head_dim;
      store(&key_[from], &pool[(at + layout_.keys(0, h)) / 2]);
      store(&value_[from], &pool[(at + layout_.values(0, h)) / 2]);
    }
  }
  for (std::size_t v = 0; v < query_.size() / kind_.head_dim; ++v)
    store(&query_[v * kind_.head_dim], &queries[v * vector]);
  stream.upload(on_device.get(), pool.data(), pool.size() * 2);
  const DeviceCopy<const std::byte*> places(addresses);
  const DeviceCopy<std::uint16_t> device_queries(queries);
  const DeviceCopy<AttendItem> items(plan.items);
  const DeviceCopy<KeyTile> tiles(plan.key_tiles);
  const DeviceCopy<AttendMerge> merges(plan.merges);
  const DeviceCopy<std::uint32_t> begin(begin_), end(end_), row_steps(row_steps_);
  const DeviceCopy<std::int32_t> key_positions(key_positions_), row_positions(row_positions_);
  const DeviceCopy<BucketStep> steps(steps_);
  const DeviceCopy<float> by_distance(by_distance_), by_bucket(by_bucket_);
  const DeviceCopy<float> out(std::vector<float>(query_.size(), NAN));
  const DeviceCopy<float> stats(std::vector<float>(2 * query_.size() / kind_.head_dim, NAN));
  const DeviceMemory partials(attend_partial_bytes(layout_, plan.partials, plan.tile_vectors));
  const AttendPass pass{.addresses = places.get(),
                        .items = items.get(),
                        .key_tiles = tiles.get(),
                        .merges = merges.get(),
                        .visible_begin = begin.get(),
                        .visible_end = end.get(),
                        .partials = partials.as<float>(),
                        .item_count = static_cast<std::uint32_t>(plan.items.size()),
                        .merge_count = static_cast<std::uint32_t>(plan.merges.size()),
                        .tile_vectors = plan.tile_vectors,
                        .bias = {key_positions.get(), row_positions.get(), row_steps.get(), steps.get()}};
  AttendLayer layer{.queries = device_queries.get(),
                    .query_stride = std::size_t{width()} * parts(),
                    .out_stride = width(),
                    .heads = kind_.heads,
                    .scale = scale(),
                    .queries_as_keys = true,
                    .out_f32 = out.get(),
                    .softening = kind_.softening,
                    .factor = 1.0f / 50};
  if (kind_.biased) layer.by_distance = by_distance.get() + zero_distance_, layer.by_bucket = by_bucket.get();
  if (kind_.softening == ScorePolicy::softmax) layer.stats = stats.get();
  attend(layout_, pass, layer, stream);
  out_ = out.host(stream);
  if (layer.stats == nullptr || kind_.format == KvFormat::f32) return;
  std::vector<MassTile> mass_tiles;
  for (std::uint32_t first = 0; first < keys(); first += attend_key_tile)
    mass_tiles.push_back(
        {rows() / 3, rows(), 0, group_.context_tokens, first, std::min(attend_key_tile, keys() - first)});
  const DeviceCopy<MassTile> device_tiles(mass_tiles);
  const DeviceCopy<float> mass(std::vector<float>(mass_tiles.size() * kind_.kv_heads * attend_key_tile, NAN));
  attend_mass(layout_, pass, layer, device_tiles.get(), static_cast<std::uint32_t>(mass_tiles.size()),
              mass.get(), stream);
  mass_ = mass.host(stream);
}

std::vector<KvRun> KindCase::runs(const std::vector<float>& values, std::uint32_t head) const {
  std::vector<KvRun> all;
  for (std::uint32_t t = 0; t < keys(); ++t) {
    const std::size_t at = (std::size_t{t} * kind_.kv_heads + head) * kind_.head_dim;
    all.push_back({&key_[at], &values[at], 1, 0, KvFormat::f32});
  }
  return all;
}

std::vector<float> KindCase::reference() {
  std::vector<float> out(query_.size());
  AttendScratch scratch;
  for (std::uint32_t h = 0; h < kind_.kv_heads * kind_.heads; ++h) {
    const std::vector<KvRun> all = runs(value_, h / kind_.heads);
    const std::span context(all.data(), group_.context_tokens),
        tail(all.data() + group_.context_tokens, group_.tail_tokens);
    const std::size_t at = std::size_t{h} * kind_.head_dim;
    if (kind_.softening == ScorePolicy::softmax) {
      attend_reference({&query_[at], &out[at], width(), width(), rows(), 1, kind_.head_dim, scale(), context,
                        tail, begin_, end_},
                       scratch);
      continue;
    }
    SiluAttendTask task{.queries = &query_[at],
                        .out = &out[at],
                        .query_stride = width(),
                        .out_stride = width(),
                        .rows = rows(),
                        .head_dim = kind_.head_dim,
                        .scale = scale(),
                        .factor = 1.0f / 50,
                        .context = context,
                        .tail = tail};
    task.tail_begin = begin_, task.tail_end = end_;
    if (kind_.biased)
      task.bias = {by_distance_.data() + zero_distance_,
                   by_bucket_,
                   row_positions_,
                   key_positions_,
                   steps_,
                   row_steps_,
                   step_end_};
    silu_attend_reference(task, scratch);
  }
  return out;
}

// Returns the magnitudes that errors are relative to: the largest result, at least 0.1.
std::vector<float> KindCase::reference_sizes(const std::vector<float>& want) {
  float largest = 0;
  for (const float x : want) largest = std::max(largest, std::abs(x));
  return std::vector<float>(want.size(), std::max(largest, 0.1f));
}

void KindCase::check_mass() {
  std::vector<float> want(keys(), 0), dropped(query_.size());
  AttendScratch scratch;
  for (std::uint32_t h = 0; h < kind_.kv_heads * kind_.heads; ++h) {
    const std::vector<KvRun> all = runs(value_, h / kind_.heads);
    AttendTask task{&query_[std::size_t{h} * kind_.head_dim],
                    &dropped[std::size_t{h} * kind_.head_dim],
                    width(),
                    width(),
                    rows(),
                    1,
                    kind_.head_dim,
                    scale()};
    task.context = std::span(all).first(group_.context_tokens),
    task.tail = std::span(all).subspan(group_.context_tokens);
    task.tail_begin = begin_, task.tail_end = end_;
    task.mass = want.data(), task.mass_from = rows() / 3;
    attend_reference(task, scratch);
  }
  for (std::uint32_t key = 0; key < keys(); ++key) {
    float sum = 0;
    for (std::uint32_t h = 0; h < kind_.kv_heads; ++h)
      sum += mass_[(key / attend_key_tile * kind_.kv_heads + h) * attend_key_tile + key % attend_key_tile];
    REQUIRE(std::abs(sum - want[key]) <= 1e-4 * (1 + want[key]));
  }
}

// Returns whether the device has enough shared memory for the case.
bool fits(const Kind& kind) {
  return kind.format != KvFormat::f32 || kind.head_dim < 128 ||
         device_properties(0).block_shared_bytes_max >= 163 * 1024;
}

void check_kinds(ScorePolicy softening, KvFormat format) {
  unsigned seed = 1;
  for (const std::uint32_t head_dim : {32, 64, 128})
    for (const bool splits : {false, true}) {
      const Kind kind{.format = format,
                      .softening = softening,
                      .head_dim = head_dim,
                      .kv_heads = 2,
                      .heads = softening == ScorePolicy::silu ? 1u : 3u,
                      .splits = splits,
                      .biased = seed % 3 != 0};
      CAPTURE(head_dim);
      CAPTURE(splits);
      ++seed;
      if (!fits(kind)) continue;
      if (splits)
        KindCase(kind, 560, {2}, seed).check();
      else
        KindCase(kind, 37, {5, 70, 7}, seed).check();
    }
}

}  // namespace attend_kinds_test
}  // namespace

TEST_SUITE("cuda attention") {
  using namespace attend_kinds_test;

  TEST_CASE("attention: SiLU with its bias agrees with the definition, whole and split, in every format") {
    if (!have_device()) return;
    for (const KvFormat format : {KvFormat::bf16, KvFormat::f16, KvFormat::f32}) {
      CAPTURE(int(format));
      check_kinds(ScorePolicy::silu, format);
    }
  }

  TEST_CASE(
      "attention: softmax of numbers in two parts has float32's accuracy, and mass equals the definition") {
    if (!have_device()) return;
    for (const KvFormat format : {KvFormat::bf16, KvFormat::f16, KvFormat::f32}) {
      CAPTURE(int(format));
      check_kinds(ScorePolicy::softmax, format);
    }
  }

  TEST_CASE(
      "attention: SiLU with 128 query vectors agrees with the definition, if the device has such tiles") {
    if (!have_device()) return;
    if (attend_machine({1, 1, 128, 4, KvFormat::bf16}, 1, device_properties(0), AttendPath::by_device,
                       ScorePolicy::silu)
            .large.vectors == 0)
      return;
    for (const std::uint32_t head_dim : {64, 128})
      KindCase({.softening = ScorePolicy::silu, .head_dim = head_dim, .kv_heads = 2, .tile_vectors = 128}, 70,
               {150, 3}, 9)
          .check();
  }
}

}  // namespace troupe::kernels::cuda
