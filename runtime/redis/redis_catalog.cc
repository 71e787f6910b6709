#include "runtime/redis/redis_catalog.h"

#include <iterator>

namespace troupe {
namespace {

constexpr int restarts_max = 16;  // re-reads of the whole catalog, per request

}  // namespace

RedisCatalog::RedisCatalog(const FeatureLimits& limits, NameItem name_item, const Options& options)
    : limits_(limits),
      name_item_(std::move(name_item)),
      options_(options),
      mirror_(limits.items_max, options.history_max) {}

RedisCatalog::Turn::~Turn() {
  if (!catalog) return;
  const std::lock_guard lock(catalog->turn_mutex_);
  catalog->loading_ = false;
  catalog->turn_ended_.notify_one();
}

bool RedisCatalog::wait_for(Turn& turn) {
  std::unique_lock lock(turn_mutex_);
  if (!turn_ended_.wait_for(lock, options_.patience, [this] { return !loading_; })) return false;
  loading_ = true;
  turn.catalog = this;
  return true;
}

RedisCatalog::Gathering RedisCatalog::begin(const std::string& run) const {
  CatalogPosition held = mirror_.position();
  if (held.run != run) held = {run, "", 0};
  const std::uint64_t version = held.version;
  return {std::move(held), version, version, {}, 0};
}

OrRedisFailure<StorePoint> RedisCatalog::ask(RedisLanes::Session& session, const RedisKeys& keys,
                                             const std::string& user, RedisPipeline* behind) {
  Turn turn;
  Gathering gathered = begin(session.run_id());
  for (;;) {
    auto answer = next_page(session, keys, user, gathered, behind);
    auto* page = std::get_if<CatalogPage>(&answer);
    if (!page) return std::get<RedisFailure>(std::move(answer));
    const bool last = page->entries.size() < options_.page_items;
    if (!last && !turn.catalog) {  // a long catch-up, which one slot does for all
      if (!wait_for(turn)) return RedisFailure{"the catalog is being loaded"};
      gathered = begin(session.run_id());
      continue;
    }
    take(gathered, *page, session.run_id());
    if (gathered.restarts > restarts_max) return RedisFailure{"deletions are forgotten faster than read"};
    if (last) return settle(std::move(gathered), *page);
    if (gathered.changes.size() > 2 * limits_.items_max + options_.page_items)
      return RedisFailure{"the catalog does not end"};
  }
}

OrRedisFailure<CatalogPage> RedisCatalog::next_page(RedisLanes::Session& session, const RedisKeys& keys,
                                                    const std::string& user, const Gathering& gathered,
                                                    RedisPipeline* behind) {
  const PageQuestion question{gathered.from.origin, gathered.base, gathered.cursor, options_.page_items,
                              user};
  std::vector<RedisCommand> commands{ask_page(keys, question)};
  if (behind) commands.insert(commands.end(), behind->commands.begin(), behind->commands.end());
  auto answer = session.run(commands);
  if (auto* failure = std::get_if<RedisFailure>(&answer)) return std::move(*failure);
  auto& replies = std::get<std::vector<RedisReply>>(answer);
  RedisReply& reply = replies.front();
  if (behind)
    behind->replies.assign(std::make_move_iterator(replies.begin() + 1),
                           std::make_move_iterator(replies.end()));
  auto page = read_page(reply, question);
  if (page) return std::move(*page);
  session.drop();
  return RedisFailure{reply.is(RedisReply::Kind::error) ? "it answers with " + error_code(reply)
                                                        : "it answers in another form"};
}

// A page that starts at 0 without being asked to restarts the whole catalog.
void RedisCatalog::take(Gathering& gathered, CatalogPage& page, const std::string& run) {
  if (page.after != gathered.cursor || page.origin != gathered.from.origin || page.after == 0) {
    gathered.from = {run, page.origin, 0};
    gathered.base = page.version;  // deletions from here on are relevant
    gathered.changes.clear();
    ++gathered.restarts;
  }
  for (CatalogPage::Entry& entry : page.entries) gathered.changes.push_back(change_of(entry));
  gathered.cursor = page.entries.empty() ? page.version : page.entries.back().version;
}

CatalogChange RedisCatalog::change_of(CatalogPage::Entry& entry) {
  CatalogChange change{std::move(entry.id), entry.version, std::nullopt};
  if (!entry.record) return change;
  auto stored = decode_item(change.id, *entry.record, limits_);
  if (!stored) {
    count_bad_record();
    return change;
  }
  stored->item.block = name_item_(stored->item.tokens);
  change.item = std::move(stored->item);
  return change;
}

StorePoint RedisCatalog::settle(Gathering gathered, CatalogPage& page) {
  StorePoint point{gathered.from, std::move(page.user), std::move(gathered.from),
                   std::move(gathered.changes)};
  point.at.version = page.version;
  point.profiles = page.profiles;
  point.made_for = std::move(page.made_for);
  if (point.from.version == 0)
    mirror_.replace(point.at, point.changes);
  else
    mirror_.advance(point.from, point.at.version, point.changes);
  return point;
}

StoredCatalogPointer RedisCatalog::at(const StorePoint& point) const {
  if (auto catalog = mirror_.at(point.at)) return catalog;
  // Another slot has advanced the mirror past this point in one step: apply the changes to the
  // snapshot from which both started.
  return mirror_.branch(point.from, point.at.version, point.changes);
}

}  // namespace troupe
