#pragma once
// Profiles as they were last read from a store that may go away, each with the position of the catalog at
// that reading. The least recently used make room.
#include <cstddef>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "runtime/features/catalog_mirror.h"

namespace troupe {

// Thread-safe.
class ProfileCache {
 public:
  struct Known {
    Profile profile;
    CatalogPosition at;
  };
  explicit ProfileCache(std::size_t bytes_max) : bytes_max_(bytes_max) {}

  // A reading that is older than what is known of this user is dropped: lanes end in any order.
  void put(const std::string& key, const Known& read);
  // The user was written at this version: what was read before is no longer the last that is known.
  void forget(const std::string& key, std::uint64_t written_version);
  void erase(const std::string& key);  // nothing is known of it
  std::optional<Known> find(const std::string& key);

 private:
  struct Entry {
    std::string key;
    Known known;
    bool readable = false;
    std::size_t bytes = 0;
  };
  void place(Entry entry);
  void drop(const std::string& key);

  const std::size_t bytes_max_;
  std::mutex mutex_;        // guards all below
  std::list<Entry> order_;  // most recently used first
  std::unordered_map<std::string, std::list<Entry>::iterator> entries_;
  std::size_t bytes_ = 0;
};

}  // namespace troupe
