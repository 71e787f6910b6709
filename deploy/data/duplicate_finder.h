#pragma once
// Finds an id that occurs twice in a list, for lists that arrive one after the other. The hash table is
// emptied by incrementing a round number, so that nothing is allocated per list. A list whose ids collide
// too often, as an attacker could arrange, is sorted instead.
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace troupe::deploy {

class DuplicateFinder {
 public:
  using Hash = std::function<std::size_t(std::string_view)>;
  explicit DuplicateFinder(Hash hash = std::hash<std::string_view>()) : hash_(std::move(hash)) {}

  // Returns the index of the first id that already occurs earlier in the list.
  std::optional<std::uint32_t> find(const std::vector<std::string>& ids);
  std::uint64_t steps() const { return steps_; }  // table steps over all lists

 private:
  std::optional<std::uint32_t> find_sorted(const std::vector<std::string>& ids);

  struct Slot {
    std::uint64_t round = 0;
    std::uint32_t index = 0;
  };
  Hash hash_;
  std::vector<Slot> seen_;
  std::vector<std::uint32_t> order_;
  std::uint64_t round_ = 0, steps_ = 0;
};

}  // namespace troupe::deploy
