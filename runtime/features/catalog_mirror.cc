#include "runtime/features/catalog_mirror.h"

#include <mutex>
#include <string_view>
#include <unordered_map>

namespace troupe {

CatalogPosition CatalogMirror::position() const {
  const std::shared_lock lock(mutex_);
  return position_;
}

std::uint64_t CatalogMirror::items() const {
  const std::shared_lock lock(mutex_);
  return items_.size();
}

std::uint64_t CatalogMirror::left_out() const {
  const std::shared_lock lock(mutex_);
  return left_out_;
}

ItemPointer CatalogMirror::put(Items& items, const CatalogChange& change) {
  const auto at = items.find(change.id);
  if (at != items.end()) {
    ItemPointer before = std::move(at->second);
    if (change.item)
      at->second = change.item;
    else
      items.erase(at);
    return before;
  }
  if (!change.item) return nullptr;
  if (items.size() < items_max_)
    items.emplace(change.id, change.item);
  else
    ++left_out_;
  return nullptr;
}

void CatalogMirror::replace(const CatalogPosition& to, std::span<const CatalogChange> all) {
  Items items;
  std::deque<Step> history;  // freed after the lock, like the old items
  const std::unique_lock lock(mutex_);
  if (position_.same_lineage(to) && position_.version >= to.version) return;
  for (const CatalogChange& change : all) put(items, change);
  items_.swap(items);
  history_.swap(history);
  history_size_ = 0;
  position_ = to;
}

void CatalogMirror::advance(const CatalogPosition& from, std::uint64_t to,
                            std::span<const CatalogChange> changes) {
  const std::unique_lock lock(mutex_);
  if (!position_.same_lineage(from) || position_.version < from.version || position_.version >= to) return;
  Step step{position_.version, {}};
  for (const CatalogChange& change : changes)  // another lane may have brought the first ones
    if (change.version > position_.version) step.before.emplace_back(change.id, put(items_, change));
  history_size_ += 1 + step.before.size();
  history_.push_back(std::move(step));
  position_.version = to;
  trim_history();
}

void CatalogMirror::trim_history() {
  while (history_size_ > history_max_ && !history_.empty()) {
    history_size_ -= 1 + history_.front().before.size();
    history_.pop_front();
  }
}

std::optional<std::vector<ItemPointer>> CatalogMirror::read(const CatalogPosition& at,
                                                            std::span<const std::string> ids) const {
  std::vector<ItemPointer> found(ids.size());
  if (at.version == 0) return found;
  const std::shared_lock lock(mutex_);
  if (!position_.same_lineage(at) || position_.version < at.version) return {};
  std::unordered_map<std::string_view, const ItemPointer*> earlier;  // of two steps the older one counts
  std::uint64_t version = position_.version;
  for (auto step = history_.rbegin(); step != history_.rend() && version > at.version; ++step) {
    for (const auto& [id, before] : step->before) earlier[id] = &before;
    version = step->from;
  }
  if (version != at.version) return {};
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (const auto known = earlier.find(ids[i]); known != earlier.end())
      found[i] = *known->second;
    else if (const auto item = items_.find(ids[i]); item != items_.end())
      found[i] = item->second;
  }
  return found;
}

ItemList CatalogMirror::list(const ListItems& wanted) const {
  ItemList page;
  const std::shared_lock lock(mutex_);
  auto at = items_.upper_bound(wanted.after);
  for (; at != items_.end() && page.items.size() < wanted.count; ++at) page.items.push_back(at->second->item);
  page.last = at == items_.end();
  return page;
}

}  // namespace troupe
