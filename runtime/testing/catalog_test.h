#pragma once
// Test helper: a catalog of given items, numbered in their order.
#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/actor/ports.h"

namespace troupe {

class ListedCatalog final : public Catalog {
 public:
  explicit ListedCatalog(std::vector<Item> items, std::string version = "")
      : items_(std::move(items)), version_(std::move(version)) {}

  const std::string& version() const override { return version_; }
  ItemNumber find(std::string_view id) const override {
    const auto at = std::ranges::find(items_, id, &Item::id);
    return at == items_.end() ? no_item : static_cast<ItemNumber>(at - items_.begin());
  }
  ItemView item(ItemNumber number) const override { return items_.at(number); }
  ItemNumber next(ItemNumber from) const override { return from < items_.size() ? from : no_item; }

 private:
  std::vector<Item> items_;
  std::string version_;
};

inline std::vector<ItemNumber> numbers_up_to(std::size_t count) {
  std::vector<ItemNumber> numbers;
  while (numbers.size() < count) numbers.push_back(static_cast<ItemNumber>(numbers.size()));
  return numbers;
}
// Returns features with all of these items.
inline Features features_of(ProfilePointer user, std::vector<Item> items, std::string version = "") {
  std::vector<ItemNumber> numbers = numbers_up_to(items.size());
  return {std::move(user), std::make_shared<const ListedCatalog>(std::move(items), std::move(version)),
          std::move(numbers)};
}
inline ItemList list_of(std::vector<Item> items, bool last) {
  std::vector<ItemNumber> numbers = numbers_up_to(items.size());
  return {std::make_shared<const ListedCatalog>(std::move(items)), std::move(numbers), last};
}

}  // namespace troupe
