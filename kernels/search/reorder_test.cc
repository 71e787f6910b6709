#include "kernels/search/reorder.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace troupe::kernels {
namespace {

constexpr std::size_t kRowBytes = 6;

std::vector<std::byte> random_rows(std::size_t rows, std::mt19937& random) {
  std::vector<std::byte> bytes(rows * kRowBytes);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

// Reorders with a second buffer; bytes behind the last row stay.
std::vector<std::byte> copied(const std::vector<std::byte>& rows, const std::vector<std::uint32_t>& parents) {
  std::vector<std::byte> copy = rows;
  for (std::size_t r = 0; r < parents.size(); ++r)
    std::copy_n(rows.begin() + static_cast<std::ptrdiff_t>(parents[r] * kRowBytes), kRowBytes,
                copy.begin() + static_cast<std::ptrdiff_t>(r * kRowBytes));
  return copy;
}

std::vector<std::byte> reordered(std::vector<std::byte> rows, const std::vector<std::uint32_t>& parents) {
  reorder_rows(rows.data(), kRowBytes, parents);
  return rows;
}

TEST_CASE("reorder: rows that multiply, vanish, move up and move down end where a copy has them") {
  std::mt19937 random(3);
  const std::vector<std::byte> rows = random_rows(5, random);
  for (const std::vector<std::uint32_t>& parents : std::vector<std::vector<std::uint32_t>>{{},
                                                                                           {4},
                                                                                           {0, 0, 0, 0, 0},
                                                                                           {4, 4, 4, 4, 4},
                                                                                           {0, 1, 2, 3, 4},
                                                                                           {1, 2, 3, 4},
                                                                                           {0, 0, 1, 2, 3},
                                                                                           {2, 2, 2, 4, 4}})
    CHECK(reordered(rows, parents) == copied(rows, parents));
}

TEST_CASE("reorder: every list of parents that does not descend, of up to six rows, agrees with a copy") {
  std::mt19937 random(4);
  const std::vector<std::byte> rows = random_rows(6, random);
  std::size_t lists = 0;
  for (std::uint32_t code = 0; code < 6 * 6 * 6 * 6 * 6 * 6; ++code) {
    std::vector<std::uint32_t> parents;
    for (std::uint32_t digit = 0, rest = code; digit < 6; ++digit, rest /= 6) parents.push_back(rest % 6);
    if (!std::is_sorted(parents.begin(), parents.end())) continue;
    for (; !parents.empty(); parents.pop_back(), ++lists)
      if (reordered(rows, parents) != copied(rows, parents)) FAIL("parents of code " << code);
  }
  CHECK(lists == 6 * 462);
}

TEST_CASE("reorder: random wide levels agree with a copy") {
  for (std::uint32_t seed = 1; seed <= 200; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    const std::uint32_t before = 1 + random() % 512;
    std::vector<std::uint32_t> parents(random() % 513);
    for (std::uint32_t& parent : parents) parent = random() % before;
    std::sort(parents.begin(), parents.end());
    const std::vector<std::byte> rows = random_rows(std::max<std::size_t>(before, parents.size()), random);
    CHECK(reordered(rows, parents) == copied(rows, parents));
  }
}

}  // namespace
}  // namespace troupe::kernels
