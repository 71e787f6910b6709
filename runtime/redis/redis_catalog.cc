// Reads a profile and the catalog's changes from Redis in one round trip, and brings this router's
// copy of the catalog up to date. A long catch-up is done by one executor slot (thread) for all.
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

RedisCatalog::LoadPermit::~LoadPermit() {
  if (!catalog) return;
  const std::lock_guard lock(catalog->load_mutex_);
  catalog->loading_ = false;
  catalog->load_ended_.notify_all();
}

bool RedisCatalog::take_or_wait(LoadPermit& permit, RedisDeadline limit) {
  std::unique_lock lock(load_mutex_);
  if (loading_) return load_ended_.wait_until(lock, limit, [this] { return !loading_; });
  loading_ = true;
  permit.catalog = this;
  return true;
}

RedisCatalog::CatchUp RedisCatalog::begin(const std::string& run) const {
  CatalogPosition held = mirror_.position();
  if (held.run != run) held = {run, "", 0};
  const std::uint64_t version = held.version;
  return {std::move(held), version, version, {}, 0};
}

OrRedisFailure<StorePoint> RedisCatalog::ask(RedisConnectionPool::Session& session, const RedisKeys& keys,
                                             const std::string& user, RedisPipeline* behind) {
  LoadPermit permit;
  const RedisDeadline limit = std::chrono::steady_clock::now() + options_.wait_limit;
  CatchUp catch_up = begin(session.run_id());
  for (;;) {
    auto answer = next_page(session, keys, user, catch_up, permit.catalog != nullptr, behind);
    auto* page = std::get_if<CatalogPage>(&answer);
    if (!page) return std::get<RedisFailure>(std::move(answer));
    if (page->many) {  // a long catch-up, which one slot does for all
      if (!take_or_wait(permit, limit)) return RedisFailure{"the catalog is being loaded"};
      catch_up = begin(session.run_id());
      continue;
    }
    const bool last = page->entries.size() < options_.page_items;
    take(catch_up, *page, session.run_id());
    if (catch_up.restarts > restarts_max) return RedisFailure{"deletions are forgotten faster than read"};
    if (last) return settle(std::move(catch_up), *page);
    if (catch_up.changes.size() > 2 * limits_.items_max + options_.page_items)
      return RedisFailure{"the catalog does not end"};
  }
}

OrRedisFailure<CatalogPage> RedisCatalog::next_page(RedisConnectionPool::Session& session,
                                                    const RedisKeys& keys, const std::string& user,
                                                    const CatchUp& catch_up, bool full,
                                                    RedisPipeline* behind) {
  const PageQuestion question{catch_up.from.origin, catch_up.base, catch_up.cursor,
                              options_.page_items,  user,          full};
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
void RedisCatalog::take(CatchUp& catch_up, CatalogPage& page, const std::string& run) {
  if (page.after != catch_up.cursor || page.origin != catch_up.from.origin || page.after == 0) {
    catch_up.from = {run, page.origin, 0};
    catch_up.base = page.version;  // deletions from here on are relevant
    catch_up.changes.clear();
    ++catch_up.restarts;
  }
  for (CatalogPage::Entry& entry : page.entries) catch_up.changes.push_back(change_of(entry));
  catch_up.cursor = page.entries.empty() ? page.version : page.entries.back().version;
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

StorePoint RedisCatalog::settle(CatchUp catch_up, CatalogPage& page) {
  StorePoint point{catch_up.from, std::move(page.user), std::move(catch_up.from),
                   std::move(catch_up.changes)};
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
