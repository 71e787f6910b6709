#pragma once
// Measures how many of the recently wanted rows of an embedding table were found locally, by shards
// of the table, so that a few bytes describe which rows a node has (HLEM §IV-C). A shard is a run
// of consecutive rows. The table's size need not be known: the highest row wanted so far determines
// the length of a shard.
#include <array>
#include <cstdint>
#include <optional>

namespace troupe::placement {

class ShardHits {
 public:
  static constexpr std::uint32_t shards = 128;

  void use(std::uint32_t table, std::uint32_t row, bool found);
  std::uint32_t shard_rows() const { return shard_rows_; }  // 0: no row was wanted yet
  // Returns the percentage found of each shard; 0 for a shard that was not wanted.
  std::array<std::uint8_t, shards> found() const;

 private:
  struct Shard {
    float wanted = 0, found = 0;  // decaying counts of recent rows
  };
  void widen();

  std::optional<std::uint32_t> table_;  // last table used; another table resets the counts
  std::uint32_t shard_rows_ = 0;
  std::array<Shard, shards> shards_{};
};

}  // namespace troupe::placement
