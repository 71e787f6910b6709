// Caches items of a catalog in Redis that this router does not hold as a whole, and reads those that are not
// known well enough together with the profile.
#include "runtime/redis/redis_items.h"

#include <iterator>
#include <utility>

namespace troupe {

OrRedisFailure<ItemPoint> RedisItems::read(RedisConnectionPool::Session& session, const RedisKeys& keys,
                                           const std::string& user, std::span<const std::string> items,
                                           Freshness freshness, Instant now, RedisPipeline* behind) {
  CatalogWriter catalog;
  ItemSources sources;
  const ItemQuestion question{user, take_known(items, freshness, now, catalog, sources)};
  std::vector<RedisCommand> commands{ask_items(keys, question)};
  if (behind) commands.insert(commands.end(), behind->commands.begin(), behind->commands.end());
  auto answer = session.run(commands);
  if (auto* failure = std::get_if<RedisFailure>(&answer)) return std::move(*failure);
  auto& replies = std::get<std::vector<RedisReply>>(answer);
  auto page = read_items(replies.front(), question);
  if (!page) {
    const RedisReply& reply = replies.front();
    session.drop();
    return RedisFailure{reply.is(RedisReply::Kind::error) ? "it answers with " + error_code(reply)
                                                          : "it answers in another form"};
  }
  if (behind)
    behind->replies.assign(std::make_move_iterator(replies.begin() + 1),
                           std::make_move_iterator(replies.end()));
  for (std::size_t i = 0; i < question.items.size(); ++i) {
    const Found found = item_of(question.items[i], page->rows[i].record, page->rows[i].version);
    if (found) catalog.put(found->item, found->catalog);
    cache_.put(question.items[i], found, now);
  }
  ItemPoint read;
  read.point.at = {session.run_id(), page->origin, page->version};
  read.point.user = std::move(page->user);
  read.point.profiles = page->profiles;
  read.point.made_for = std::move(page->made_for);
  note(read.point.at, page->items);
  report(sources);
  read.catalog = catalog.publish(page->version);
  return read;
}

StoredCatalogPointer RedisItems::find(std::span<const std::string> items, Freshness freshness, Instant now) {
  const std::uint64_t version = position().version;
  if (freshness == Freshness::exact || position().run.empty()) return nullptr;
  CatalogWriter catalog;
  ItemSources sources;
  if (!take_known(items, freshness, now, catalog, sources).empty()) return nullptr;
  report(sources);
  return catalog.publish(version);
}

// An item that is known to be absent is known. For `exact`, no item is.
std::vector<std::string> RedisItems::take_known(std::span<const std::string> items, Freshness freshness,
                                                Instant now, CatalogWriter& catalog, ItemSources& sources) {
  if (freshness == Freshness::exact) {
    sources.read = items.size();
    return {items.begin(), items.end()};
  }
  std::vector<std::string> missing, stale;
  for (const std::string& id : items) {
    const ExpiringItems::Lookup known = cache_.find(id, now, freshness == Freshness::behind);
    const bool usable = known.of == Features::Source::cache ||
                        (freshness == Freshness::behind && known.of == Features::Source::stale);
    if (!usable) {
      missing.push_back(id);
      ++sources.read;
      continue;
    }
    ++(known.of == Features::Source::cache ? sources.cached : sources.stale);
    if (known.row) catalog.put(known.row->item, known.row->catalog);
    if (known.ask) stale.push_back(id);
  }
  const std::lock_guard lock(mutex_);
  for (std::string& id : stale)
    if (stale_.size() < stale_max) stale_.insert(std::move(id));
  return missing;
}

void RedisItems::report(const ItemSources& sources) const {
  if (on_sources_) on_sources_(sources);
}

RedisItems::Found RedisItems::item_of(const std::string& id, const std::optional<std::string>& record,
                                      std::uint64_t version) {
  if (!record) return nullptr;
  auto stored = decode_item(id, *record, limits_);
  if (!stored) {
    ++bad_records_;
    return nullptr;
  }
  stored->item.block = name_item_(stored->item.tokens);
  stored->catalog = version;
  return std::make_shared<const StoredItem>(std::move(*stored));
}

// A late slot reports an older position of the same lineage.
void RedisItems::note(const CatalogPosition& at, std::uint64_t items) {
  const std::lock_guard lock(mutex_);
  if (position_.same_lineage(at) && position_.version > at.version) return;
  position_ = at;
  items_ = items;
}

bool RedisItems::has_stale() const {
  const std::lock_guard lock(mutex_);
  return !stale_.empty();
}

std::vector<std::string> RedisItems::take_stale() {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> taken(stale_.begin(), stale_.end());
  stale_.clear();
  return taken;
}

CatalogPosition RedisItems::position() const {
  const std::lock_guard lock(mutex_);
  return position_;
}

std::uint64_t RedisItems::items() const {
  const std::lock_guard lock(mutex_);
  return items_;
}

}  // namespace troupe
