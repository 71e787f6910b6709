#pragma once
// The only interface to RocksDB: a folder with four columns of keys and values. Opening is an edge:
// a folder that cannot be used throws an exception that says why. Afterwards every disk failure is
// a value and the process continues. A write after a failed one tries again, so a disk that has
// space again needs no intervention.
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/store/store_damage.h"
#include "runtime/store/store_error.h"
#include "runtime/store/store_gap.h"
#include "runtime/store/store_mark.h"

namespace troupe {

struct Change {
  Column column = Column::meta;
  std::string key;
  std::optional<std::string> value;    // absent: the key is erased
  std::vector<std::string_view> tail;  // follow `value` in the stored bytes; must live until the write ends
};

// Buffered writes are lost with the machine's power; synced ones are not.
enum class Durability : std::uint8_t { buffered, synced };

// Name of a file beside the database's files. It says that the database has held nothing but saved
// blocks. `open_cache` (store_cache.h) writes it; every Store removes it when it opens, since
// profiles may then be written.
inline constexpr const char* only_blocks_file = "only_blocks";

enum class OnDamage : std::uint8_t {
  refuse,  // fail with an error that names the damage; change nothing
  start    // serve what is whole; set the damaged store aside and list the losses
};

struct StoreOptions {
  // With fewer bytes free on the disk, only erasures are written: the database needs space for
  // compactions, and a full disk harms other processes.
  std::uint64_t free_bytes_min = 64 << 20;
  OnDamage on_damage = OnDamage::refuse;
  // Tables up to this total size are read and checked before the store opens, tables of users last.
  // The others are checked afterwards in a thread.
  std::uint64_t check_bytes_max = std::uint64_t{4} << 30;
  // Nothing in it was acknowledged: it is not checked before opening and has no mark.
  bool is_cache = false;
};

// Damage and losses found when the store opened, and damage since.
struct StoreHealth {
  std::uint64_t damages = 0;        // distinct damages
  std::uint64_t damaged_reads = 0;  // reads answered with `corrupt`
  std::vector<StoreDamage> found;   // the first damages
  std::uint64_t losses = 0;         // when it opened
  std::vector<StoreLoss> lost;      // first `losses_listed_max` losses; lost.txt in `aside` lists all
  std::string aside;                // folder of the damaged store; empty: none was set aside
};

// Thread-safe.
class Store {
 public:
  // Opens or creates <data_dir>/rocksdb, and checks it (store_check.h). Throws StoreError.
  explicit Store(const std::filesystem::path& data_dir, const StoreOptions& options = {});
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  enum class Read : std::uint8_t { found, missing, corrupt, failed };
  // Reads one value. `use` must not call the store; the bytes live during the call. `corrupt`: the
  // data that would give the answer is damaged.
  using UseValue = std::function<void(std::string_view)>;
  Read read(Column column, std::string_view key, const UseValue& use) const;

  // Visits keys in [from, to) in byte order until `use` returns false; `use` must not call the
  // store. `to` empty: to the end. Damaged ranges are skipped and reported to `skip`. Returns false
  // if the disk failed, or if something is damaged and there is no `skip`.
  using Gap = StoreGap;
  using UseEntry = UseStoreEntry;
  using UseGap = UseStoreGap;
  bool scan(Column column, std::string_view from, std::string_view to, const UseEntry& use,
            const UseGap& skip = {}) const;

  // Writes all changes or none.
  std::optional<StoreFailure> write(std::span<const Change> changes, Durability durability);
  std::optional<StoreFailure> erase_range(Column column, std::string_view from,
                                          std::string_view to);  // [from, to)
  // Makes a consistent copy of everything written so far in a folder that does not exist yet, with
  // hard links if it is on the same disk. Reads and writes continue meanwhile.
  std::optional<StoreFailure> copy_to(const std::filesystem::path& folder);

  // Mark of acknowledged writes; a cache has none. Its callers are one writer at a time.
  AcknowledgedMark& mark();
  StoreHealth health() const;
  std::uint64_t free_bytes_min() const;  // of its options
  // Sets the subscriber: `tell` is called for each new damage, from any thread.
  void on_damage(std::function<void(const StoreDamage&)> tell);
  // Reports a row that does not match its own checksum, found by a caller that decodes rows.
  void report_damage(Column column, std::string_view key) const;

 private:
  struct Rocks;
  std::unique_ptr<Rocks> rocks_;
};

}  // namespace troupe
