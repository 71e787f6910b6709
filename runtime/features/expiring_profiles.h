#pragma once
// Profiles that were read from a store that is far away, each good for a while (FLAME §3.1): who may be
// answered with what is here, and who has to ask. Time is an argument, so that the simulation runs the same
// decisions.
//
// A profile counts from the moment in which its reading began, so what is answered with it is never older
// than it says. Users that were not there are remembered, too, for a shorter while. In buckets, each with a
// lock and least recently used first out.
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
  Duration stale_for{600'000'000};     // after its expiry, for who does not wait
  Duration unknown_expiry{5'000'000};  // of users that were not there
  double jitter = 0.1;                 // expiries are shorter by up to this share
  std::size_t bytes_max = std::size_t{64} << 20;
  std::uint32_t buckets = 16;
  Duration asking{1'000'000};  // after which a reading that has not ended may be begun again
};

// Thread-safe.
class ExpiringProfiles {
 public:
  explicit ExpiringProfiles(const ExpiryOptions& options);

  struct Found {
    Features::Of of =
        Features::Of::missing;  // cache: within the expiry; stale: within what follows it; else missing
    ProfilePointer user;        // of the first two; null: there is no such user
    bool ask = false;           // whoever `asks` has to read it now: nobody else does
  };
  // `asks`: the finder will read what is not good any more.
  Found find(const std::string& key, Instant now, bool asks);
  // As it was read by who began at `asked`. One that is older than what is known, or than a write here, is
  // dropped.
  void put(const std::string& key, ProfilePointer user, Instant asked);
  void failed(const std::string& key,
              Instant now);  // the reading that `ask` was about: another may be tried in a while
  void written(const std::string& key,
               Instant now);  // by this process: what was read before is not good any more

  std::size_t bytes() const;  // at most bytes_max

 private:
  struct Entry {
    std::string key;
    ProfilePointer user;
    bool known = false;          // `user` was read
    Instant asked, expires;      // of what is known
    Instant written{INT64_MIN};  // here, last
    Instant asking_until{INT64_MIN};
    std::size_t bytes = 0;
  };
  struct Bucket {
    mutable std::mutex mutex;  // guards the rest
    std::list<Entry> order;    // most recently used first
    std::unordered_map<std::string, std::list<Entry>::iterator> entries;
    std::size_t bytes = 0;
    std::uint64_t puts = 0;
  };
  Bucket& bucket_of(const std::string& key);
  static Entry* entry_of(Bucket& bucket, const std::string& key);
  static Entry& touch(Bucket& bucket, const std::string& key);
  void fit(Bucket& bucket, Entry& changed) const;
  Duration expiry_of(const std::string& key, bool there, std::uint64_t put) const;

  const ExpiryOptions options_;
  std::vector<Bucket> buckets_;
};

}  // namespace troupe
