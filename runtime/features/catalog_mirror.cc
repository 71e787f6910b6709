// Keeps a router's copy of a catalog that is stored elsewhere, with snapshots (immutable states) of
// its recent versions. A request can thus be answered from the version at which its user's profile
// was read.
#include "runtime/features/catalog_mirror.h"

#include <string_view>
#include <unordered_set>
#include <utility>

namespace troupe {
namespace {

constexpr std::size_t batch_items = 1'024;
constexpr std::size_t single_steps_max = 64;  // maximum single steps per advance
constexpr std::size_t steps_with_paths =
    4;  // most recent steps that keep their paths, which are far larger than the rest of a step

}  // namespace

CatalogPosition CatalogMirror::position() const {
  const std::lock_guard lock(mutex_);
  return position_;
}

std::uint64_t CatalogMirror::items() const { return present()->size(); }

std::uint64_t CatalogMirror::left_out() const {
  const std::lock_guard lock(mutex_);
  return left_out_;
}

StoredCatalogPointer CatalogMirror::present() const {
  const std::lock_guard lock(mutex_);
  return writer_.last();
}

std::uint64_t CatalogMirror::apply(CatalogWriter& writer, std::span<const CatalogChange> changes,
                                   std::uint64_t to) const {
  std::uint64_t left_out = 0;
  for (const CatalogChange& change : changes) {
    if (!change.item) {
      writer.erase(change.id);
    } else if (writer.size() < items_max_ || writer.contains(change.id)) {
      writer.put(*change.item, change.version);
    } else {
      ++left_out;
    }
    if (writer.changes() >= batch_items)
      writer.publish(to);  // so that a whole catalog does not wait in the writer
  }
  writer.publish(to);
  return left_out;
}

// An item that is also in the new catalog keeps its number.
void CatalogMirror::replace(const CatalogPosition& to, std::span<const CatalogChange> all) {
  std::deque<Step> history;  // freed after the lock
  const std::lock_guard lock(mutex_);
  if (position_.same_lineage(to) && position_.version >= to.version) return;
  std::unordered_set<std::string_view> there;
  for (const CatalogChange& change : all)
    if (change.item) there.insert(change.id);
  const StoredCatalogPointer before = writer_.last();
  for (ItemNumber number = before->next(0); number != no_item; number = before->next(number + 1))
    if (const ItemView item = before->item(number); !there.contains(item.id)) writer_.erase(item.id);
  left_out_ += apply(writer_, all, to.version);
  history_.swap(history);
  history_size_ = 0;
  position_ = to;
}

void CatalogMirror::advance(const CatalogPosition& from, std::uint64_t to,
                            std::span<const CatalogChange> changes) {
  const std::lock_guard lock(mutex_);
  if (!position_.same_lineage(from) || position_.version < from.version || position_.version >= to) return;
  const auto is_here = [&](const CatalogChange& change) { return change.version <= position_.version; };
  while (!changes.empty() && is_here(changes.front()))
    changes = changes.subspan(1);  // another slot applied them
  if (changes.size() <= single_steps_max)
    for (; position_.version + 1 < to && !changes.empty() && changes.front().version == position_.version + 1;
         changes = changes.subspan(1))
      step_to(position_.version + 1, changes.first(1));
  step_to(to, changes);
}

void CatalogMirror::step_to(std::uint64_t version, std::span<const CatalogChange> changes) {
  Step step{writer_.last(), writer_.leaves_copied()};
  left_out_ += apply(writer_, changes, version);
  step.leaves = 1 + writer_.leaves_copied() - step.leaves;
  history_size_ += step.leaves;
  history_.push_back(std::move(step));
  position_.version = version;
  trim_history();
}

void CatalogMirror::trim_history() {
  if (history_.size() > steps_with_paths) {
    const Catalog &old = *history_[history_.size() - steps_with_paths - 1].before,
                  &next = *history_[history_.size() - steps_with_paths].before;
    if (!old.shares_paths(next)) old.release_paths();
  }
  while (history_size_ > history_max_ && !history_.empty()) {
    history_size_ -= history_.front().leaves;
    history_.pop_front();
  }
}

StoredCatalogPointer CatalogMirror::at(const CatalogPosition& position) const {
  const std::lock_guard lock(mutex_);
  return find(position);
}

StoredCatalogPointer CatalogMirror::find(const CatalogPosition& position) const {
  if (position.version == 0) return empty_;
  if (!position_.same_lineage(position)) return nullptr;
  if (position_.version == position.version) return writer_.last();
  for (auto step = history_.rbegin(); step != history_.rend(); ++step)
    if (step->before->version_number() <= position.version)
      return step->before->version_number() == position.version ? step->before : nullptr;
  return nullptr;
}

StoredCatalogPointer CatalogMirror::named(const std::string& version) const {
  const std::lock_guard lock(mutex_);
  const auto is = [&](const StoredCatalogPointer& catalog) { return catalog->version() == version; };
  if (is(writer_.last())) return writer_.last();
  if (is(empty_)) return empty_;
  for (auto step = history_.rbegin(); step != history_.rend(); ++step)
    if (is(step->before)) return step->before;
  return nullptr;
}

StoredCatalogPointer CatalogMirror::branch(const CatalogPosition& from, std::uint64_t to,
                                           std::span<const CatalogChange> changes) const {
  const std::lock_guard lock(mutex_);  // all snapshots share one index
  StoredCatalogPointer base = find(from);
  if (!base) return nullptr;
  CatalogWriter writer(std::move(base));
  apply(writer, changes, to);
  return writer.last();
}

}  // namespace troupe
