#include "kernels/operations/realign.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <string>

#include "kernels/base/float_formats.h"
#include "kernels/decoder/decoder.h"

namespace troupe::kernels {
namespace {

constexpr KvFormat kFormats[] = {KvFormat::f32, KvFormat::f16, KvFormat::bf16};
constexpr std::byte kPoison{0xff};  // NaN in every format

// Relative error of rounding to nearest; `smallest_step` is half the distance between the smallest numbers.
double unit_roundoff(KvFormat format) {
  return format == KvFormat::f32 ? 0x1p-24 : format == KvFormat::f16 ? 0x1p-11 : 0x1p-8;
}
double smallest_step(KvFormat format) { return format == KvFormat::f16 ? 0x1p-25 : 0; }

void store(KvFormat format, double number, std::byte* to, std::size_t i) {
  const auto wide = static_cast<float>(number);
  if (format == KvFormat::f32) {
    std::memcpy(to + 4 * i, &wide, 4);
  } else {
    const std::uint16_t half = format == KvFormat::f16 ? to_f16(wide) : to_bf16(wide);
    std::memcpy(to + 2 * i, &half, 2);
  }
}
double load(KvFormat format, const std::byte* from, std::size_t i) {
  float wide = 0;
  std::uint16_t half = 0;
  if (format == KvFormat::f32)
    std::memcpy(&wide, from + 4 * i, 4);
  else
    std::memcpy(&half, from + 2 * i, 2);
  return format == KvFormat::f32 ? wide : format == KvFormat::f16 ? from_f16(half) : from_bf16(half);
}

// Keys before rotation, and what is stored of them at a position.
struct Keys {
  std::size_t count, head_dim;
  std::vector<double> plain, frequencies;

  Keys(std::size_t count, std::size_t head_dim, std::mt19937& random) : count(count), head_dim(head_dim) {
    std::normal_distribution<double> normal;
    for (std::size_t i = 0; i < count * head_dim; ++i) plain.push_back(normal(random));
    for (std::size_t i = 0; i < head_dim / 2; ++i)
      frequencies.push_back(std::pow(10000.0, -2.0 * double(i) / double(head_dim)));
  }
  // Returns the key rotated exactly to the position, in double.
  std::vector<double> at(double position) const {
    std::vector<double> rotated(plain.size());
    const std::size_t half = head_dim / 2;
    for (std::size_t k = 0; k < count; ++k)
      for (std::size_t i = 0; i < half; ++i) {
        const double c = std::cos(position * frequencies[i]), s = std::sin(position * frequencies[i]);
        const std::size_t n = k * head_dim + i;
        rotated[n] = plain[n] * c - plain[n + half] * s;
        rotated[n + half] = plain[n + half] * c + plain[n] * s;
      }
    return rotated;
  }
  // Returns the length of the pair that number n belongs to.
  double pair(std::size_t n) const {
    const std::size_t half = head_dim / 2, first = n % head_dim < half ? n : n - half;
    return std::hypot(plain[first], plain[first + half]);
  }
};

template <class Check>
void for_every_version(Check check) {
  for (const RealignVersion& version : realign_versions()) {
    const std::string name(version.name);
    if (!version.usable) {
      MESSAGE("this CPU cannot run " << name);
      continue;
    }
    CAPTURE(name);
    check(version);
  }
}

// Returns the rotated keys, copied or in place. Numbers are aligned, vectors are not, and the
// poison around them must stay.
std::vector<std::byte> rotated(const RealignVersion& version, KvFormat format, const Keys& keys,
                               const std::vector<std::byte>& stored, const KeyRotation& rotation,
                               bool in_place) {
  constexpr std::ptrdiff_t gap = 4;
  std::vector<std::byte> place(stored.size() + 2 * gap, kPoison), kept = stored;
  const auto begin = place.begin() + gap, end = place.end() - gap;
  if (in_place) std::copy(stored.begin(), stored.end(), begin);
  version.of_format[std::size_t(format)](in_place ? &*begin : kept.data(), &*begin, keys.count, keys.head_dim,
                                         rotation.cosines.data(), rotation.sines.data());
  const auto is_poison = [](std::byte byte) { return byte == kPoison; };
  CHECK(std::all_of(place.begin(), begin, is_poison));
  CHECK(std::all_of(end, place.end(), is_poison));
  CHECK(kept == stored);
  return {begin, end};
}

TEST_CASE("realign: keys rotated from p to q are those of q, up to the rounding at p and at q") {
  const unsigned seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random(seed);
  for_every_version([&](const RealignVersion& version) {
    for (const KvFormat format : kFormats)
      for (const std::size_t head_dim : {0, 2, 6, 10, 16, 30, 32, 34, 64, 80, 128})
        for (const std::size_t count : {0, 1, 5}) {
          CAPTURE(head_dim);
          const Keys keys(count, head_dim, random);
          const auto p = std::int64_t(random() % 8192), q = std::int64_t(random() % 8192);
          std::vector<std::byte> stored(count * head_dim * value_bytes(format));
          const std::vector<double> before = keys.at(double(p)), want = keys.at(double(q));
          for (std::size_t n = 0; n < before.size(); ++n) store(format, before[n], stored.data(), n);
          const KeyRotation rotation = make_rotation(keys.frequencies, q == p ? 1 : q - p);
          const auto got = rotated(version, format, keys, stored, rotation, false);
          CHECK(rotated(version, format, keys, stored, rotation, true) == got);
          if (q == p) continue;
          for (std::size_t n = 0; n < want.size(); ++n) {
            // The errors of a pair at p are rotated with it; angles and sums add a few roundings of
            // float32.
            const double u = unit_roundoff(format), bound = (2 * u * (1 + u) + 0x1p-21) * keys.pair(n);
            REQUIRE(std::abs(load(format, got.data(), n) - want[n]) <= bound + 2 * smallest_step(format));
          }
        }
  });
}

TEST_CASE("realign: angles are exact for the farthest distances, and a rotation by 0 is the identity") {
  const KeyRotation rotation = make_rotation(std::vector<double>{1.0, 0.5}, -131071);
  CHECK(rotation.cosines[0] == float(std::cos(131071.0)));
  CHECK(rotation.sines[0] == float(-std::sin(131071.0)));
  CHECK(rotation.sines[1] == float(-std::sin(65535.5)));
  CHECK(make_rotation(std::vector<double>{1.0}, 0).cosines.empty());
}

// A block in its own pages, with random bytes up to the last token.
struct Block {
  KvLayout layout;
  std::uint32_t tokens;
  std::vector<std::vector<std::byte>> pages;

  Block(const KvLayout& layout, std::uint32_t tokens) : layout(layout), tokens(tokens) {
    pages.assign(layout.pages_for(tokens), std::vector<std::byte>(layout.page_bytes(), kPoison));
  }
  Block& draw(std::mt19937& random) {
    for (auto& page : pages)
      for (std::byte& byte : page) byte = std::byte(random());
    return *this;
  }
  std::vector<const std::byte*> from() const {
    std::vector<const std::byte*> all;
    for (const auto& page : pages) all.push_back(page.data());
    return all;
  }
  std::vector<std::byte*> to() {
    std::vector<std::byte*> all;
    for (auto& page : pages) all.push_back(page.data());
    return all;
  }
  // Returns the bytes of one token's key or value.
  std::vector<std::byte> vector(std::uint32_t token, std::size_t start) const {
    const auto first = pages[token / layout.page_tokens].begin() +
                       std::ptrdiff_t(start + token % layout.page_tokens * layout.vector_bytes());
    return {first, first + std::ptrdiff_t(layout.vector_bytes())};
  }
};

constexpr KvLayout kLayout{.layers = 2, .kv_heads = 3, .head_dim = 20, .page_tokens = 4};

TEST_CASE("realign: a rotation by 0 copies every bit, or leaves it in place") {
  std::mt19937 random(1);
  for (const KvFormat format : kFormats) {
    KvLayout layout = kLayout;
    layout.format = format;
    Block block = Block(layout, 8).draw(random), copy(layout, 8);
    const Block before = block;
    realign({layout, block.from(), copy.to(), 8}, {});
    CHECK(copy.pages == before.pages);
    realign({layout, block.from(), block.to(), 8}, {});
    CHECK(block.pages == before.pages);
  }
}

TEST_CASE("realign: a realigned block has rotated keys, the same values, and zeros behind its last token") {
  std::mt19937 random(2);
  for (const KvFormat format : kFormats) {
    KvLayout layout = kLayout;
    layout.format = format;
    Block block = Block(layout, 6).draw(random), copy(layout, 6);
    const KeyRotation rotation = make_rotation(std::vector<double>(10, 0.5), 3);
    realign({layout, block.from(), copy.to(), 6}, rotation);
    const RealignVersion& reference = realign_versions().back();
    const std::vector<std::byte> zeros(layout.vector_bytes());
    for (std::uint32_t layer = 0; layer < layout.layers; ++layer)
      for (std::uint32_t head = 0; head < layout.kv_heads; ++head)
        for (std::uint32_t token = 0; token < 8; ++token) {
          const std::size_t keys = layout.keys(layer, head), values = layout.values(layer, head);
          if (token >= block.tokens) {
            REQUIRE(copy.vector(token, keys) == zeros);
            REQUIRE(copy.vector(token, values) == zeros);
            continue;
          }
          REQUIRE(copy.vector(token, values) == block.vector(token, values));
          const auto key = block.vector(token, keys), got = copy.vector(token, keys);
          std::vector<std::byte> want(key.size());
          reference.of_format[std::size_t(format)](key.data(), want.data(), 1, layout.head_dim,
                                                   rotation.cosines.data(), rotation.sines.data());
          for (std::size_t i = 0; i < layout.head_dim; ++i) {
            const double expected = load(format, want.data(), i), found = load(format, got.data(), i);
            const double size = std::abs(load(format, key.data(), i)) +
                                // any bit pattern, huge numbers too
                                std::abs(load(format, key.data(), (i + 10) % 20));
            if (!std::isfinite(size) || !std::isfinite(expected)) continue;
            REQUIRE(std::abs(found - expected) <=
                    2 * unit_roundoff(format) * size + 2 * smallest_step(format) + 0x1p-140);
          }
        }
    Block there = block;
    realign({layout, there.from(), there.to(), 6}, rotation);
    for (std::uint32_t token = 0; token < 8; ++token) {
      CHECK(there.vector(token, layout.values(1, 2)) == block.vector(token, layout.values(1, 2)));
      const Block& want = token < 6 ? copy : block;
      CHECK(there.vector(token, layout.keys(1, 2)) == want.vector(token, layout.keys(1, 2)));
    }
  }
}

// A decoder's pages, aligned as passes require.
struct DecoderPages {
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  std::vector<std::vector<Line>> pages;
  std::vector<std::byte*> take(const KvLayout& layout, std::size_t tokens) {
    std::vector<std::byte*> taken;
    for (std::size_t p = 0; p < layout.pages_for(tokens); ++p)
      taken.push_back(pages.emplace_back((layout.page_bytes() + 63) / 64)[0].bytes);
    return taken;
  }
};

DecoderConfig realign_config(Family family) {
  DecoderConfig config;
  config.family = family;
  config.layers = 3, config.hidden = 24, config.heads = 4, config.kv_heads = 2, config.head_dim = 10;
  config.intermediate = 36, config.vocabulary = 50, config.positions_max = 3000;
  config.qkv_bias = family == Family::qwen2;
  config.qk_norm = family == Family::qwen3;
  if (family == Family::llama) config.rope_scaling = {RopeScaling::Kind::llama3, 8, 1, 4, 512};
  return config;
}

// A block that sees nothing is the same block at any position except for its keys' angles. So a
// segment that sees the realigned block must compute the same as with the block made at that
// position.
TEST_CASE(
    "realign: a decoder gives the same answer from a realigned block as from one made at its position") {
  const unsigned seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random(seed);
  for (const Family family : {Family::qwen2, Family::qwen3, Family::llama})
    for (const KvFormat format : kFormats) {
      CAPTURE(format_name(format));
      const DecoderConfig config = realign_config(family);
      const auto decoder =
          make_cpu_decoder(random_decoder(config, random()), {.page_tokens = 4, .kv = format});
      const KvLayout layout = kv_layout(config, 4, format);
      DecoderPages memory;
      const auto p = std::int32_t(random() % 2900), q = std::int32_t(random() % 2900);
      const auto made = [&](std::int32_t start) {
        const Plan alone{{{SegmentKind::item, {3, 1, 4, 1, 5, 9, 2, 6, 5}, start, {}}}, {}};
        const Request request{&alone, {{Source::compute, memory.take(layout, 9)}}};
        decoder->run({&request, 1});
        return request.kv[0].pages;
      };
      const std::vector<std::byte*> at_p = made(p), at_q = made(q), moved = memory.take(layout, 9);
      const std::vector<const std::byte*> from(at_p.begin(), at_p.end());
      realign({layout, from, moved, 9}, make_rotation(rope_frequencies(config), q - p));
      const auto answer = [&](const std::vector<std::byte*>& pages) {
        Plan plan;
        plan.segments = {{SegmentKind::item, {3, 1, 4, 1, 5, 9, 2, 6, 5}, q, {}},
                         {SegmentKind::discriminant, {7, 8}, q + 9, {0}}};
        plan.readouts = {{1, 1, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}}};
        const Request request{&plan, {{Source::cached, pages}, {}}};
        return decoder->run({&request, 1})[0].readouts[0];
      };
      const std::vector<float> want = answer(at_q), got = answer(moved), unrotated = answer(at_p);
      // Roundings of the keys change the scores, and change logits of size about 1 by no more than
      // a few of them.
      const double tolerance = 64 * unit_roundoff(format) + 1e-5;
      double off = 0, wrong = 0;
      for (std::size_t i = 0; i < want.size(); ++i) {
        off = std::max(off, std::abs(double{got[i]} - want[i]));
        wrong = std::max(wrong, std::abs(double{unrotated[i]} - want[i]));
      }
      CHECK(off <= tolerance);
      if (format == KvFormat::f32 && std::abs(q - p) > 2) CHECK(wrong > tolerance);
    }
}

}  // namespace
}  // namespace troupe::kernels
