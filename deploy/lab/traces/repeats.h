#pragma once
// Whether an id comes twice in a list, for lists that arrive one after the other. A hash table that is
// emptied by counting up, so that nothing is allocated per list; ids that were made to meet in it are sorted
// instead.
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace troupe::deploy {

class Repeats {
 public:
  using Hash = std::function<std::size_t(std::string_view)>;
  explicit Repeats(Hash hash = std::hash<std::string_view>()) : hash_(std::move(hash)) {}

  // The index of the first id that came before it in the list.
  std::optional<std::uint32_t> find(const std::vector<std::string>& ids);
  std::uint64_t steps() const { return steps_; }  // of the table, over all lists

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
