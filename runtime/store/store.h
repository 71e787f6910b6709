#pragma once
// The one place that knows RocksDB: a folder of four columns of keys and values. Opening it is an edge, so
// what is wrong with the folder is an exception that says so; afterwards every failure of the disk is a
// value, and the process goes on. A write that failed is tried afresh by the next one, so a disk that has
// room again needs no help.
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
  std::optional<std::string> value;  // absent: the key is erased
  std::vector<std::string_view>
      tail;  // bytes that follow `value` in the stored value; alive until the write ends
};

enum class Durability : std::uint8_t { buffered, synced };  // lost with the machine's power, or never

// A file beside the database's own says that only saved blocks were ever kept there. `open_cache`
// (store_cache.h) writes it; every Store that opens takes it away, for profiles may be written to it.
inline constexpr const char* only_blocks_file = "only_blocks";

enum class OnDamage : std::uint8_t {
  refuse,  // an error that says what is damaged; nothing is changed
  start    // what is whole is served; the damaged store is set aside, and what was lost is listed
};

struct StoreOptions {
  // While fewer are free on the disk, only erasures are written: the store needs some room to tidy itself,
  // and a full disk harms its neighbours.
  std::uint64_t free_bytes_min = 64 << 20;
  OnDamage on_damage = OnDamage::refuse;
  // Tables up to so many bytes are read and checked before it opens, those of users last; others afterwards,
  // in a thread.
  std::uint64_t check_bytes_max = std::uint64_t{4} << 30;
  bool is_cache = false;  // nothing in it was acknowledged: it is not checked ahead, and has no mark
};

// What was found and lost at the opening, and since.
struct StoreHealth {
  std::uint64_t damages = 0;        // distinct ones
  std::uint64_t damaged_reads = 0;  // that were answered so
  std::vector<StoreDamage> found;   // the first of them
  std::uint64_t losses = 0;         // at the opening
  std::vector<StoreLoss> lost;      // the first `losses_listed_max` of them; lost.txt in `aside` has all
  std::string aside;                // where the damaged store lies; empty: none was set aside
};

// Thread-safe.
class Store {
 public:
  // Opens or makes <data_dir>/rocksdb, and checks it (store_check.h). Throws StoreError.
  explicit Store(const std::filesystem::path& data_dir, const StoreOptions& options = {});
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  enum class Read : std::uint8_t { found, missing, corrupt, failed };
  // `use` must not call the store. Bytes are alive during the call. `corrupt`: what would say is damaged.
  using UseValue = std::function<void(std::string_view)>;
  Read read(Column column, std::string_view key, const UseValue& use) const;

  // Keys in [from, to) in order of bytes, until `use` (which must not call the store) returns false; `to`
  // empty: to the end. What cannot be read for damage is told to `skip` and passed. False if the disk failed
  // on the way, or something is damaged and there is no `skip`.
  using Gap = StoreGap;
  using UseEntry = UseStoreEntry;
  using UseGap = UseStoreGap;
  bool scan(Column column, std::string_view from, std::string_view to, const UseEntry& use,
            const UseGap& skip = {}) const;

  // All changes or none.
  std::optional<StoreFailure> write(std::span<const Change> changes, Durability durability);
  std::optional<StoreFailure> erase_range(Column column, std::string_view from,
                                          std::string_view to);  // [from, to)
  std::optional<StoreFailure> sync();                            // makes all buffered writes durable
  // A consistent copy of what was written so far, as links where it is the same disk, in a folder that is not
  // there yet. Reads and writes go on meanwhile.
  std::optional<StoreFailure> copy_to(const std::filesystem::path& folder);

  // Of what is not a cache. Its user is one writer at a time.
  AcknowledgedMark& mark();
  StoreHealth health() const;
  // `tell` is called for each damage that is found from now on, from any thread.
  void on_damage(std::function<void(const StoreDamage&)> tell);
  // A row that does not match its own sum, found by who knows rows.
  void report_damage(Column column, std::string_view key) const;

 private:
  struct Rocks;
  std::unique_ptr<Rocks> rocks_;
};

}  // namespace troupe
