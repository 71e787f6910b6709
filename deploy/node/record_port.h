#pragma once
// Port of a router: runs jobs about records of answered requests itself, or refuses them if the records
// could not be opened. It forwards all others to the next port.
#include <string>
#include <utility>

#include "runtime/records/record_store.h"

namespace troupe::deploy {

class RecordPort final : public Port {
 public:
  // Both must outlive this port.
  RecordPort(RecordStore& records, Port& next) : records_(&records), next_(next) {}
  // Refuses jobs about records, because these could not be opened.
  RecordPort(std::string why, Port& next) : why_(std::move(why)), next_(next) {}

  JobResult run(const Job& job, std::uint32_t slot) override {
    if (!is_of_records(job)) return next_.run(job, slot);
    if (records_) return records_->run(job, slot);
    return Refusal{RefusalKind::unavailable, "storage_failed", why_, "record store",
                   "a working disk, and a restart of this node"};
  }
  // Jobs about records always run on an executor: they use the disk.
  std::optional<JobResult> run_now(const Job& job) override {
    return is_of_records(job) ? std::nullopt : next_.run_now(job);
  }

 private:
  static bool is_of_records(const Job& job) {
    return std::holds_alternative<KeepRecords>(job) || std::holds_alternative<FindRecord>(job) ||
           std::holds_alternative<DropRecords>(job) || std::holds_alternative<SweepRecords>(job);
  }

  RecordStore* records_ = nullptr;  // null: could not be opened
  std::string why_;
  Port& next_;
};

}  // namespace troupe::deploy
