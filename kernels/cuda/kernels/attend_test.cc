#include "kernels/cuda/kernels/attend.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "kernels/base/float_formats.h"
#include "kernels/cuda/testing/device_test.h"
#include "kernels/operations/attend.h"

#ifdef TROUPE_EMULATED
#include "kernels/cuda/simt/device_emulated.h"
#include "kernels/cuda/simt/emulator.h"
#endif

using namespace troupe::kernels;
using cuda::AttendGroup;
using cuda::AttendMachine;
using cuda::AttendPath;
using cuda::AttendPlan;
using cuda::DeviceCopy;

namespace {

constexpr std::uint16_t kPoison = 0xffff;  // NaN in both formats

struct Shape {
  std::uint32_t head_dim = 32, kv_heads = 1, heads = 1, page_tokens = 4;
  KvFormat format = KvFormat::bf16;
  cuda::HalfFormat out = cuda::HalfFormat::bf16;
  std::uint32_t multiprocessors = 1;
  AttendPath path = AttendPath::mma;
  std::uint32_t tile_vectors = 0;  // 0: as planned
  bool splits_are_free = false;    // otherwise a split pays for its second launch
  std::uint32_t blocks_max = ~0u;  // of a kernel whose blocks compute several items
};

// A pass over pages in scattered order, with poison in all unused memory.
class Case {
 public:
  Case(const Shape& shape, unsigned seed)
      : shape_(shape),
        layout_{2, shape.kv_heads, shape.head_dim, shape.page_tokens, shape.format},
        random_(seed) {}

  // Adds segments in one group, each causal in itself.
  void add_group(std::uint32_t context, const std::vector<std::uint32_t>& segments) {
    AttendGroup group{rows(), 0, std::uint32_t(slots_.size()), context, 0};
    for (const std::uint32_t length : segments) {
      for (std::uint32_t r = 0; r < length; ++r)
        begin.push_back(group.tail_tokens), end.push_back(group.tail_tokens + r + 1);
      group.tail_tokens += length;
    }
    group.row_end = rows();
    slots_.resize(slots_.size() + context + group.tail_tokens);
    groups.push_back(group);
  }

  // Assigns slots to all tokens and draws all numbers; call it after adding the groups.
  void fill() {
    std::vector<std::uint32_t> all(slots_.size() + 7 * shape_.page_tokens);
    for (std::uint32_t i = 0; i < all.size(); ++i) all[i] = i;
    std::shuffle(all.begin(), all.end(), random_);
    std::copy_n(all.begin(), slots_.size(), slots_.begin());
    pool.assign(layout_.pages_for(all.size()) * layout_.page_bytes() / 2, kPoison);
    for (std::size_t token = 0; token < slots_.size(); ++token)
      for (std::uint32_t head = 0; head < shape_.kv_heads; ++head)
        for (std::uint32_t i = 0; i < shape_.head_dim; ++i) {
          key(token, head)[i] = stored(normal());
          value(token, head)[i] = stored(normal());
        }
    queries.assign(rows() * stride(), kPoison);
    for (std::uint32_t row = 0; row < rows(); ++row)
      for (std::uint32_t i = 0; i < width(); ++i) queries[row * stride() + i] = to_bf16(normal());
  }

  std::uint16_t* key(std::size_t token, std::uint32_t head) {
    return &pool[(offset(token) + layout_.keys(layer, head)) / 2];
  }
  std::uint16_t* value(std::size_t token, std::uint32_t head) {
    return &pool[(offset(token) + layout_.values(layer, head)) / 2];
  }
  std::uint16_t stored(float x) const { return shape_.format == KvFormat::f16 ? to_f16(x) : to_bf16(x); }

  AttendMachine machine() const;
  std::vector<std::uint16_t> run();
  // Returns the reference on the same numbers, or, if `sizes`, on the absolute values.
  std::vector<float> reference(bool sizes);
  void check(std::vector<std::uint16_t> got);

  std::uint32_t rows() const { return std::uint32_t(begin.size()); }
  std::uint32_t width() const { return shape_.kv_heads * shape_.heads * shape_.head_dim; }
  std::size_t stride() const { return width() + 8; }
  float scale() const { return 1 / std::sqrt(float(shape_.head_dim)); }

  static constexpr std::uint32_t layer = 1;
  std::vector<AttendGroup> groups;
  std::vector<std::uint32_t> begin, end;
  std::vector<std::uint16_t> pool, queries;
  AttendPlan plan;

 private:
  float normal() { return std::normal_distribution<float>()(random_); }
  std::size_t offset(std::size_t token) const {
    const std::uint32_t slot = slots_[token];
    return slot / shape_.page_tokens * layout_.page_bytes() +
           slot % shape_.page_tokens * layout_.vector_bytes();
  }

  Shape shape_;
  KvLayout layout_;
  std::mt19937 random_;
  std::vector<std::uint32_t> slots_;  // slot of each token, in tokens of the pool
};

AttendMachine Case::machine() const {
  AttendMachine machine =
      cuda::attend_machine(layout_, shape_.kv_heads * shape_.heads, cuda::device_properties(0), shape_.path);
  machine.multiprocessors = shape_.multiprocessors;
  if (shape_.splits_are_free) machine.launch_cycles = machine.block_cycles = 0;
  if (shape_.tile_vectors == 64) machine.large = {};
  if (shape_.tile_vectors == 128) machine.small = {};
  return machine;
}

std::vector<std::uint16_t> Case::run() {
  cuda::Stream stream;
  plan_attention(machine(), groups, begin, end, plan);
  const DeviceCopy<std::uint16_t> device_pool(pool), device_queries(queries);
  const DeviceCopy<std::uint16_t> out(std::vector<std::uint16_t>(queries.size(), kPoison));
  std::vector<const std::byte*> addresses;
  for (std::size_t token = 0; token < slots_.size(); ++token)
    addresses.push_back(reinterpret_cast<const std::byte*>(device_pool.get()) + offset(token));
  const DeviceCopy<const std::byte*> device_addresses(addresses);
  plan.items.emplace_back();  // idle padding
  const DeviceCopy<cuda::AttendItem> items(plan.items);
  const DeviceCopy<cuda::KeyTile> tiles(plan.key_tiles);
  const DeviceCopy<cuda::AttendMerge> merges(plan.merges);
  const DeviceCopy<std::uint32_t> device_begin(begin), device_end(end);
  const cuda::DeviceMemory partials(cuda::attend_partial_bytes(layout_, plan.partials, plan.tile_vectors));
  attend(layout_,
         {device_addresses.get(), items.get(), tiles.get(), merges.get(), device_begin.get(),
          device_end.get(), partials.as<float>(), std::uint32_t(plan.items.size()),
          std::uint32_t(plan.merges.size()), plan.tile_vectors, shape_.path, shape_.blocks_max},
         {device_queries.get(), out.get(), stride(), stride(), layer, shape_.heads, shape_.out, scale()},
         stream);
  return out.host(stream);
}

std::vector<float> Case::reference(bool sizes) {
  std::vector<float> wide(queries.size()), out(queries.size());
  for (std::size_t i = 0; i < wide.size(); ++i) wide[i] = from_bf16(queries[i]);
  std::vector<std::uint16_t> kept = pool;
  if (sizes)
    for (std::size_t token = 0; token < slots_.size(); ++token)
      for (std::uint32_t head = 0; head < shape_.kv_heads; ++head)
        for (std::uint32_t i = 0; i < shape_.head_dim; ++i) value(token, head)[i] &= 0x7fff;
  AttendScratch scratch;
  for (const AttendGroup& group : groups)
    for (std::uint32_t head = 0; head < shape_.kv_heads; ++head) {
      std::vector<KvRun> runs;
      for (std::uint32_t t = 0; t < group.context_tokens + group.tail_tokens; ++t)
        runs.push_back(
            {key(group.key_begin + t, head), value(group.key_begin + t, head), 1, 0, shape_.format});
      const std::span all(runs);
      const std::size_t at = group.row_begin * stride() + head * shape_.heads * shape_.head_dim;
      const std::uint32_t rows = group.row_end - group.row_begin;
      attend_reference(
          {&wide[at], &out[at], stride(), stride(), rows, shape_.heads, shape_.head_dim, scale(),
           all.first(group.context_tokens), all.subspan(group.context_tokens),
           std::span(begin).subspan(group.row_begin, rows), std::span(end).subspan(group.row_begin, rows)},
          scratch);
    }
  pool = kept;
  return out;
}

// Checks results against the reference. Weights are rounded to the keys' format (unit roundoff 2^-8
// or 2^-11) before they multiply values; f16 weights below 2^-14 of the largest are rounded to
// steps of 2^-24; outputs are rounded to their format, those of f16 below 2^-14 to steps of 2^-24.
// The float32 errors of the scores of such numbers are small: 2^-14 of a weight is ample.
void Case::check(std::vector<std::uint16_t> got) {
  const std::vector<float> want = reference(false), sizes = reference(true);
  const bool f16 = shape_.format == KvFormat::f16;
  const double weight = std::ldexp(1, f16 ? -11 : -8) + std::ldexp(1, -14),
               rounded = std::ldexp(1, shape_.out == cuda::HalfFormat::f16 ? -11 : -8);
  const double half_step = std::ldexp(1, -25);
  const double steps = f16 ? 5 * half_step * double(slots_.size()) : half_step;
  double worst = 0;
  for (std::uint32_t row = 0; row < rows(); ++row) {
    for (std::size_t i = row * stride(); i < row * stride() + width(); ++i) {
      const double bound = weight * sizes[i] + rounded * std::abs(want[i]) + steps + 1e-30;
      const float number = shape_.out == cuda::HalfFormat::f16 ? from_f16(got[i]) : from_bf16(got[i]);
      const double share = std::abs(double(number) - want[i]) / bound;
      if (!(share <= worst)) worst = std::isnan(share) ? INFINITY : share;
    }
    for (std::size_t i = row * stride() + width(); i < (row + 1) * stride(); ++i) REQUIRE(got[i] == kPoison);
  }
  CHECK(worst <= 1);
}

// Returns the paths that this machine can run; each is compared with the reference. The emulator
// runs mma.sync with the profiles of other devices.
std::vector<AttendPath> paths() {
  if (!cuda::have_device()) return {};
#ifdef TROUPE_EMULATED
  return {cuda::device_capability() == 90 ? AttendPath::hopper : AttendPath::mma};
#endif
  if (cuda::device_capability() == 90) return {AttendPath::mma, AttendPath::hopper};
  MESSAGE("skipped: the path of sm_90a, on a device of capability ", cuda::device_capability());
  return {AttendPath::mma};
}

// Returns the smallest head size with a version on this path.
std::uint32_t smallest(AttendPath path) { return path == AttendPath::mma ? 32 : 64; }

constexpr KvFormat kFormats[] = {KvFormat::bf16, KvFormat::f16};

void check_case(const Shape& shape, std::uint32_t context, const std::vector<std::uint32_t>& segments,
                unsigned seed) {
  Case c(shape, seed);
  c.add_group(context, segments);
  c.fill();
  c.check(c.run());
}

}  // namespace

TEST_SUITE("cuda attention") {
  TEST_CASE(
      "attention: it agrees with the reference for every head size and number of heads that share keys") {
    for (const AttendPath path : paths()) {
      CAPTURE(int(path));
      for (const KvFormat format : kFormats)
        for (const std::uint32_t head_dim : {32, 64, 128})
          for (const std::uint32_t heads : {1, 2, 7, 8}) {
            CAPTURE(head_dim);
            CAPTURE(heads);
            check_case({.head_dim = head_dim,
                        .kv_heads = 2,
                        .heads = heads,
                        .format = format,
                        .out = heads % 2 == 0 ? cuda::HalfFormat::f16 : cuda::HalfFormat::bf16,
                        .path = path,
                        .tile_vectors = 64},
                       37, {5, 3, 7}, heads);
          }
    }
  }

  TEST_CASE("attention: it agrees with the reference for numbers of keys and rows around the tile sizes") {
    for (const AttendPath path : paths()) {
      CAPTURE(int(path));
      for (const std::uint32_t keys : {0, 1, 7, 8, 63, 64, 65, 127, 128, 129, 200})
        for (const std::uint32_t rows : {1, 16, 17, 65}) {
          CAPTURE(keys);
          CAPTURE(rows);
          check_case({.head_dim = smallest(path),
                      .multiprocessors = rows < 20 ? 100u : 1u,
                      .path = path,
                      .tile_vectors = rows % 2 == 0 ? 128u : 64u},
                     keys, {rows}, keys + rows);
        }
    }
  }

  TEST_CASE("attention: large query tiles agree with the reference on every device") {
    for (const AttendPath path : paths()) {
      CAPTURE(int(path));
      for (const KvFormat format : kFormats)
        for (const std::uint32_t head_dim : {32, 64, 128}) {
          CAPTURE(head_dim);
          Case c({.head_dim = head_dim, .heads = 3, .format = format, .path = path, .tile_vectors = 128},
                 head_dim);
          c.add_group(70, {30, 70});
          c.fill();
          c.check(c.run());
          CHECK(c.plan.tile_vectors == 128);
        }
    }
  }

  TEST_CASE("attention: a long context split among blocks is merged to the same result") {
    for (const AttendPath path : paths()) {
      CAPTURE(int(path));
      for (const std::uint32_t head_dim : {32, 64, 128}) {
        CAPTURE(head_dim);
        Case c({.head_dim = head_dim,
                .kv_heads = 2,
                .heads = 4,
                .out = head_dim == 64 ? cuda::HalfFormat::f16 : cuda::HalfFormat::bf16,
                .multiprocessors = 16,
                .path = path},
               head_dim);
        c.add_group(1300, {1});
        c.add_group(3, {2});
        c.fill();
        c.check(c.run());
        CHECK(c.plan.merges.size() == 1);
        CHECK(c.plan.partials > 2);
      }
    }
  }

  TEST_CASE("attention: one block walks more tiles than it keeps in flight") {
    for (const AttendPath path : paths())
      for (const std::uint32_t head_dim : {64, 128})
        for (const std::uint32_t tile : {64, 128}) {
          CAPTURE(int(path));
          CAPTURE(head_dim);
          CAPTURE(tile);
          Case c({.head_dim = head_dim, .path = path, .tile_vectors = tile}, head_dim + tile);
          c.add_group(900, {100});
          c.fill();
          c.check(c.run());
          CHECK(c.plan.tile_vectors == tile);
          CHECK(c.plan.merges.empty());
        }
  }

  TEST_CASE("attention: a block that computes several items, long and short, gives each its own result") {
    for (const AttendPath path : paths())
      for (const std::uint32_t blocks : {2, 5}) {
        if (blocks != 2 && path == AttendPath::mma) continue;  // mma blocks compute one item
        const std::uint32_t head_dim = blocks == 2 ? 64 : 128;
        CAPTURE(int(path));
        CAPTURE(blocks);
        Case c({.head_dim = head_dim,
                .kv_heads = 2,
                .heads = 2,
                .path = path,
                .tile_vectors = 128,
                .blocks_max = blocks},
               head_dim);
        for (const std::uint32_t context : {0, 300, 10, 500, 0, 64, 1, 0}) c.add_group(context, {1, 70});
        c.add_group(0, std::vector<std::uint32_t>(90, 3));
        for (std::uint32_t r = 0; r < 64; ++r) c.begin[r] = c.end[r];  // an item without key tiles
        c.fill();
        c.check(c.run());
        CHECK(c.plan.tile_vectors == 128);
        CHECK(c.plan.items.size() > 12);  // for each of two key-value heads: at least five per block
      }
  }

  TEST_CASE("attention: a row that sees no key is zero, beside rows that see some") {
    for (const AttendPath path : paths()) {
      CAPTURE(int(path));
      Case c({.head_dim = smallest(path), .heads = 2, .path = path}, 3);
      c.add_group(0, {40});
      for (std::uint32_t r = 0; r < c.rows(); r += 3) c.begin[r] = c.end[r] = r % 2 == 0 ? 0 : 40;
      c.fill();
      const std::vector<std::uint16_t> got = c.run();
      c.check(got);
      CHECK(std::all_of(&got[0], &got[c.width()], [](std::uint16_t x) { return x == 0; }));
    }
  }

  TEST_CASE("attention: for scores far apart the largest wins, wherever it is") {
    for (const AttendPath path : paths()) {
      CAPTURE(int(path));
      for (const std::uint32_t winner : {0, 63, 64, 199})
        for (const float size : {30.0f, 1e4f, 1e15f}) {
          CAPTURE(winner);
          CAPTURE(size);
          Case c({.head_dim = smallest(path), .path = path}, 4);
          c.add_group(200, {2});
          c.fill();
          for (std::size_t i = 0; i < 2 * c.stride(); ++i) c.queries[i] = to_bf16(size);
          for (std::uint32_t token = 0; token < 202; ++token)
            std::fill_n(c.key(token, 0), smallest(path), to_bf16(token == winner ? size : -size));
          const std::vector<std::uint16_t> got = c.run();
          for (std::uint32_t i = 0; i < smallest(path); ++i) REQUIRE(got[i] == c.value(winner, 0)[i]);
        }
    }
  }

  TEST_CASE("attention: infinity or NaN in a key or value spoils the rows that see it, and no others") {
    for (const AttendPath path : paths()) {
      CAPTURE(int(path));
      const std::uint32_t context = 20, segment = 4;
      for (const KvFormat format : kFormats)
        for (const float bad : {NAN, INFINITY, -INFINITY})
          for (const bool in_key : {true, false})
            for (const std::uint32_t token : {3u, context, context + 50, context + 95}) {
              CAPTURE(bad);
              CAPTURE(in_key);
              CAPTURE(token);
              Case c({.head_dim = smallest(path), .heads = 2, .format = format, .path = path}, 5);
              c.add_group(context, std::vector<std::uint32_t>(24, segment));
              c.fill();
              const std::vector<std::uint16_t> sound = c.run();
              (in_key ? c.key(token, 0) : c.value(token, 0))[17] = c.stored(bad);
              const std::vector<std::uint16_t> got = c.run();
              for (std::uint32_t row = 0; row < c.rows(); ++row) {
                const bool seen =
                    token < context || (token - context >= c.begin[row] && token - context < c.end[row]);
                const std::size_t at = row * c.stride();
                for (std::uint32_t head = 0; head < 2; ++head) {
                  const auto first = got.begin() + std::ptrdiff_t(at + head * smallest(path));
                  const bool finite = std::all_of(first, first + smallest(path), [](std::uint16_t x) {
                    return std::isfinite(from_bf16(x));
                  });
                  REQUIRE(finite == !seen);
                }
                if (!seen) REQUIRE(std::equal(&got[at], &got[at + c.width()], &sound[at]));
              }
            }
    }
  }

  TEST_CASE("attention: infinity or NaN in a split context spoils all rows, however unlikely its key") {
    for (const AttendPath path : paths()) {
      CAPTURE(int(path));
      for (const float bad : {NAN, INFINITY, -INFINITY})
        for (const bool in_key : {true, false}) {
          Case c({.head_dim = smallest(path), .multiprocessors = 4, .path = path, .splits_are_free = true},
                 6);
          c.add_group(600, {1});
          c.fill();
          for (std::size_t i = 0; i < smallest(path); ++i) c.queries[i] = to_bf16(1);
          std::fill_n(c.key(500, 0), smallest(path), to_bf16(-1e4f));
          (in_key ? c.key(500, 0) : c.value(500, 0))[3] = to_bf16(bad);
          const std::vector<std::uint16_t> got = c.run();
          CHECK(c.plan.partials > 0);
          CHECK(!std::isfinite(from_bf16(got[3])));
        }
    }
  }

  TEST_CASE("attention: any mixture of groups agrees with the reference") {
    for (const AttendPath path : paths()) {
      CAPTURE(int(path));
      for (int round = 0; round < 12; ++round) {
        const unsigned seed = std::random_device{}();
        CAPTURE(seed);
        std::mt19937 draw(seed);
        const auto up_to = [&](std::uint32_t n) { return std::uint32_t(draw() % (n + 1)); };
        Case c({.head_dim = 32u << up_to(2),
                .kv_heads = 1 + up_to(2),
                .heads = 1 + up_to(7),
                .page_tokens = 1 + up_to(7),
                .format = kFormats[up_to(1)],
                .out = up_to(1) == 0 ? cuda::HalfFormat::bf16 : cuda::HalfFormat::f16,
                .multiprocessors = 1 + up_to(20),
                .path = path,
                .tile_vectors = 64 * up_to(2),
                .splits_are_free = up_to(1) == 0,
                .blocks_max = up_to(2) == 0 ? ~0u : 1 + up_to(4)},
               seed);
        for (std::uint32_t groups = 1 + up_to(3); groups > 0; --groups) {
          std::vector<std::uint32_t> segments(1 + up_to(4));
          for (std::uint32_t& length : segments) length = 1 + up_to(20);
          c.add_group(up_to(2) * up_to(200), segments);
        }
        for (std::uint32_t r = 0; r < c.rows(); ++r)
          if (up_to(4) == 0) c.begin[r] = c.end[r] - up_to(c.end[r]);
        c.fill();
        c.check(c.run());
      }
    }
  }

  TEST_CASE("attention: pages without a kernel are refused with what was expected") {
    const KvLayout good{1, 2, 64, 4, KvFormat::bf16};
    CHECK(cuda::attend_fault(good, 8) == "");
    CHECK(cuda::attend_fault(good, 7) == "7 query heads on 2 key-value heads; expected a multiple");
    CHECK(cuda::attend_fault({1, 2, 80, 4, KvFormat::f16}, 8) ==
          "head_dim 80; on a GPU expected 32, 64 or 128");
    CHECK(cuda::attend_fault({1, 2, 64, 4, KvFormat::f32}, 8) == "");
  }

  TEST_CASE(
      "attention: tiles fit the device's shared memory, and a device with too little for any is refused") {
    const auto device = [](unsigned capability, std::size_t block_bytes) {
      return cuda::DeviceProperties{.name = "some GPU",
                                    .capability = capability,
                                    .multiprocessors = 10,
                                    .block_shared_bytes_max = block_bytes,
                                    .multiprocessor_shared_bytes = block_bytes + 1024};
    };
    const auto large_on = [&](unsigned capability, std::uint32_t kib, std::uint32_t head_dim) {
      return cuda::attend_machine({1, 2, head_dim, 4, KvFormat::bf16}, 4, device(capability, kib * 1024))
          .large.vectors;
    };
    for (const std::uint32_t head_dim : {32, 64, 128})
      for (const auto& [capability, kib] :
           {std::pair{80u, 163u}, {86u, 99u}, {89u, 99u}, {90u, 227u}, {120u, 99u}}) {
        CAPTURE(head_dim);
        CAPTURE(capability);
        CHECK(large_on(capability, kib, head_dim) == 128);
      }
    CHECK(large_on(86, 98, 128) == 0);
    CHECK(large_on(86, 98, 64) == 128);
    CHECK(cuda::attend_machine({1, 2, 128, 4, KvFormat::f16}, 4, device(86, 98 * 1024)).small.vectors == 64);
    CHECK_THROWS_WITH_AS(
        cuda::attend_machine({1, 2, 128, 4, KvFormat::bf16}, 4, device(75, 64 * 1024)),
        "attend: some GPU gives a block 65536 bytes of shared memory; for head_dim 128 expected 84480",
        cuda::DeviceError);
  }

#ifdef TROUPE_EMULATED
  TEST_CASE(
      "attention: on a device with less shared memory per block, passes of all sizes run in the tiles that "
      "fit") {
    cuda::DeviceProperties device = cuda::emulator::profile(86);
    device.block_shared_bytes_max -= 1024;
    const cuda::emulator::Emulated emulated(device);
    Case c({.head_dim = 128, .heads = 4}, 8);
    c.add_group(130, {100});
    c.fill();
    c.check(c.run());
    CHECK(c.plan.tile_vectors == 64);
  }

  TEST_CASE("attention: blocks_max is kept, so that each block computes several items") {
    if (cuda::device_capability() != 90) return;
    const auto before = cuda::emulator::counts();
    Case c({.head_dim = 64, .kv_heads = 2, .path = AttendPath::hopper, .tile_vectors = 128, .blocks_max = 3},
           9);
    c.add_group(0, {600});
    c.fill();
    c.check(c.run());
    CHECK(c.plan.items.size() * 2 > 9);
    CHECK(cuda::emulator::counts().blocks - before.blocks == 3);
  }

  TEST_CASE("attention: matrix loads never conflict at the banks of shared memory") {
    for (const AttendPath path : paths())
      for (const std::uint32_t head_dim : {32, 64, 128}) {
        const auto before = cuda::emulator::counts();
        check_case({.head_dim = head_dim, .heads = 2, .path = path}, 100, {20}, head_dim);
        CHECK(cuda::emulator::counts().matrix_loads > before.matrix_loads);
        CHECK(cuda::emulator::counts().bank_conflicts == before.bank_conflicts);
      }
  }

  TEST_CASE("attention: on sm_90a all products are warpgroup products of depth 16") {
    if (cuda::device_capability() != 90) return;
    for (const std::uint32_t head_dim : {64, 128})
      for (const bool by_device : {false, true}) {
        const auto before = cuda::emulator::counts();
        Case c({.head_dim = head_dim, .path = by_device ? AttendPath::by_device : AttendPath::hopper}, 7);
        c.add_group(300, {100});
        c.fill();
        c.run();
        const std::size_t groups = c.plan.tile_vectors / 64, steps = head_dim / 16 + 64 / 16;
        CHECK(cuda::emulator::counts().products - before.products ==
              c.plan.key_tiles.size() * groups * steps);
        CHECK(cuda::emulator::counts().multiply_adds == before.multiply_adds);
      }
  }
#endif
}
