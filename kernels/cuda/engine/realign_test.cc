#include "kernels/cuda/kernels/realign.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "kernels/base/float_formats.h"
#include "kernels/cuda/engine/decoder.h"
#include "kernels/cuda/testing/device_test.h"
#include "kernels/operations/realign.h"

using namespace troupe::kernels;
using cuda::DeviceCopy;
using cuda::RealignPage;

namespace {

constexpr std::byte kPoison{0xff};  // NaN in every format
constexpr std::int32_t kPositions = 700;
constexpr KvFormat kFormats[] = {KvFormat::f32, KvFormat::f16, KvFormat::bf16};

double number(KvFormat format, const std::byte* from) {
  float wide = 0;
  std::uint16_t half = 0;
  std::memcpy(&wide, from, format == KvFormat::f32 ? 4 : 0);
  std::memcpy(&half, from, format == KvFormat::f32 ? 0 : 2);
  return format == KvFormat::f32 ? wide : format == KvFormat::f16 ? from_f16(half) : from_bf16(half);
}

std::vector<double> frequencies_of(const KvLayout& layout) {
  std::vector<double> frequencies;
  for (std::uint32_t i = 0; i < layout.head_dim / 2; ++i)
    frequencies.push_back(std::pow(10000.0, -2.0 * i / layout.head_dim));
  return frequencies;
}

// Returns cosines and sines in the layout of a decoder's weights.
std::vector<float> rotations_of(const KvLayout& layout) {
  std::vector<float> rotations;
  for (std::int32_t p = 0; p < kPositions; ++p)
    for (const double frequency : frequencies_of(layout)) {
      rotations.push_back(static_cast<float>(std::cos(p * frequency)));
      rotations.push_back(static_cast<float>(std::sin(p * frequency)));
    }
  return rotations;
}

// A realigned page of the pool.
struct Move {
  std::size_t from, to;
  std::uint32_t tokens;
  std::int32_t distance;
};

// Contiguous pages; the first `drawn` have numbers, the others poison.
struct Pool {
  KvLayout layout;
  std::vector<std::byte> bytes;

  Pool(const KvLayout& layout, std::size_t pages, std::size_t drawn, std::mt19937& random)
      : layout(layout), bytes(pages * layout.page_bytes(), kPoison) {
    std::normal_distribution<float> normal;
    const std::size_t size = value_bytes(layout.format);
    for (std::size_t at = 0; at < drawn * layout.page_bytes(); at += size) {
      const float wide = normal(random);
      const std::uint16_t half = layout.format == KvFormat::f16 ? to_f16(wide) : to_bf16(wide);
      std::memcpy(&bytes[at], size == 4 ? static_cast<const void*>(&wide) : &half, size);
    }
  }
  std::vector<std::byte> realigned(const std::vector<Move>& moves) const {
    cuda::Stream stream;
    const DeviceCopy<std::byte> device(bytes);
    const DeviceCopy<float> rotations(rotations_of(layout));
    std::vector<RealignPage> pages;
    for (const Move& move : moves)
      pages.push_back({device.get() + move.from * layout.page_bytes(),
                       device.get() + move.to * layout.page_bytes(), move.tokens, move.distance});
    const DeviceCopy<RealignPage> list(pages);
    cuda::realign(layout, list.get(), static_cast<std::uint32_t>(pages.size()), rotations.get(), stream);
    return device.host(stream);
  }
  std::vector<std::byte> reference(const std::vector<Move>& moves) const {
    std::vector<std::byte> all = bytes;
    for (const Move& move : moves) {
      const std::byte* const from = bytes.data() + move.from * layout.page_bytes();
      std::byte* const to = all.data() + move.to * layout.page_bytes();
      const std::byte* const source = move.from == move.to ? to : from;
      realign({layout, {&source, 1}, {&to, 1}, move.tokens},
              make_rotation(frequencies_of(layout), move.distance), realign_versions().back());
    }
    return all;
  }
  // The last rounding step may fall the other way, and float32 sums differ from the reference's.
  void check(const std::vector<Move>& moves) const {
    const std::vector<std::byte> got = realigned(moves), want = reference(moves);
    const double step = layout.format == KvFormat::f32   ? 0x1p-21
                        : layout.format == KvFormat::f16 ? 0x1p-8
                                                         : 0x1p-5;
    for (std::size_t at = 0; at < got.size(); at += value_bytes(layout.format)) {
      const double found = number(layout.format, &got[at]), expected = number(layout.format, &want[at]);
      if (std::isnan(expected)) {
        REQUIRE(std::isnan(found));
        continue;
      }
      REQUIRE(std::abs(found - expected) <= step);  // the numbers are up to 8
    }
  }
};

}  // namespace

TEST_SUITE("cuda realign") {
  TEST_CASE(
      "realign: pages agree with the reference, in place and moved, both ways, in every format and head "
      "size") {
    if (!cuda::have_device()) return;
    const unsigned seed = std::random_device{}();
    CAPTURE(seed);
    std::mt19937 random(seed);
    for (const KvFormat format : kFormats)
      for (const std::uint32_t head_dim : {16, 32, 64, 128})
        for (const std::uint32_t page_tokens : {1, 3, 16}) {
          CAPTURE(head_dim);
          CAPTURE(page_tokens);
          const Pool pool({2, 3, head_dim, page_tokens, format}, 8, 4, random);
          const auto distance = std::int32_t(random() % kPositions);
          pool.check({{0, 7, page_tokens, distance},
                      {1, 1, page_tokens, -distance},
                      {2, 5, (page_tokens + 1) / 2, 1 - kPositions},
                      {3, 3, (page_tokens + 1) / 2, kPositions - 1}});
        }
  }

  TEST_CASE("realign: a rotation by 0 keeps every bit, also of NaN and infinity") {
    if (!cuda::have_device()) return;
    std::mt19937 random(4);
    for (const KvFormat format : kFormats) {
      Pool pool({1, 2, 32, 5, format}, 3, 0, random);
      for (std::byte& byte : pool.bytes) byte = std::byte(random());
      const std::size_t page = pool.layout.page_bytes();
      std::vector<std::byte> want = pool.bytes;
      std::copy_n(want.begin(), page, want.begin() + std::ptrdiff_t(2 * page));
      CHECK(pool.realigned({{0, 2, 5, 0}, {1, 1, 5, 0}}) == want);
    }
  }

  TEST_CASE(
      "realign: tokens beyond a page's count become zeros in a moved page and stay in place otherwise") {
    if (!cuda::have_device()) return;
    std::mt19937 random(5);
    const Pool pool({1, 1, 32, 4, KvFormat::bf16}, 2, 1, random);
    const std::size_t vector = pool.layout.vector_bytes(), head = pool.layout.head_bytes();
    const std::vector<std::byte> zeros(vector);
    const std::vector<std::byte> moved = pool.realigned({{0, 1, 3, 7}}),
                                 stayed = pool.realigned({{0, 0, 3, 7}});
    for (const std::size_t at : {3 * vector, head + 3 * vector}) {
      CHECK(std::equal(zeros.begin(), zeros.end(), moved.begin() + std::ptrdiff_t(2 * head + at)));
      CHECK(std::equal(zeros.begin(), zeros.end(), stayed.begin() + std::ptrdiff_t(at)) == false);
      CHECK(std::equal(zeros.begin(), zeros.end(), stayed.begin() + std::ptrdiff_t(at),
                       [&](const std::byte&, const std::byte& b) {
                         return b == pool.bytes[std::size_t(&b - stayed.data())];
                       }));
    }
  }

  TEST_CASE("realign: more pages than one block's share, and no pages") {
    if (!cuda::have_device()) return;
    std::mt19937 random(6);
    const Pool pool({6, 4, 64, 16, KvFormat::bf16}, 6, 3, random);  // more pieces than one block takes
    pool.check({{0, 3, 16, 5}, {1, 4, 16, 0}, {2, 5, 9, -600}});
    CHECK(pool.realigned({}) == pool.bytes);
  }

  TEST_CASE("realign: a decoder's realigned block equals the block that it computes at the other position") {
    if (!cuda::have_device()) return;
    const unsigned seed = std::random_device{}();
    CAPTURE(seed);
    std::mt19937 random(seed);
    DecoderConfig config;
    config.layers = 2, config.hidden = 40, config.heads = 4, config.kv_heads = 2, config.head_dim = 32;
    config.intermediate = 48, config.vocabulary = 97, config.positions_max = kPositions,
    config.qkv_bias = true;
    const auto decoder =
        cuda::make_cuda_decoder(random_decoder(config, random()),
                                {.page_tokens = 4, .kv = KvFormat::f16, .rows_max = 64, .keys_max = 400});
    const KvLayout layout = kv_layout(config, 4, KvFormat::f16);
    const std::size_t bytes = layout.page_bytes();
    const cuda::DeviceMemory memory(6 * bytes);
    const auto p = std::int32_t(random() % (kPositions - 8)), q = std::int32_t(random() % (kPositions - 8));
    const auto make = [&](std::int32_t start, std::size_t page) {
      const Plan plan{{{SegmentKind::item, {3, 1, 4, 1, 5, 9}, start, {}}}, {}};
      const Request request{
          &plan, {{Source::compute, {memory.data() + page * bytes, memory.data() + (page + 1) * bytes}}}};
      decoder->run({&request, 1});
    };
    make(p, 0), make(q, 2);
    const DeviceCopy<RealignPage> work(
        std::vector<RealignPage>{{memory.data(), memory.data() + 4 * bytes, 4, q - p},
                                 {memory.data() + bytes, memory.data() + 5 * bytes, 2, q - p}});
    std::vector<float> rotations;
    for (std::int32_t position = 0; position < kPositions; ++position)
      for (const double frequency : rope_frequencies(config)) {
        rotations.push_back(static_cast<float>(std::cos(position * frequency)));
        rotations.push_back(static_cast<float>(std::sin(position * frequency)));
      }
    const DeviceCopy<float> angles(rotations);
    cuda::Stream stream;
    cuda::realign(layout, work.get(), 2, angles.get(), stream);
    std::vector<std::byte> got(2 * bytes), want(2 * bytes), unrotated(2 * bytes);
    stream.download(unrotated.data(), memory.data(), 2 * bytes);
    stream.download(want.data(), memory.data() + 2 * bytes, 2 * bytes);
    stream.download(got.data(), memory.data() + 4 * bytes, 2 * bytes);
    stream.synchronize();
    double off = 0, wrong = 0;
    for (std::size_t at = 0; at < got.size(); at += 2) {
      const double expected = number(layout.format, &want[at]);
      off = std::max(off, std::abs(number(layout.format, &got[at]) - expected));
      wrong = std::max(wrong, std::abs(number(layout.format, &unrotated[at]) - expected));
    }
    // Keys and values of magnitude 1 to 4 through two bf16 layers: each of a few roundings changes
    // them by about 2^-9.
    CHECK(off <= 0.15);
    if (p != q) CHECK(wrong > off);
  }

  TEST_CASE("realign: pages without a kernel are refused with the reason") {
    CHECK(cuda::realign_fault({1, 1, 64, 4, KvFormat::bf16}) == "");
    CHECK(cuda::realign_fault({1, 1, 8, 4, KvFormat::f32}) == "");
    CHECK(cuda::realign_fault({1, 1, 48, 4, KvFormat::f16}) ==
          "head_dim 48; to realign on a GPU expected a power of two from 16");
    CHECK(cuda::realign_fault({1, 1, 4, 4, KvFormat::f32}) ==
          "head_dim 4; to realign on a GPU expected a power of two from 8");
  }
}
