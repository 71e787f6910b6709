#pragma once
// Simulated storage and transfer of a KV-cache worker: the node's disk, its pages' bytes, and one-sided
// reads of other nodes' pages. A remote read takes half of the pages when the job begins and the rest when
// it ends, without involving the owner. Pages that the owner reassigns meanwhile fail the checksum, and if
// the lease was still valid, promise 3 is broken. The same holds for pages of this process that change
// while they are saved or loaded into.
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "sim/base/violations.h"
#include "sim/host/sim_host.h"
#include "sim/scenario/faults.h"
#include "sim/world/pages.h"
#include "sim/world/sim_disk.h"

namespace troupe::sim {

struct TransferFaults {
  double reset = 0;      // share of pulls that break off half way
  double corrupted = 0;  // share of blocks with a bit flipped in transfer
  double slowness = 1;   // of this node's transfers
};

struct SimStoreOptions {
  NodeId node = 0;
  std::uint64_t seed = 1;
  std::uint64_t page_bytes = 65'536;  // of the real page, for transfer times
  bool counts_pages = false;          // sizes in messages are pages, as if several models share the pool
  bool pulls_take_time = true;        // in addition to the link's latency
  Duration disk_latency{100};
  double disk_bytes_per_us = 2'000;
  double memory_bytes_per_us = 10'000;  // to read and sum pages
  // Time until a pull from a node that does not answer is given up, if the budget permits.
  Duration unreachable{1'000'000};
  std::function<Instant()> now;        // virtual time
  std::function<Instant()> local_now;  // the node's own clock, by which it judges leases; null = `now`
  // Called when the disk's fault of this kind has acted. A save torn by death never ends: kill the process
  // by SimHost::at, since the callback may run within begin().
  std::function<void(NodeId, FaultKind)> on_struck;
};

class SimStorePort final : public SimPort {
 public:
  // All references must outlive the port.
  SimStorePort(SimStoreOptions options, Pages& pages, SimDisk& disk, SimNetwork& network,
               const PageRegistry& peers, const TransferFaults& faults, Violations& violations);

  std::optional<Duration> begin(Instant now, const Job& job, std::uint32_t slot) override;
  JobResult run(const Job& job, std::uint32_t slot) override;

  std::uint64_t quarantined() const { return quarantined_; }      // disk errors that were detected
  std::uint64_t bad_transfers() const { return bad_transfers_; }  // blocks that did not match on arrival
  std::uint64_t bytes_asked() const { return bytes_asked_; }      // requested from other nodes

 private:
  bool hold(const Pages& arena, std::span<const std::uint32_t> pages, std::size_t tokens) const;
  // Pages of this process under a job, as they were when it began.
  struct PageSnapshot {
    std::vector<std::uint32_t> ids;
    std::vector<Page> pages;
  };
  struct Running {
    std::vector<PageSnapshot> snapshots;
    // Fields of a pull:
    Instant lease_end;             // on the node's own clock
    bool may_have_waited = false;  // the lease may have begun earlier than this job
    bool reset = false;
    std::vector<std::uint8_t> corrupted;    // per block
    std::vector<std::vector<Page>> remote;  // per block, as read at the start; empty = no such pages
  };

  Duration disk_time(Instant now, std::uint64_t pages) const;
  Duration time_of(Instant now, const LoadBlocks& load) const;
  void begin_load(const LoadBlocks& load, Running& running);
  Duration begin_pull(Instant now, const PullBlocks& pull, Running& running);
  bool dies_in(const SaveBlock& save);
  void tear(const SaveBlock& save);
  bool loses_load();
  void watch(std::span<const std::uint32_t> ids, Running& running) const;
  void check_snapshots(const Running& running, std::string_view what);
  Instant local_now() const { return options_.local_now ? options_.local_now() : options_.now(); }

  JobResult list();
  JobResult save(const SaveBlock& save);
  JobResult load(const LoadBlocks& load);
  BlockLoad load_one(const LoadBlocks::One& one);
  JobResult erase(const EraseBlocks& erase);
  JobResult check(const CheckBlocks& check);
  Duration time_of(const CheckBlocks& check) const;
  JobResult pull(const PullBlocks& pull, const Running& running);
  void end_arrivals(const PullBlocks& pull, const JobResult& result, const Running& running);
  bool pull_one(const PullBlocks::One& one, const Running& running, std::size_t index, const Pages& remote);
  void quarantine(const BlockName& name);

  SimStoreOptions options_;
  Pages& pages_;
  SimDisk& disk_;
  SimNetwork& network_;
  const PageRegistry& peers_;
  const TransferFaults& faults_;
  Violations& violations_;
  RandomStream random_;
  std::map<std::uint32_t, Running> running_;  // per executor slot
  Instant last_end_{-1};
  std::uint64_t quarantined_ = 0, bad_transfers_ = 0, bytes_asked_ = 0;
};

}  // namespace troupe::sim
