#pragma once
// Checks whether every file of a data folder is as it was written; changes nothing. Logs and the
// manifest are read record by record (store_log.h), tables block by block. Files of saved blocks
// are checked by size only (their pages are checked when read). The acknowledged writes
// (store_mark.h) must be present. No process may have the store open.
#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "runtime/store/store_damage.h"
#include "runtime/store/store_mark.h"

namespace troupe {

inline constexpr const char* mark_file = "acknowledged";  // beside the database's folder
inline constexpr std::string_view marked_key = "marked";  // in column meta: a mark existed
// In column meta, by VersionKind.
inline constexpr std::string_view counter_keys[] = {"profiles", "catalog"};
inline constexpr std::string_view made_for_key =
    "made_for";  // in column meta: model for which the rows were imported
inline constexpr std::string_view importing_key =
    "importing";  // in column meta: present while an import is unfinished

// Step by which a counter jumps if nothing proves its last value. It exceeds the count of numbers
// that may have been used since.
inline constexpr std::uint64_t counter_jump = 1'000'000'000;

struct StoreCheck {
  struct Kind {
    std::uint64_t files = 0, bytes = 0, damaged = 0;
  };
  bool exists = false;                // there is a database, or there was one
  std::map<std::string, Kind> kinds;  // "log", "table of users", "manifest", …
  std::vector<StoreDamage> damage;
  std::vector<StoreLoss> lost_tail;               // acknowledged, but in no log
  std::array<std::uint64_t, 2> counters{};        // in the database, by VersionKind; 0 = absent
  bool has_mark = false, mark_is_missed = false;  // missed: a mark existed but is gone or unreadable
  AcknowledgedMark::State mark;
  std::vector<std::string> unchecked;  // tables beyond table_bytes_max

  bool is_whole() const { return damage.empty() && lost_tail.empty(); }
  // True if nothing acknowledged is damaged: blocks are recomputed.
  bool only_blocks() const;
  // True if only the mark is damaged: counters must jump, the data is whole.
  bool only_mark() const;
};

// Checks a store. Tables beyond `table_bytes_max` in total stay unchecked; tables of users come
// last. Throws StoreError if the system does not allow reading.
StoreCheck check_store(const std::filesystem::path& data_dir, std::uint64_t table_bytes_max);

// Checks everything under the store's lock, for callers outside the store. Throws StoreError
// (locked) if a process serves it.
StoreCheck check_data_folder(const std::filesystem::path& data_dir);

// Returns what is wrong with a table; empty: nothing. Throws StoreError as above.
std::string check_table(const std::filesystem::path& table);

}  // namespace troupe
