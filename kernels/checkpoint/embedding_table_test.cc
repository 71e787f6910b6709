#include "kernels/checkpoint/embedding_table.h"

#include <doctest/doctest.h>

#include <set>

using namespace troupe::kernels;

namespace {

// Row r holds r and 2r; remembers which rows were fetched.
struct CountingTable final : EmbeddingTable {
  explicit CountingTable(std::uint32_t rows) : count(rows) {}
  std::uint32_t rows() const override { return count; }
  std::uint32_t columns() const override { return 2; }
  void fetch(std::span<const Token> wanted, float* out) override {
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const float value = wanted[i] == changed ? -1 : static_cast<float>(wanted[i]);
      out[2 * i] = value;
      out[2 * i + 1] = 2 * value;
      seen.insert(wanted[i]);
    }
  }
  const std::uint32_t count;
  Token changed = -1;
  std::set<Token> seen;
};

std::string hash(CountingTable& table, void (*add)(EmbeddingTable&, VersionHash&)) {
  VersionHash hash;
  add(table, hash);
  return hash.hex();
}

TEST_CASE("embedding table: sampling reads every row of a small table and one row per part of a large one") {
  CountingTable small(sampled_rows), large(sampled_rows + 1), twice(2 * sampled_rows);
  CHECK(hash(small, hash_sampled_rows) == hash(small, hash_rows));
  CHECK(small.seen.size() == sampled_rows);
  CHECK(hash(large, hash_sampled_rows) != hash(large, hash_rows));
  hash(twice, hash_sampled_rows);
  CHECK(twice.seen.size() == sampled_rows);
  std::set<Token> parts;
  for (const Token row : twice.seen) parts.insert(row / 2);
  CHECK(parts.size() == sampled_rows);
}

TEST_CASE("embedding table: a changed row changes the hash only if the row is read") {
  CountingTable table(3 * sampled_rows);
  const std::string right = hash(table, hash_sampled_rows);
  const std::set<Token> seen = table.seen;
  table.changed = *seen.begin();
  CHECK(hash(table, hash_sampled_rows) != right);
  table.changed = 0;
  while (seen.contains(table.changed)) ++table.changed;
  CHECK(hash(table, hash_sampled_rows) == right);
  CHECK(hash(table, hash_rows) != right);
}

}  // namespace
