#pragma once
// Keeps profiles read from a remote store, each valid for a while (FLAME §3.1). It decides which
// requests are answered from memory and which caller must read the remote store. Time is an
// argument, so that the simulation runs the same decisions.
//
// A profile's age counts from the moment its reading began, so an answer is never older than it
// claims. A reading is one read of the remote store. Absent users are remembered too, for a shorter
// time. Entries are in buckets, each with a lock and LRU eviction.
#include <cstddef>
#include <cstdint>
#include <list>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/actor/core.h"
#include "runtime/actor/ports.h"

namespace troupe {

struct ExpiryOptions {
  Duration expiry{60'000'000};
  Duration stale_for{600'000'000};     // after its expiry, time while a profile counts as stale
  Duration unknown_expiry{5'000'000};  // expiry of absent users
  double jitter = 0.1;                 // maximum fraction by which an expiry is shortened
  std::size_t bytes_max = std::size_t{64} << 20;
  std::uint32_t buckets = 16;
  Duration asking{1'000'000};  // time limit of a reading: after it another caller may read
};

// Thread-safe.
class ExpiringProfiles {
 public:
  explicit ExpiringProfiles(const ExpiryOptions& options);

  struct ProfileLookup {
    Features::Source of =
        // cache: within the expiry; stale: within stale_for after it; otherwise missing
        Features::Source::missing;
    ProfilePointer user;  // for cache and stale; null = no such user
    bool ask = false;     // the caller must read the remote store now: nobody else does
  };
  // `asks`: the caller reads the remote store if the profile is not fresh and `ask` is returned.
  ProfileLookup find(const std::string& key, Instant now, bool asks);
  // Stores a profile whose reading began at `asked`; null: there is no such user. A reading older
  // than the stored one, or than a write by this process, is dropped.
  void put(const std::string& key, ProfilePointer user, Instant asked);
  // Records that a reading failed; another may start after an eighth of `asking`.
  void failed(const std::string& key, Instant now);
  // Records a write by this process: earlier readings are invalid.
  void written(const std::string& key, Instant now);

  std::size_t bytes() const;  // at most bytes_max

 private:
  struct Entry {
    std::string key;
    ProfilePointer user;
    bool known = false;          // a reading is stored: `user`, or null for an absent user
    Instant asked, expires;      // start and expiry of the stored reading
    Instant written{INT64_MIN};  // last write by this process
    Instant reading_until{INT64_MIN};
    std::size_t bytes = 0;
  };
  struct Bucket {
    mutable std::mutex mutex;  // guards the other members
    std::list<Entry> order;    // most recently used first
    std::unordered_map<std::string, std::list<Entry>::iterator> entries;
    std::size_t bytes = 0;
    std::uint64_t puts = 0;  // readings stored so far, for the jitter
  };
  Bucket& bucket_of(const std::string& key);
  static Entry* entry_of(Bucket& bucket, const std::string& key);
  static Entry& touch(Bucket& bucket, const std::string& key);
  void fit(Bucket& bucket, Entry& changed) const;
  // Returns a new entry's expiry. `there`: the user exists. `put` varies the jitter.
  Duration expiry_of(const std::string& key, bool there, std::uint64_t put) const;

  const ExpiryOptions options_;
  std::vector<Bucket> buckets_;
};

}  // namespace troupe
