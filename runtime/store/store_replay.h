#pragma once
// Replays the changes that a store's logs have and its tables lack, and finds acknowledged writes
// that are missing between them. Only runtime/store includes it.
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
  using Versions = std::array<std::uint64_t, 2>;  // by VersionKind: profiles, catalog
  // `value` absent: the key was erased.
  using Apply =
      std::function<void(Column column, std::string_view key, std::optional<std::string_view> value)>;

  std::map<std::uint32_t, Column> columns;  // by RocksDB's column id
  std::map<Column, std::uint64_t> flushed;  // changes up to this sequence number are in tables
  Versions versions{};                      // newest versions in table rows; then those reached by the logs
  // The logs are damaged, so writes before their remaining records may be missing too.
  bool is_damaged = false;
  std::vector<StoreLoss> lost;

  // `logs` are in order of their numbers.
  void run(const std::vector<std::filesystem::path>& logs, const Apply& apply);

 private:
  struct Batch;
  void take(const std::filesystem::path& log, std::string_view record, const Apply& apply);
  void record_missing(const Batch& batch);

  std::uint64_t expected_ = 0;                        // 0: no record was seen
  std::array<std::optional<std::string>, 2> gap_in_;  // log that showed the gap, by VersionKind
};

}  // namespace troupe
