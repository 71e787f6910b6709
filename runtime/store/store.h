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
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

enum class StoreFault : std::uint8_t {
  cannot_create,  // the folder, or one above it
  read_only,
  locked,  // by another process, or by another Store in this one
  corrupt,
  disk_full,
  foreign_format,  // written by another version of Troupe, or not by Troupe
  bad_row,         // of an import
  failed           // any other failure of the disk
};
std::string_view describe(StoreFault fault);  // "the disk is full"

// `what()` reads "<where>: <what is wrong>; expected <what>".
struct StoreError : std::runtime_error {
  StoreError(StoreFault f, const std::string& text) : std::runtime_error(text), fault(f) {}
  StoreFault fault;
};

struct StoreFailure {
  StoreFault fault = StoreFault::failed;
  std::string why;  // for logs: names files
};

enum class Column : std::uint8_t { items, users, blocks, meta };

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

// Thread-safe.
class Store {
 public:
  // Opens or makes <data_dir>/rocksdb. Throws StoreError. While fewer than `free_bytes_min` are free on the
  // disk, only erasures are written: the store needs some room to tidy itself, and a full disk harms its
  // neighbours.
  explicit Store(const std::filesystem::path& data_dir, std::uint64_t free_bytes_min = 64 << 20);
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  enum class Read : std::uint8_t { found, missing, corrupt, failed };
  // `use` must not call the store. Bytes are alive during the call.
  using UseValue = std::function<void(std::string_view)>;
  Read read(Column column, std::string_view key, const UseValue& use) const;

  // Keys in [from, to) in order of bytes, until `use` (which must not call the store) returns false; `to`
  // empty: to the end. False if the disk failed on the way.
  using UseEntry = std::function<bool(std::string_view key, std::string_view value)>;
  bool scan(Column column, std::string_view from, std::string_view to, const UseEntry& use) const;

  // All changes or none.
  std::optional<StoreFailure> write(std::span<const Change> changes, Durability durability);
  std::optional<StoreFailure> erase_range(Column column, std::string_view from,
                                          std::string_view to);  // [from, to)
  std::optional<StoreFailure> sync();                            // makes all buffered writes durable

 private:
  struct Rocks;
  std::unique_ptr<Rocks> rocks_;
};

}  // namespace troupe
