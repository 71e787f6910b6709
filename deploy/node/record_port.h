#pragma once
// Port of a router: runs jobs about records of answered requests itself, and forwards all others to
// the next port.
#include "runtime/records/record_store.h"

namespace troupe::deploy {

class RecordPort final : public Port {
 public:
  // Both must outlive this port.
  RecordPort(RecordStore& records, Port& next) : records_(records), next_(next) {}

  JobResult run(const Job& job, std::uint32_t slot) override {
    return is_of_records(job) ? records_.run(job, slot) : next_.run(job, slot);
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

  RecordStore& records_;
  Port& next_;
};

}  // namespace troupe::deploy
