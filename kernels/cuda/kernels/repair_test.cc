#include "kernels/cuda/kernels/repair.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "kernels/base/float_formats.h"
#include "kernels/cuda/testing/device_test.h"

namespace troupe::kernels::cuda {
namespace {
namespace repair_test {

constexpr std::uint32_t positions = 40;

// Tokens of random numbers, with a page each in the pass and in their block.
struct Repaired {
  KvLayout layout;
  std::vector<std::uint16_t> own, block;
  std::vector<std::int32_t> turns;
  std::vector<float> rotations;  // per position: cosine and sine of each pair

  Repaired(const KvLayout& layout, std::uint32_t count, std::mt19937& random) : layout(layout) {
    std::normal_distribution<float> normal;
    const auto fill = [&](std::vector<std::uint16_t>& numbers) {
      numbers.resize(count * numbers_of_token());
      for (std::uint16_t& number : numbers)
        number = layout.format == KvFormat::f16 ? to_f16(normal(random)) : to_bf16(normal(random));
    };
    fill(own), fill(block);
    constexpr auto farthest = static_cast<std::int32_t>(positions) - 1;
    for (std::uint32_t t = 0; t < count; ++t)
      turns.push_back(t % 3 == 0 ? 0 : static_cast<std::int32_t>(random() % (2 * farthest + 1)) - farthest);
    for (std::uint32_t p = 0; p < positions; ++p)
      for (std::uint32_t pair = 0; pair < layout.head_dim / 2; ++pair) {
        const double angle = p * std::pow(10000.0, -2.0 * pair / layout.head_dim);
        rotations.push_back(static_cast<float>(std::cos(angle)));
        rotations.push_back(static_cast<float>(std::sin(angle)));
      }
  }
  std::size_t numbers_of_token() const { return layout.page_bytes() / 2; }
  double number(const std::vector<std::uint16_t>& of, std::size_t at) const {
    return layout.format == KvFormat::f16 ? from_f16(of[at]) : from_bf16(of[at]);
  }

  // Computes the length by the definition.
  double length(std::uint32_t token, std::uint32_t layer) const {
    const std::size_t half = layout.head_dim / 2;
    double sum = 0;
    for (std::uint32_t head = 0; head < layout.kv_heads; ++head)
      for (std::size_t i = 0; i < half; ++i) {
        const std::size_t key = token * numbers_of_token() + layout.keys(layer, head) / 2 + i,
                          value = key + layout.head_dim;
        const std::int32_t rotation = turns[token];
        const float* const angle = &rotations[(static_cast<std::size_t>(std::abs(rotation)) * half + i) * 2];
        const double cosine = angle[0], sine = rotation < 0 ? -angle[1] : angle[1];
        const double first = number(block, key), second = number(block, key + half);
        for (const double off : {number(own, key) - (first * cosine - second * sine),
                                 number(own, key + half) - (second * cosine + first * sine),
                                 number(own, value) - number(block, value),
                                 number(own, value + half) - number(block, value + half)})
          sum += off * off;
      }
    return std::sqrt(sum);
  }
};

// Compares the first `asked` tokens; entries that are not written are NaN.
std::vector<float> compared(const Repaired& tokens, std::uint32_t layer, std::uint32_t asked) {
  const DeviceCopy<std::uint16_t> own(tokens.own), block(tokens.block);
  const DeviceCopy<float> rotations(tokens.rotations);
  const DeviceCopy<float> lengths(
      std::vector<float>(tokens.turns.size(), std::numeric_limits<float>::quiet_NaN()));
  std::vector<RepairToken> list;
  for (std::size_t t = 0; t < tokens.turns.size(); ++t) {
    const std::size_t at = t * tokens.layout.page_bytes();
    list.push_back({.block = reinterpret_cast<const std::byte*>(block.get()) + at,
                    .own = reinterpret_cast<std::byte*>(own.get()) + at,
                    .rotation = tokens.turns[t]});
  }
  const DeviceCopy<RepairToken> listed(list);
  Stream stream;
  compare_tokens(tokens.layout, {listed.get(), rotations.get(), layer}, asked, lengths.get(), stream);
  return lengths.host(stream);
}

TEST_SUITE("cuda repair") {
  TEST_CASE("repair: each requested token, and no other, gets its distance from its block") {
    if (!have_device()) return;
    std::mt19937 random(3);
    for (const KvFormat format : {KvFormat::f16, KvFormat::bf16})
      for (const std::uint32_t head_dim : {16, 64, 128})
        for (const std::uint32_t asked : {0, 1, 5, 8}) {
          CAPTURE(std::string(format_name(format)));
          CAPTURE(head_dim);
          CAPTURE(asked);
          const Repaired tokens(
              {.layers = 2, .kv_heads = 3, .head_dim = head_dim, .page_tokens = 1, .format = format}, 8,
              random);
          const std::vector<float> lengths = compared(tokens, 1, asked);
          for (std::uint32_t t = 0; t < asked; ++t)
            CHECK(lengths[t] == doctest::Approx(tokens.length(t, 1)).epsilon(1e-5));
          for (std::uint32_t t = asked; t < 8; ++t) CHECK(std::isnan(lengths[t]));
        }
  }
}

}  // namespace repair_test
}  // namespace
}  // namespace troupe::kernels::cuda
