#pragma once
// RocksDB's logs and manifests, read without RocksDB. Its own recovery takes a zeroed sector for the end of a
// log, drops up to 32 KiB behind one wrong byte, and does not say where it stopped. The form (legacy records
// in blocks of 32 KiB, each with a CRC-32C) is that of RocksDB 7.8; store_log_test.cc reads what it writes.
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

struct LogDamage {
  std::uint64_t offset = 0;  // of the first byte that makes no sense
  std::string what;          // "the sum of a record is wrong"
};

struct LogReading {
  std::uint64_t bytes = 0, records = 0;
  std::vector<LogDamage> damage;  // each with a sound record behind it
  // Where the last sound record ends, if something else follows: a write that was cut off by the process's
  // end, or damage. Who knows what was acknowledged can tell.
  std::optional<LogDamage> torn;
  int error = 0;  // errno, if a part of the file could not be read
};

// `use` gets each sound record with the offset where it begins, in order.
using UseRecord = std::function<void(std::uint64_t offset, std::string_view record)>;
LogReading read_log(const std::filesystem::path& file, const UseRecord& use);
LogReading read_log_bytes(std::string_view bytes, const UseRecord& use);  // of a whole file

// The head of a record of a write-ahead log.
struct BatchHead {
  std::uint64_t sequence = 0;  // of its first change
  std::uint32_t changes = 0;
};
std::optional<BatchHead> batch_head(std::string_view record);

// The sequence number that had been reached when this record of a manifest was written; 0 if it does not say.
std::uint64_t manifest_sequence(std::string_view record);

}  // namespace troupe
