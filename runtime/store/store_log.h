#pragma once
// Reads RocksDB's logs and manifests without RocksDB. RocksDB's own recovery takes a zeroed sector
// for the end of a log, drops up to 32 KiB after one wrong byte, and does not report where it
// stopped. The format (legacy records in blocks of 32 KiB, each with a CRC-32C) is that of RocksDB
// 7.8; store_log_test.cc reads logs that it wrote.
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

struct LogDamage {
  std::uint64_t offset = 0;  // first byte that cannot be read
  std::string what;          // "the sum of a record is wrong"
};

struct LogReading {
  std::uint64_t bytes = 0, records = 0;
  std::vector<LogDamage> damage;  // each is followed by a sound record
  // Set if something follows the last sound record: a write cut off when the process ended, or
  // damage. Callers that know what was acknowledged can tell which.
  std::optional<LogDamage> torn;
  int error = 0;  // errno if a part of the file could not be read, else 0
};

// Called with each sound record and its offset, in order.
using UseRecord = std::function<void(std::uint64_t offset, std::string_view record)>;
LogReading read_log(const std::filesystem::path& file, const UseRecord& use);
// Reads a log from the bytes of a whole file.
LogReading read_log_bytes(std::string_view bytes, const UseRecord& use);

// Head of a record of a write-ahead log.
struct BatchHead {
  std::uint64_t sequence = 0;  // sequence number of the first change
  std::uint32_t changes = 0;
};
std::optional<BatchHead> batch_head(std::string_view record);

// Returns the last sequence number when this manifest record was written; 0 if the record has none.
std::uint64_t manifest_sequence(std::string_view record);

}  // namespace troupe
