#pragma once
// How many of the rows of an embedding table that were wanted lately were at hand, by shards of the table: so
// that a few bytes say where a user's rows are (HLEM §IV-C). A shard is a run of consecutive rows. How large
// the table is nobody has to say: runs are as long as the highest row that was wanted makes them.
#include <array>
#include <cstdint>
#include <optional>

namespace troupe::placement {

class ShardHits {
 public:
  static constexpr std::uint32_t shards = 128;

  void use(std::uint32_t table, std::uint32_t row, bool found);
  std::uint32_t shard_rows() const { return shard_rows_; }  // 0: none was wanted yet
  // Of each, hundredths; of what nobody wanted 0.
  std::array<std::uint8_t, shards> found() const;

 private:
  struct Shard {
    float wanted = 0, found = 0;  // lately
  };
  void widen();

  std::optional<std::uint32_t> table_;  // that was read last: another one begins anew
  std::uint32_t shard_rows_ = 0;
  std::array<Shard, shards> shards_{};
};

}  // namespace troupe::placement
