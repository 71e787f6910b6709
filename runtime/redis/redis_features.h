#pragma once
// The features of several routers that share users and items, kept in one Redis. A router holds the catalog
// in memory and asks Redis once per request, for the profile and for what changed in the catalog since it
// asked last: what was acknowledged at one router is in every answer that any other begins afterwards.
//
// Never a mix: profile, items and catalog version of an answer are the state at one point of the store's
// history, the atomic step that read the profile. While Redis is away (refused, silent, broken, loading, read
// only, a replica, or talking nonsense) answers are, as configured,
//   refuse      503 `features_unavailable`;
//   last_known  the answer that this router had at an earlier such point, told as stale: a profile as it was
//   read here last,
//               with the items as they stood at that very reading. Two users may so be answered from two
//               points, one request never. What is not known whole is refused as above: a profile that was
//               not read here or that was written here since, a point from which too many items have changed,
//               a catalog that was never loaded.
// Nothing is written meanwhile: 503 `features_unavailable` if surely nothing was stored, 503
// `outcome_unknown` if the connection was lost after the write was sent: it was stored, will be when Redis
// goes on, or is lost.
//
// A write lasts as long as Redis keeps it: with `appendfsync always` through a crash, with `everysec` but for
// a second or two (even if only its process is killed), without persistence not at all. `wait_replicas` asks
// for as many replicas to have it in memory, or answers `outcome_unknown`. After a restart or a failover of
// Redis routers read the whole catalog again, since its last writes may be missing and their versions given
// out anew by routers that never saw them; a router that did goes on above them, and tells of the loss.
// `maxmemory-policy noeviction` is assumed: an evicted user is an unknown user. Nothing is encrypted on the
// way (no TLS).
//
// Redis grants needed: AUTH, SELECT, INFO, SCRIPT LOAD, EVALSHA, WAIT, and commands on keys below the prefix.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "runtime/features/feature_store.h"
#include "runtime/features/held_catalogs.h"
#include "runtime/features/profile_cache.h"
#include "runtime/redis/redis_catalog.h"
#include "runtime/redis/redis_lanes.h"
#include "runtime/redis/redis_memory.h"
#include "runtime/redis/redis_scripts.h"
#include "runtime/store/store_rows.h"

namespace troupe {

enum class WhenAway : std::uint8_t { refuse, last_known };

struct RedisFeatureOptions {
  RedisAddress address;
  std::string prefix = "troupe:";                 // of all keys; several clusters may share a database
  std::uint32_t lanes = 4;                        // each with a connection
  std::chrono::microseconds time_limit{200'000};  // of connecting, and of each round trip
  std::chrono::microseconds reconnect_pause{50'000};
  WhenAway when_away = WhenAway::refuse;
  std::size_t last_known_bytes_max = std::size_t{256} << 20;  // of profiles
  std::size_t catalog_history_max = 1 << 14;  // leaves replaced lately (CatalogMirror), for last_known
  std::uint32_t wait_replicas = 0;            // that must have a write before it is answered
  std::uint32_t page_items = 256;             // per round trip while the catalog is loaded
  std::uint64_t deletions_max = 100'000;      // remembered; who missed more reads all
  // Of what was noted with the rows ("" if nothing): why they are not ours, or "". Then Redis is as if it
  // were away.
  std::function<std::string(const std::string& made_for)> refuses;
  std::function<void(const std::string& what)> on_loss;  // it lacks what it had; from any lane
};

class RedisFeaturePort final : public FeatureStore {
 public:
  // Loads the catalog if Redis is there; otherwise the first request that finds it does. `model_version`: as
  // for FeaturePort.
  RedisFeaturePort(RedisFeatureOptions options, const FeatureLimits& limits, NameItem name_item,
                   std::string model_version = "");

  JobResult run(const Job& job, std::uint32_t lane) override;

  // Checked as a whole, then sent in pipelines: rows become visible one by one, for routers go on meanwhile.
  // A row that is refused on the way (its item was deleted meanwhile) or a connection that breaks ends the
  // import: the rows that it reports as stored are stored, and the same import may be done again.
  // `forget_users` is refused.
  void import(const Import& rows) override;

  std::optional<std::string> made_for() override;
  void note_made_for(const std::string& made_for) override;
  bool untouched() const override {
    return !catalog_.mirror().position().run.empty() && memory_.catalog() == 0 && memory_.profiles() == 0;
  }

  std::uint64_t items() const override { return catalog_.mirror().items(); }  // when asked last
  std::string catalog_version() const override;
  CatalogPointer catalog_at(const std::string& version) override;  // may ask Redis
  CatalogPointer present_catalog() const override;
  std::vector<FoundUser> find_users(std::span<const std::string> keys, std::uint32_t lane) override;
  std::uint64_t bad_records() const override { return catalog_.bad_records(); }

 private:
  OrRedisFailure<StorePoint> ask(std::uint32_t lane, const std::string& user);
  OrRedisFailure<StorePoint> ask(RedisLanes::Session& session, const std::string& user,
                                 RedisPipeline* behind = nullptr);
  ProfilePointer profile_of(const std::optional<std::string>& user_row, const std::string& key);

  JobResult find(const FindFeatures& wanted, std::uint32_t lane);
  std::optional<JobResult> answer(const FindFeatures& wanted, const std::string& key,
                                  const StorePoint& point);
  JobResult find_last_known(const FindFeatures& wanted, const std::string& key, const RedisFailure& away);
  JobResult list(const ListItems& wanted, std::uint32_t lane);

  std::optional<Refusal> draft(const PutUser& put, const StoredCatalog& catalog, UserDraft& made) const;
  RedisCommand command_of(const std::string& user, const UserDraft& made) const;
  RedisCommand command_of(const PutItem& put) const;

  JobResult write(const PutUser& put, std::uint32_t lane);
  JobResult write(const DeleteUser& gone, std::uint32_t lane);
  JobResult write(const PutItem& put, std::uint32_t lane);
  JobResult write(const DeleteItem& gone, std::uint32_t lane);
  JobResult write(const AppendEvents& events, std::uint32_t lane);
  // Absent: it was made of what is there no more.
  std::optional<JobResult> try_append(const AppendEvents& events, const std::string& key,
                                      const StorePoint& point, RedisLanes::Session& session);
  JobResult read(const GetUser& wanted, std::uint32_t lane);
  JobResult read(const GetItem& wanted, std::uint32_t lane);
  std::optional<StoredProfile> stored_of(const StorePoint& point, const std::string& key);
  std::variant<WriteOutcome, Refusal> send(RedisCommand command, std::uint32_t lane);
  std::variant<WriteOutcome, Refusal> send(RedisCommand command, RedisLanes::Session& session);
  void add_wait(std::vector<RedisCommand>& commands) const;
  bool is_confirmed(const RedisReply& last) const;  // of a pipeline that add_wait() has ended
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
  const std::string nonce_;  // names what is in the store, if we are the first to write
  const RedisKeys keys_;
  RedisLanes lanes_;
  RedisCatalog catalog_;
  RedisMemory memory_;
  ProfileCache profiles_;
  HeldCatalogs held_;
};

}  // namespace troupe
