#pragma once
// Keeps rows read from a remote store, each valid for a while (FLAME §3.1): users' profiles, or items. It
// decides which requests are answered from memory and which caller must read the remote store. Time is an
// argument, so that the simulation runs the same decisions.
//
// A row's age counts from the moment its reading began, so an answer is never older than it
// claims. A reading is one read of the remote store. Absent rows are remembered too, for a shorter
// time. Entries are in buckets, each with a lock and LRU eviction.
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/actor/core.h"
#include "runtime/actor/ports.h"
#include "runtime/store/store_rows.h"

namespace troupe {

struct ExpiryOptions {
  Duration expiry{60'000'000};
  Duration stale_for{600'000'000};     // after its expiry, time while a row counts as stale
  Duration unknown_expiry{5'000'000};  // expiry of absent rows
  double jitter = 0.1;                 // maximum fraction by which an expiry is shortened
  std::size_t bytes_max = std::size_t{64} << 20;
  std::uint32_t buckets = 16;
  Duration asking{1'000'000};  // time limit of a reading: after it another caller may read
};

// Items of requests, by where a request had them from.
struct ItemSources {
  std::uint64_t cached = 0;  // the cache, within the expiry
  std::uint64_t stale = 0;   // the cache, after it
  std::uint64_t read = 0;    // the remote store
};

// Returns the memory that an entry of the cache takes. `item` null: an entry without one.
std::size_t cached_bytes(const std::string& key, const StoredItem* item);

// Thread-safe. `Row` is Profile or StoredItem.
template <class Row>
class ExpiringRows {
 public:
  using RowPointer = std::shared_ptr<const Row>;
  explicit ExpiringRows(const ExpiryOptions& options);

  struct Lookup {
    Features::Source of =
        // cache: within the expiry; stale: within stale_for after it; otherwise missing
        Features::Source::missing;
    RowPointer row;    // for cache and stale; null = there is none
    bool ask = false;  // the caller must read the remote store now: nobody else does
  };
  // `asks`: the caller reads the remote store if the row is not fresh and `ask` is returned.
  Lookup find(const std::string& key, Instant now, bool asks);
  // Stores a row whose reading began at `asked`; null: there is none. A reading older than the
  // stored one, or than a write by this process, is dropped.
  void put(const std::string& key, RowPointer row, Instant asked);
  // Records that a reading failed; another may start after an eighth of `asking`.
  void failed(const std::string& key, Instant now);
  // Records a write by this process: earlier readings are invalid.
  void written(const std::string& key, Instant now);

  std::size_t bytes() const;  // at most bytes_max

 private:
  struct Entry {
    std::string key;
    RowPointer row;
    bool known = false;          // a reading is stored: `row`, or null for an absent one
    Instant asked, expires;      // start and expiry of the stored reading
    Instant written{INT64_MIN};  // last write by this process
    Instant reading_until{INT64_MIN};
    std::size_t bytes = 0;
  };
  struct Bucket {
    mutable std::mutex mutex;  // guards the other members
    std::list<Entry> order;    // most recently used first
    std::unordered_map<std::string, typename std::list<Entry>::iterator> entries;
    std::size_t bytes = 0;
    std::uint64_t puts = 0;  // readings stored so far, for the jitter
  };
  Bucket& bucket_of(const std::string& key);
  static Entry* entry_of(Bucket& bucket, const std::string& key);
  static Entry& touch(Bucket& bucket, const std::string& key);
  void fit(Bucket& bucket, Entry& changed) const;
  // Returns a new entry's expiry. `there`: the row exists. `put` varies the jitter.
  Duration expiry_of(const std::string& key, bool there, std::uint64_t put) const;

  const ExpiryOptions options_;
  std::vector<Bucket> buckets_;
};

using ExpiringProfiles = ExpiringRows<Profile>;
using ExpiringItems = ExpiringRows<StoredItem>;

}  // namespace troupe
