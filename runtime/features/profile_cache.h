#pragma once
// Keeps profiles as last read from a store that is slow or may be unreachable, so that requests are
// answered without it. Each has the catalog position of that reading. Answers share them. The least
// recently used are evicted.
#include <cstddef>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "runtime/actor/ports.h"
#include "runtime/features/catalog_mirror.h"

namespace troupe {

// Returns the memory that an entry takes. `profile` null: an entry without a profile.
std::size_t cached_bytes(const std::string& key, const Profile* profile);

// Thread-safe.
class ProfileCache {
 public:
  struct CachedProfile {
    ProfilePointer profile;
    CatalogPosition at;
  };
  explicit ProfileCache(std::size_t bytes_max) : bytes_max_(bytes_max) {}

  // Stores a reading unless a newer one is stored: executor slots end in any order.
  void put(const std::string& key, const CachedProfile& read);
  // Marks the user as written at this version: earlier readings are out of date.
  void forget(const std::string& key, std::uint64_t written_version);
  void erase(const std::string& key);  // forgets this user
  void clear();                        // forgets all users
  // For stores without positions: keeps a reading that began at `since` only if no user was erased
  // meanwhile, since it may predate that write. A writer calls erase() after its write and before
  // it answers.
  std::uint64_t changes();
  void put_unless_changed(const std::string& key, const CachedProfile& read, std::uint64_t since);
  std::optional<CachedProfile> find(const std::string& key);

 private:
  struct Entry {
    std::string key;
    CachedProfile known;  // without a profile: a write of `version` came after the last reading
    std::uint64_t version = 0;
    std::size_t bytes = 0;
  };
  void keep(const std::string& key, const CachedProfile& read);
  void insert(Entry entry);
  void drop(const std::string& key);

  const std::size_t bytes_max_;
  std::mutex mutex_;        // guards all below
  std::list<Entry> order_;  // most recently used first
  std::unordered_map<std::string, std::list<Entry>::iterator> entries_;
  std::size_t bytes_ = 0;
  std::uint64_t changes_ = 0;  // calls of erase and clear
};

}  // namespace troupe
