#pragma once
// Profiles as they were last read from a store that is slow or may go away, each with the position of the
// catalog at that reading. They are shared with whoever was answered with them. The least recently used make
// room.
#include <cstddef>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "runtime/actor/ports.h"
#include "runtime/features/catalog_mirror.h"

namespace troupe {

// What keeping it takes; null: only that it is known.
std::size_t cached_bytes(const std::string& key, const Profile* profile);

// Thread-safe.
class ProfileCache {
 public:
  struct Known {
    ProfilePointer profile;
    CatalogPosition at;
  };
  explicit ProfileCache(std::size_t bytes_max) : bytes_max_(bytes_max) {}

  // A reading that is older than what is known of this user is dropped: lanes end in any order.
  void put(const std::string& key, const Known& read);
  // The user was written at this version: what was read before is no longer the last that is known.
  void forget(const std::string& key, std::uint64_t written_version);
  void erase(const std::string& key);  // nothing is known of it
  void clear();                        // of nobody
  // For a store without positions: a reading that began at `since` is kept unless any user was erased
  // meanwhile, for it may be what that one's write replaced. A writer erases after its write and before it
  // answers.
  std::uint64_t changes();
  void put_unless_changed(const std::string& key, const Known& read, std::uint64_t since);
  std::optional<Known> find(const std::string& key);

 private:
  struct Entry {
    std::string key;
    Known known;  // no profile: something of `version` was written since
    std::uint64_t version = 0;
    std::size_t bytes = 0;
  };
  void keep(const std::string& key, const Known& read);
  void place(Entry entry);
  void drop(const std::string& key);

  const std::size_t bytes_max_;
  std::mutex mutex_;        // guards all below
  std::list<Entry> order_;  // most recently used first
  std::unordered_map<std::string, std::list<Entry>::iterator> entries_;
  std::size_t bytes_ = 0;
  std::uint64_t changes_ = 0;  // calls of erase
};

}  // namespace troupe
