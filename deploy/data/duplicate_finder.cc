// Finds an id that occurs twice in a list, such as a request's candidates, without allocating
// memory for each list.
#include "deploy/data/duplicate_finder.h"

#include <algorithm>
#include <bit>
#include <numeric>

namespace troupe::deploy {

namespace {

// Steps before sorting. A table that is at most half full needs one or two steps per id.
constexpr std::uint64_t steps_per_id = 8, steps_min = 64;

}  // namespace

std::optional<std::uint32_t> DuplicateFinder::find(const std::vector<std::string>& ids) {
  if (seen_.size() < 2 * ids.size()) seen_.assign(std::bit_ceil(2 * ids.size()), {});
  ++round_;
  const std::uint64_t steps_max = steps_ + steps_min + steps_per_id * ids.size();
  for (std::uint32_t i = 0; i < ids.size(); ++i) {
    std::size_t at = hash_(ids[i]) & (seen_.size() - 1);
    for (; seen_[at].round == round_; at = (at + 1) & (seen_.size() - 1)) {
      if (ids[seen_[at].index] == ids[i]) return i;
      if (++steps_ > steps_max) return find_sorted(ids);
    }
    seen_[at] = {round_, i};
  }
  return std::nullopt;
}

std::optional<std::uint32_t> DuplicateFinder::find_sorted(const std::vector<std::string>& ids) {
  order_.resize(ids.size());
  std::iota(order_.begin(), order_.end(), 0U);
  std::ranges::sort(order_, [&](std::uint32_t a, std::uint32_t b) {
    const int order = ids[a].compare(ids[b]);
    return order != 0 ? order < 0 : a < b;
  });
  std::optional<std::uint32_t> first;
  for (std::size_t i = 1; i < order_.size(); ++i)
    if (ids[order_[i]] == ids[order_[i - 1]]) first = std::min(first.value_or(order_[i]), order_[i]);
  return first;
}

}  // namespace troupe::deploy
