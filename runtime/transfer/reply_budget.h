#pragma once
// Limits the memory that an owner keeps for replies that readers have not received yet, beside the
// pages themselves. The reader chooses how small the parts of a reply are; describing the smallest
// ones takes a quarter of their bytes. So the limit is in bytes. A reader above its share, or one
// that adds while all together are above the total, is refused and recomputes the blocks. A reader
// that does not even receive refusals gets nothing. A reader with nothing pending is served
// even above the total, up to twice that, however many others are stalled.
#include <cstddef>
#include <cstdint>
#include <map>

#include "runtime/transfer/pull_wire.h"

namespace troupe {

class ReplyBudget {
 public:
  using Reader = const void*;  // only compared
  struct Limits {
    std::size_t of_reader, all;  // bytes
  };
  static constexpr Limits plain_limits{
      std::size_t{4} << 20, std::size_t{64} << 20};  // per reader about 14,500 pieces of whole pages
  // For sealed pieces, which are copies: a few of each reply at a time; more than 60 requests per
  // reader.
  static constexpr Limits sealed_limits{std::size_t{32} << 20, std::size_t{256} << 20};
  explicit ReplyBudget(Limits limits = plain_limits) : limits_(limits) {}
  // Cost of a piece with its header and UCX's record of it, and cost of describing one part.
  static constexpr std::size_t piece_cost = 256, part_cost = 16;

  static constexpr std::size_t sealed_at_once =
      8;  // pieces of a reply sealed but not yet sent; a usual reply has five

  static std::size_t cost_of(const PullRequest& request, bool sealed);  // upper bound
  static constexpr std::size_t refusal_cost = piece_cost + part_cost;

  enum class Answer : std::uint8_t { pages, refusal, nothing };
  Answer decide(Reader reader, std::size_t cost) const;

  void keep(Reader reader, std::size_t cost);
  void release(Reader reader, std::size_t cost);
  std::size_t kept() const { return all_; }

 private:
  const Limits limits_;
  std::map<Reader, std::size_t> of_reader_;
  std::size_t all_ = 0;
};

}  // namespace troupe
