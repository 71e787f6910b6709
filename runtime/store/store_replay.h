#pragma once
// What a store's logs have that its tables have not, record by record, and which acknowledged writes are
// missing between them. Only runtime/store includes it.
#include <array>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/store/store_damage.h"

namespace troupe {

struct LogReplay {
  using Versions = std::array<std::uint64_t, 2>;  // by Numbered: of profiles, of the catalog
  // `value` absent: the key was erased.
  using Apply =
      std::function<void(Column column, std::string_view key, std::optional<std::string_view> value)>;

  std::map<std::uint32_t, Column> columns;  // by RocksDB's number
  std::map<Column, std::uint64_t> flushed;  // all changes up to this number are in tables
  Versions versions{};                      // the newest of rows in tables; then what the logs reached
  bool is_damaged = false;  // the logs are: then something may be missing before what is left of them, too
  std::vector<StoreLoss> lost;

  // Logs in order of their numbers.
  void run(const std::vector<std::filesystem::path>& logs, const Apply& apply);

 private:
  struct Batch;
  void take(const std::filesystem::path& log, std::string_view record, const Apply& apply);
  void name_missing(const Batch& batch);

  std::uint64_t expected_ = 0;                        // 0: no record was seen
  std::array<std::optional<std::string>, 2> gap_in_;  // the log where it was seen, by Numbered
};

}  // namespace troupe
