#include "kernels/cpu/products/byte_product.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "kernels/cpu/products/product.h"
#include "kernels/testing/byte_products_test.h"

namespace troupe::kernels {
namespace byte_product_test {

// A weight and inputs, all bytes equally likely, the extremes included.
struct Bytes {
  Bytes(std::uint32_t rows, std::uint32_t columns, std::size_t m, std::int32_t limit, std::uint64_t seed)
      : weight{rows, columns, std::vector<std::int8_t>(std::size_t{rows} * columns), {}, {}},
        in(m * columns),
        rows_in(m) {
    std::mt19937_64 random(seed);
    std::uniform_int_distribution<int> weights(-limit, limit), inputs(0, 255);
    for (std::int8_t& value : weight.values) value = static_cast<std::int8_t>(weights(random));
    for (std::uint8_t& value : in) value = static_cast<std::uint8_t>(inputs(random));
  }

  // Returns the sums; the rest of the output, one row, must stay as it was.
  std::vector<std::int32_t> run(const ByteProductVersion& version) const {
    WeightMemory memory(0);
    const auto product = version.pack(weight, memory);
    return run(*product);
  }
  std::vector<std::int32_t> run(const ByteProduct& product) const {
    std::vector<float> out((rows_in + 1) * weight.rows, 42.0f);
    product.run(in.data(), out.data(), rows_in);
    CHECK(std::all_of(out.end() - weight.rows, out.end(), [](float value) { return value == 42.0f; }));
    std::vector<std::int32_t> sums;
    for (std::size_t i = 0; i < rows_in * weight.rows; ++i)
      sums.push_back(std::bit_cast<std::int32_t>(out[i]));
    return sums;
  }

  QuantizedMatrix weight;
  std::vector<std::uint8_t> in;
  std::size_t rows_in;
};

const ByteProductVersion& plain() { return byte_product_versions().back(); }

void check_exact(const ByteProductVersion& version, std::uint32_t rows, std::uint32_t columns,
                 std::size_t m) {
  CAPTURE(rows);
  CAPTURE(columns);
  CAPTURE(m);
  const Bytes bytes(rows, columns, m, version.weight_limit(), rows * 31 + columns * 7 + m);
  CHECK(bytes.run(version) == bytes.run(plain()));
}

TEST_CASE("byte product: the plain version is the definition") {
  const Bytes bytes(5, 7, 3, 127, 1);
  const std::vector<std::int32_t> sums = bytes.run(plain());
  for (std::size_t r = 0; r < 3; ++r)
    for (std::size_t n = 0; n < 5; ++n) {
      std::int32_t sum = 0;
      for (std::size_t k = 0; k < 7; ++k) sum += bytes.in[r * 7 + k] * bytes.weight.values[n * 7 + k];
      CHECK(sums[r * 5 + n] == sum);
    }
}

TEST_CASE("byte product: sums are those of the plain version for sizes around every tile, word and panel") {
  for_every_byte_product([](const ByteProductVersion& version) {
    for (const std::uint32_t rows : {1, 3, 7, 8, 9, 16, 31, 32, 33, 64, 65, 129, 160})
      for (const std::uint32_t columns : {1, 2, 3, 4, 5, 7, 8, 16, 17, 20, 36})
        for (const std::size_t m : {0, 1, 2, 3, 5, 6, 7, 12, 13, 25, 41})
          check_exact(version, rows, columns, m);
  });
}

TEST_CASE("byte product: sums are exact over several parts of the columns and blocks of rows") {
  for_every_byte_product([](const ByteProductVersion& version) {
    for (const std::uint32_t columns : {4095, 4096, 4100, 9000})
      for (const std::size_t m : {1, 6, 7, 66}) check_exact(version, 70, columns, m);
    check_exact(version, 40, 2048, 300);
    check_exact(version, 33, 130, 300);
  });
}

TEST_CASE("byte product: the greatest and the least sums do not saturate") {
  for_every_byte_product([](const ByteProductVersion& version) {
    for (const std::uint32_t columns : {8u, 66u, 4864u, int8_columns_max})
      for (const int sign : {-1, 1}) {
        const std::int32_t limit = sign * version.weight_limit();
        Bytes bytes(3, columns, 2, 0, 1);
        std::ranges::fill(bytes.weight.values, static_cast<std::int8_t>(limit));
        std::ranges::fill(bytes.in, std::uint8_t{255});
        const auto sums = bytes.run(version);
        CHECK(std::ranges::count(sums, 255 * limit * static_cast<std::int32_t>(columns)) == 6);
      }
  });
}

// Checks values against their definition. The numbers are small and whole or powers of two, so that every
// order of float32 operations is exact.
void check_values(const ByteProductVersion& version, std::uint32_t rows, std::uint32_t columns, std::size_t m,
                  bool add) {
  CAPTURE(rows);
  CAPTURE(columns);
  CAPTURE(m);
  CAPTURE(add);
  Bytes bytes(rows, columns, m, 1, rows + columns + m);
  for (std::uint8_t& value : bytes.in) value %= 4;
  const std::size_t padded = rows + byte_columns_padding;
  std::vector<float> scales(padded), bias(padded), out((m + 1) * rows, 3.0f), expected = out;
  std::vector<std::int32_t> sums(padded);
  std::vector<RowScale> row_scales(m);
  for (std::uint32_t n = 0; n < rows; ++n)
    scales[n] = n % 2 == 0 ? 0.5f : 2.0f, bias[n] = float(n % 7), sums[n] = std::int32_t(n % 5) - 2;
  for (std::size_t r = 0; r < m; ++r) row_scales[r] = {r % 2 == 0 ? 1.0f : 0.25f, std::int32_t(r % 3)};
  const std::vector<std::int32_t> products = bytes.run(plain());
  for (std::size_t i = 0; i < m * rows; ++i) {
    const RowScale& row = row_scales[i / rows];
    const std::size_t n = i % rows;
    const float value = float(products[i] - row.zero * sums[n]) * scales[n] * row.scale + bias[n];
    expected[i] = add ? expected[i] + value : value;
  }
  WeightMemory memory(0);
  version.pack(bytes.weight, memory)
      ->run_values({bytes.in.data(), row_scales.data(), out.data(), m, add},
                   {scales.data(), sums.data(), bias.data()});
  CHECK(out == expected);
}

TEST_CASE("byte product: values are the scaled sums, and may be added to the output") {
  for_every_byte_product([](const ByteProductVersion& version) {
    for (const std::uint32_t rows : {1, 31, 33, 70, 128})
      for (const std::uint32_t columns : {5, 64, 4100})
        for (const std::size_t m : {1, 6, 13})
          for (const bool add : {false, true}) check_values(version, rows, columns, m, add);
    for (const bool add : {false, true}) check_values(version, 70, 8999, 70, add);
  });
}

TEST_CASE("byte product: several threads may run one product at once") {
  for_every_byte_product([](const ByteProductVersion& version) {
    for (const std::uint32_t columns : {64u, 66u}) {
      const Bytes bytes(65, columns, 37, version.weight_limit(), 5);
      WeightMemory memory(0);
      const auto product = version.pack(bytes.weight, memory);
      const auto expected = bytes.run(plain());
      std::vector<std::vector<std::int32_t>> found(4);
      std::vector<std::thread> running;
      for (auto& sums : found) running.emplace_back([&] { sums = bytes.run(*product); });
      for (std::thread& thread : running) thread.join();
      CHECK(std::ranges::count(found, expected) == 4);
    }
  });
}

TEST_CASE("byte product: a packed weight has four columns in each word, the first in the lowest bits") {
  const QuantizedMatrix weight{2, 5, {1, -2, 3, 127, -127, 4, 5, 6, 7, 8}, {}, {}};
  WeightMemory memory(0);
  const PackedMatrix packed(weight, 4, memory);
  CHECK(packed.format() == WeightFormat::int8);
  CHECK(packed.words() == 2);
  CHECK(packed.bytes() == 4 * (2 + 1) * sizeof(float));
  CHECK(std::bit_cast<std::uint32_t>(packed.panel(0)[0]) == 0x7f03fe01u);
  CHECK(std::bit_cast<std::uint32_t>(packed.panel(0)[4]) == 0x00000081u);
  CHECK(std::bit_cast<std::uint32_t>(packed.panel(0)[5]) == 0x00000008u);
  CHECK(std::bit_cast<std::uint32_t>(packed.panel(0)[2]) == 0u);
  for (std::size_t row = 0; row < 2; ++row)
    for (std::size_t column = 0; column < 5; ++column)
      CHECK(packed.value(row, column) == weight.values[row * 5 + column]);
}

TEST_CASE("byte product: the chosen version is the first usable one of the table") {
  const auto versions = byte_product_versions();
  const auto first = std::ranges::find(versions, true, &ByteProductVersion::usable);
  CHECK(first->name == byte_product_version().name);
  CHECK(plain().name == "plain");
  CHECK(plain().usable);
}

TEST_CASE("byte product: a CPU with AVX512_VNNI has our version for it") {
  const auto versions = byte_product_versions();
  const auto vnni = std::ranges::find(versions, "avx512_vnni", &ByteProductVersion::name);
  if (__builtin_cpu_supports("avx512vnni")) CHECK((vnni != versions.end() && vnni->usable));
}

}  // namespace byte_product_test
}  // namespace troupe::kernels
