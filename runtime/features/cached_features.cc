// Answers requests for users' profiles from memory where the request allows an older one, so that
// not every request waits for a remote feature store. Other requests wait for one shared reading,
// or a thread reads the profile afterwards.
#include "runtime/features/cached_features.h"

#include <chrono>
#include <utility>

#include "runtime/features/feature_rules.h"
#include "runtime/store/store_rows.h"

namespace troupe {
namespace {

Instant present() {
  return {std::chrono::duration_cast<std::chrono::microseconds>(
              std::chrono::steady_clock::now().time_since_epoch())
              .count()};
}

const ProfilePointer& absent_user() {
  static const ProfilePointer empty = std::make_shared<const Profile>();
  return empty;
}

std::string key_of(const Write& write) {
  if (const auto* put = std::get_if<PutUser>(&write.what)) return user_key(put->tenant, put->user);
  if (const auto* gone = std::get_if<DeleteUser>(&write.what)) return user_key(gone->tenant, gone->user);
  if (const auto* events = std::get_if<AppendEvents>(&write.what))
    return user_key(events->tenant, events->user);
  return "";
}

}  // namespace

CachedFeatures::CachedFeatures(std::unique_ptr<FeatureStore> store, const CachedFeatureOptions& options)
    : store_(std::move(store)),
      options_(options),
      profiles_(options.expiry),
      reader_([this] { run_reader(); }) {}

CachedFeatures::~CachedFeatures() {
  {
    const std::lock_guard lock(queue_mutex_);
    ended_ = true;
  }
  wanted_.notify_one();
  reader_.join();
}

Freshness CachedFeatures::freshness_of(const FindFeatures& wanted) const {
  if (wanted.user.empty()) return Freshness::exact;
  return wanted.freshness == Freshness::configured ? options_.usual : wanted.freshness;
}

std::optional<JobResult> CachedFeatures::run_now(const Job& job) {
  const auto* wanted = std::get_if<FindFeatures>(&job);
  if (!wanted || freshness_of(*wanted) == Freshness::exact) return store_->run_now(job);
  try {
    return find_cached(*wanted, user_key(wanted->tenant, wanted->user));
  } catch (const std::exception&) {  // out of memory
    return std::nullopt;
  }
}

JobResult CachedFeatures::run(const Job& job, std::uint32_t slot) {
  try {
    if (const auto* write = std::get_if<Write>(&job)) {
      JobResult result = store_->run(job, slot);
      note(*write);
      return result;
    }
    const auto* wanted = std::get_if<FindFeatures>(&job);
    if (!wanted) return store_->run(job, slot);
    if (freshness_of(*wanted) == Freshness::exact) {
      JobResult result = store_->run(job, slot);
      wake_if_stale();  // a request without a user may take stale items
      return result;
    }
    const std::string key = user_key(wanted->tenant, wanted->user);
    if (auto known = find_cached(*wanted, key)) return std::move(*known);
    return read_or_wait(*wanted, key, job, slot);
  } catch (const std::exception& error) {  // out of memory
    return Refusal{RefusalKind::internal, "port_failed", error.what(), "feature port", "to finish the job"};
  }
}

// Called whatever the write's result: it may have been stored.
void CachedFeatures::note(const Write& write) {
  if (const std::string key = key_of(write); !key.empty()) profiles_.written(key, present());
}

// Returns nullopt if the known catalog is not the wanted one.
std::optional<JobResult> CachedFeatures::answer_from(const FindFeatures& wanted,
                                                     ExpiringProfiles::Lookup found, bool behind) {
  if (wanted.paths && !store_->present_catalog()) return std::nullopt;  // the store refuses it
  CatalogPointer catalog = store_->catalog_with(wanted.items, behind);
  wake_if_stale();
  if (!catalog || (!wanted.catalog_version.empty() && wanted.catalog_version != catalog->version()))
    return std::nullopt;
  if (found.of == Features::Source::missing) found.row = absent_user();
  // A request with its own history names no user, so it is not answered here and no limit applies.
  JobResult result = find_items(wanted, std::move(found.row), std::move(catalog), {});
  if (auto* features = std::get_if<Features>(&result)) features->of = found.of;
  return result;
}

// Answers without the store, if possible.
std::optional<JobResult> CachedFeatures::find_cached(const FindFeatures& wanted, const std::string& key) {
  const bool behind = freshness_of(wanted) == Freshness::behind;
  ExpiringProfiles::Lookup found = profiles_.find(key, present(), behind);
  if (found.ask) enqueue_reading(key);
  if (!behind && found.of != Features::Source::cache) return std::nullopt;
  return answer_from(wanted, std::move(found), behind);
}

// Lets one executor slot read while others wait for it. Then all look again, because another's
// reading may have ended since their first look.
JobResult CachedFeatures::read_or_wait(const FindFeatures& wanted, const std::string& key, const Job& job,
                                       std::uint32_t slot) {
  struct End {
    CachedFeatures* features;  // null: another slot began the reading and ends it
    const std::string& key;
    ~End() {
      if (features) features->end_reading(key);
    }
  };
  const bool begun = begin_reading(key);
  const End end{begun ? this : nullptr, key};
  if (auto known = find_cached(wanted, key)) return std::move(*known);
  const Instant asked = present();
  JobResult result = store_->run(job, slot);
  // A store that is unreachable answers from memory; the age of that reading is unknown.
  if (const auto* features = std::get_if<Features>(&result);
      features && features->of == Features::Source::store)
    profiles_.put(key, features->user, asked);
  return result;
}

bool CachedFeatures::begin_reading(const std::string& key) {
  std::unique_lock lock(reading_mutex_);
  if (reading_.insert(key).second) return true;
  read_.wait(lock, [&] { return !reading_.contains(key); });
  return false;
}

void CachedFeatures::end_reading(const std::string& key) {
  {
    const std::lock_guard lock(reading_mutex_);
    reading_.erase(key);
  }
  read_.notify_all();
}

void CachedFeatures::wake_if_stale() {
  if (!store_->has_stale()) return;
  const std::lock_guard lock(queue_mutex_);
  stale_ = true;
  wanted_.notify_one();
}

void CachedFeatures::enqueue_reading(const std::string& key) {
  {
    const std::lock_guard lock(queue_mutex_);
    if (queue_.size() < options_.waiting_max) {
      queue_.push_back(key);
      wanted_.notify_one();
      return;
    }
  }
  profiles_.failed(key, present());
}

void CachedFeatures::read_users(std::span<const std::string> keys) {
  const Instant asked = present();
  std::vector<UserReading> users = store_->find_users(keys, options_.slot);
  for (std::size_t i = 0; i < keys.size(); ++i)
    if (users[i].read)
      profiles_.put(keys[i], std::move(users[i].user), asked);
    else
      profiles_.failed(keys[i], present());
}

void CachedFeatures::run_reader() {
  std::vector<std::string> keys;
  for (;;) {
    keys.clear();
    {
      std::unique_lock lock(queue_mutex_);
      wanted_.wait(lock, [this] { return ended_ || stale_ || !queue_.empty(); });
      if (ended_) return;
      stale_ = false;
      while (!queue_.empty() && keys.size() < options_.batch_max) {
        keys.push_back(std::move(queue_.front()));
        queue_.pop_front();
      }
    }
    try {
      read_users(keys);
    } catch (const std::exception&) {  // out of memory: later requests ask again
    }
  }
}

}  // namespace troupe
