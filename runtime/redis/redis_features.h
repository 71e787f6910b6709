#pragma once
// Feature store for several routers that share users and items in one Redis. A router keeps the
// catalog in memory and asks Redis once per request, for the profile and for the catalog's changes
// since its last request. Every write acknowledged at one router is in every answer that any router
// begins afterwards.
//
// With `cached_items` a router holds no catalog: it reads the items of each request, and caches them
// (redis_items.h). What needs the whole catalog is then refused or empty: generation, and lists of items.
//
// Profile, items and catalog version of an answer are never mixed: they are the store's state at
// one point, the atomic step that read the profile. Redis is away while it is unreachable, silent,
// broken, loading, read only, a replica, or sends malformed replies. Reads are then answered as
// configured:
// - refuse: unavailable, `features_unavailable`.
// - last_known: the answer at an earlier point, reported as stale. The profile is the one that this
//   router read last, with the items as they were at that reading. Two users may be answered from two
//   points, one request never. Incomplete data is refused as above: a profile not read here or
//   written here since, a point since which too many items changed, a catalog that was never loaded.
//
// Writes are refused meanwhile, as unavailable: `features_unavailable` if certainly nothing was
// stored, `outcome_unknown` if the connection was lost after the write was sent. Such a write may be
// stored now, later, or never.
//
// A write is as durable as Redis makes it: with `appendfsync always` it survives a crash; with
// `everysec` a second or two may be lost (even if only the process is killed); without persistence
// all is lost. `wait_replicas` requires that many replicas to have the write in memory, otherwise
// the answer is `outcome_unknown`. After a restart or failover of Redis, routers read the whole
// catalog again: its last writes may be missing, and routers that never saw them may reuse their
// versions. A router that saw them continues above them and reports the loss. An evicted user is an
// unknown user: a `maxmemory-policy` that may evict is reported at connect, and evictions as a loss,
// within seconds of use. The connection is encrypted only with rediss:// addresses.
//
// Required Redis permissions: AUTH, SELECT, INFO, SCRIPT LOAD, EVALSHA, WAIT, and commands on
// keys below the prefix.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "runtime/features/catalogs_in_use.h"
#include "runtime/features/feature_store.h"
#include "runtime/features/profile_cache.h"
#include "runtime/redis/redis_catalog.h"
#include "runtime/redis/redis_connection_pool.h"
#include "runtime/redis/redis_items.h"
#include "runtime/redis/redis_memory.h"
#include "runtime/redis/redis_scripts.h"
#include "runtime/store/store_rows.h"

namespace troupe {

enum class WhenAway : std::uint8_t { refuse, last_known };

struct RedisFeatureOptions {
  RedisAddress address;
  std::string prefix = "troupe:";                 // prefix of all keys; several clusters may share a database
  std::uint32_t connections = 4;                  // executor slots, each with a connection
  std::chrono::microseconds time_limit{200'000};  // limit for connecting, and for each round trip
  std::chrono::microseconds reconnect_pause{50'000};
  WhenAway when_away = WhenAway::refuse;
  std::size_t last_known_bytes_max = std::size_t{256} << 20;  // bytes of profiles
  // Recently replaced leaves (CatalogMirror), for last_known.
  std::size_t catalog_history_max = 1 << 14;
  std::uint32_t wait_replicas = 0;  // replicas that must have a write before it is answered
  std::uint32_t page_items = 256;   // per round trip while the catalog is loaded
  // Deletions remembered; a router that missed more reads the whole catalog.
  std::uint64_t deletions_max = 100'000;
  // Checks the note stored with the rows ("" if none): returns why the rows belong to another
  // model, or "". If it refuses, requests are answered as if Redis were away.
  std::function<std::string(const std::string& made_for)> refuses;
  // Not null: items are read one by one and cached, so that the catalog may be larger than this router.
  std::optional<ExpiryOptions> cached_items = {};
  Freshness items_usual = Freshness::exact;  // of cached items, for requests that do not say
  RedisItems::OnSources on_item_sources;     // of cached items
  // Redis lacks writes it had; called from any slot
  std::function<void(const std::string& what)> on_loss;
  // Redis may evict rows; said once for each run and policy, from any slot
  std::function<void(const std::string& what)> on_risk;
};

class RedisFeaturePort final : public FeatureStore {
 public:
  // Loads the catalog if Redis is reachable; otherwise the first request that reaches it does.
  // `model_version`: as for RocksFeaturePort.
  RedisFeaturePort(RedisFeatureOptions options, const FeatureLimits& limits, NameItem name_item,
                   std::string model_version = "");

  JobResult run(const Job& job, std::uint32_t connection) override;

  // Checks everything, then sends the rows in pipelines. Rows become visible one by one, because
  // routers continue meanwhile. A row refused on the way (its item was deleted meanwhile) or a
  // broken connection ends the import. The rows that it reports as stored are stored, and the
  // import may be repeated. `forget_users` is refused.
  void import(const Import& rows) override;

  std::optional<std::string> made_for() override;
  void note_made_for(const std::string& made_for) override;
  bool untouched() const override {
    return !position().run.empty() && memory_.catalog() == 0 && memory_.profiles() == 0;
  }

  std::uint64_t items() const override {  // at the last request
    return items_ ? items_->items() : catalog_.mirror().items();
  }
  std::string catalog_version() const override;
  CatalogPointer catalog_at(const std::string& version) override;  // may ask Redis
  CatalogPointer present_catalog() const override;
  CatalogPointer catalog_with(std::span<const std::string> items, bool behind) override;
  bool has_stale() const override { return items_ && items_->has_stale(); }
  std::vector<UserReading> find_users(std::span<const std::string> keys, std::uint32_t connection) override;
  std::uint64_t bad_records() const override {
    return catalog_.bad_records() + (items_ ? items_->bad_records() : 0);
  }

 private:
  void note_standing(const RedisStanding& now);
  CatalogPosition position() const { return items_ ? items_->position() : catalog_.mirror().position(); }
  std::optional<RedisFailure> reject_if_unfit(const StorePoint& point);
  // Reads a point, and the catalog to answer from: the whole one, or only these items. The catalog is null
  // if the point is no longer known.
  OrRedisFailure<ItemPoint> read_point(RedisConnectionPool::Session& session, const std::string& user,
                                       std::span<const std::string> items, Freshness freshness,
                                       RedisPipeline* behind = nullptr);
  OrRedisFailure<ItemPoint> read_point(std::uint32_t connection, const std::string& user,
                                       std::span<const std::string> items, Freshness freshness);
  void note_item(const std::string& item, std::uint32_t connection);
  OrRedisFailure<StorePoint> ask(std::uint32_t connection, const std::string& user);
  OrRedisFailure<StorePoint> ask(RedisConnectionPool::Session& session, const std::string& user,
                                 RedisPipeline* behind = nullptr);
  ProfilePointer profile_of(const std::optional<std::string>& user_row, const std::string& key);

  JobResult find(const FindFeatures& wanted, std::uint32_t connection);
  std::optional<JobResult> answer(const FindFeatures& wanted, const std::string& key, const ItemPoint& read);
  JobResult find_last_known(const FindFeatures& wanted, const std::string& key, const RedisFailure& away);
  JobResult list(const ListItems& wanted, std::uint32_t connection);

  std::optional<Refusal> draft(const PutUser& put, const StoredCatalog& catalog, UserDraft& made) const;
  RedisCommand command_of(const std::string& user, const UserDraft& made) const;
  RedisCommand command_of(const PutItem& put) const;

  JobResult write(const PutUser& put, std::uint32_t connection);
  JobResult write(const DeleteUser& gone, std::uint32_t connection);
  JobResult write(const PutItem& put, std::uint32_t connection);
  JobResult write(const DeleteItem& gone, std::uint32_t connection);
  JobResult write(const AppendEvents& events, std::uint32_t connection);
  // Returns nullopt if the profile or an item changed meanwhile.
  std::optional<JobResult> try_append(const AppendEvents& events, const std::string& key,
                                      const ItemPoint& read, RedisConnectionPool::Session& session);
  JobResult read(const GetUser& wanted, std::uint32_t connection);
  JobResult read(const GetItem& wanted, std::uint32_t connection);
  std::optional<StoredProfile> stored_of(const StorePoint& point, const std::string& key);
  std::variant<WriteOutcome, Refusal> send(RedisCommand command, std::uint32_t connection);
  std::variant<WriteOutcome, Refusal> send(RedisCommand command, RedisConnectionPool::Session& session);
  void add_wait(std::vector<RedisCommand>& commands) const;
  // `last`: the reply to the pipeline that add_wait() completed
  bool is_confirmed(const RedisReply& last) const;
  void note_written(const std::string& user, const std::variant<WriteOutcome, Refusal>& outcome);

  using Outcomes = std::vector<WriteOutcome>;
  Outcomes import_batch(const char* kind, std::vector<RedisCommand> commands, std::size_t done,
                        const std::string& run);
  void import_changed(const PutUser& row, std::size_t done);
  RedisReply run_on_meta(RedisCommand command);  // throws StoreError
  void check_import(const Import& rows, const StoredCatalog& before) const;
  void send_items(std::span<const PutItem> rows);
  void drop_items(std::span<const PutItem> kept, const StoredCatalog& before);
  void send_users(std::span<const PutUser> rows);
  void require_catalog(const char* kind);  // throws StoreError

  const RedisFeatureOptions options_;
  const FeatureLimits limits_;
  const NameItem name_item_;
  const std::string model_version_;
  const std::string nonce_;  // becomes the store's origin if this process writes first
  const RedisKeys keys_;
  RedisEvictions evictions_;  // before `connections_`, which report to it
  RedisConnectionPool connections_;
  RedisCatalog catalog_;
  const std::unique_ptr<RedisItems> items_;  // null: the whole catalog is in `catalog_`
  RedisMemory memory_;
  ProfileCache profiles_;
  CatalogsInUse catalogs_in_use_;
};

}  // namespace troupe
