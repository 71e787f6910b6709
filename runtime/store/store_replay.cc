// Passes on the changes that are in a damaged store's logs but not yet in its tables, for the
// salvage. It also finds gaps in the version numbers, which show that acknowledged writes are lost.
#include "runtime/store/store_replay.h"

#include <rocksdb/write_batch.h>

#include <algorithm>

#include "runtime/store/store_check.h"
#include "runtime/store/store_log.h"
#include "runtime/store/store_rocks.h"
#include "runtime/store/store_rows.h"

namespace troupe {
namespace {

constexpr Column rows_of[] = {Column::users, Column::items};  // by VersionKind

}  // namespace

// One log record; passes its changes on as they are read.
struct LogReplay::Batch final : rocksdb::WriteBatch::Handler {
  Batch(const LogReplay& replay, const Apply& apply, std::string log, std::uint64_t sequence)
      : replay(replay), apply(apply), log(std::move(log)), sequence(sequence), next(sequence) {}

  rocksdb::Status PutCF(std::uint32_t column, const rocksdb::Slice& key,
                        const rocksdb::Slice& value) override {
    const auto known = replay.columns.find(column);
    if (known != replay.columns.end()) {
      if (known->second == Column::users) ++user_rows;
      if (known->second == Column::meta) note_counter(view(key), view(value));
      pass_on(known->second, view(key), view(value));
    }
    ++next;
    return rocksdb::Status::OK();
  }
  rocksdb::Status DeleteCF(std::uint32_t column, const rocksdb::Slice& key) override {
    const auto known = replay.columns.find(column);
    if (known != replay.columns.end()) pass_on(known->second, view(key), {});
    ++next;
    return rocksdb::Status::OK();
  }
  rocksdb::Status DeleteRangeCF(std::uint32_t, const rocksdb::Slice&, const rocksdb::Slice&) override {
    ++next;  // only blocks are erased by ranges
    return rocksdb::Status::OK();
  }
  void LogData(const rocksdb::Slice&) override {}

  void note_counter(std::string_view key, std::string_view value) {
    for (std::size_t i = 0; i < counters.size(); ++i)
      if (key == counter_keys[i])
        if (const auto count = decode_counter(key, value)) counters[i] = *count;
  }
  void pass_on(Column column, std::string_view key, std::optional<std::string_view> value) const {
    const auto flushed = replay.flushed.find(column);
    if (column == Column::blocks || (flushed != replay.flushed.end() && next <= flushed->second)) return;
    apply(column, key, value);
  }

  const LogReplay& replay;
  const Apply& apply;
  const std::string log;
  const std::uint64_t sequence;
  std::uint64_t next;  // sequence number of the current change
  std::uint64_t user_rows = 0;
  Versions counters{};  // the counters that it writes
};

void LogReplay::run(const std::vector<std::filesystem::path>& logs, const Apply& apply) {
  for (const std::filesystem::path& log : logs)
    read_log(log, [&](std::uint64_t, std::string_view record) { take(log, record, apply); });
}

void LogReplay::take(const std::filesystem::path& log, std::string_view record, const Apply& apply) {
  const auto head = batch_head(record);
  if (!head) return;
  Batch batch(*this, apply, "rocksdb/" + log.filename().string(), head->sequence);
  if (head->sequence < expected_) return;
  if (expected_ == 0 ? is_damaged : head->sequence != expected_) gap_in_.fill(batch.log);
  expected_ = head->sequence + head->changes;
  rocksdb::WriteBatch(std::string(record)).Iterate(&batch);
  record_missing(batch);
}

// Versions rise by one with each write: versions between the last one seen and this batch's first
// are missing.
void LogReplay::record_missing(const Batch& batch) {
  for (std::size_t i = 0; i < versions.size(); ++i) {
    const std::uint64_t version = batch.counters[i];
    if (version == 0) continue;
    const std::uint64_t rows = i == 0 ? std::max<std::uint64_t>(1, batch.user_rows) : 1;
    const std::uint64_t first = version - std::min(version, rows) + 1;
    const auto flushed = this->flushed.find(rows_of[i]);
    const bool in_tables = flushed != this->flushed.end() && batch.sequence <= flushed->second + 1;
    if (gap_in_[i] && !in_tables && first > versions[i] + 1)
      lost.push_back({.file = *gap_in_[i],
                      .column = rows_of[i],
                      .first_version = versions[i] + 1,
                      .last_version = first - 1});
    gap_in_[i].reset();
    versions[i] = std::max(versions[i], version);
  }
}

}  // namespace troupe
