#pragma once
// Is every file of a data folder what was written? Looks, and changes nothing: logs and manifest record by
// record (store_log.h), each table block by block, saved blocks' files by their sizes (their pages are
// checked when they are read), and whether what was acknowledged (store_mark.h) is there. Nobody else may
// have the store open.
#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "runtime/store/store_damage.h"
#include "runtime/store/store_mark.h"

namespace troupe {

inline constexpr const char* mark_file = "acknowledged";                     // beside the database's folder
inline constexpr std::string_view marked_key = "marked";                     // of meta: there was a mark
inline constexpr std::string_view counter_keys[] = {"profiles", "catalog"};  // of meta, by Numbered
inline constexpr std::string_view made_for_key =
    "made_for";  // of meta: for which model the rows were imported
inline constexpr std::string_view importing_key =
    "importing";  // of meta: there while an import is half written

// How far a counter goes on that nothing vouches for: above as many numbers as may have been given out
// unseen.
inline constexpr std::uint64_t counter_jump = 1'000'000'000;

struct StoreCheck {
  struct Kind {
    std::uint64_t files = 0, bytes = 0, damaged = 0;
  };
  bool exists = false;                // there is a database, or there was one
  std::map<std::string, Kind> kinds;  // "log", "table of users", "manifest", …
  std::vector<StoreDamage> damage;
  std::vector<StoreLoss> lost_tail;               // acknowledged, and in no log
  std::array<std::uint64_t, 2> counters{};        // as the database has them, by Numbered; 0: it has none
  bool has_mark = false, mark_is_missed = false;  // the latter: there was one
  AcknowledgedMark::State mark;
  std::vector<std::string> unchecked;  // tables beyond the bound

  bool is_whole() const { return damage.empty() && lost_tail.empty(); }
  // Nothing that was acknowledged is concerned: blocks are computed again.
  bool only_blocks() const;
  // Nothing but the mark: counters have to jump, the rest is there.
  bool only_mark() const;
};

// Tables of more than `table_bytes_max` in all are left unchecked, those of users last. Throws StoreError if
// the system does not let it look.
StoreCheck check_store(const std::filesystem::path& data_dir, std::uint64_t table_bytes_max);

// All of it, for who asks from outside: with the store's lock. Throws StoreError (locked) if it is served.
StoreCheck check_data_folder(const std::filesystem::path& data_dir);

// What is wrong with this table; empty: nothing. Throws StoreError as above.
std::string check_table(const std::filesystem::path& table);

}  // namespace troupe
