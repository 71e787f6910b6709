#pragma once
// The blocks that are being written, loaded or pulled, and the requests that wait for each of them.
//
// A block is filled by one writer, job or pull at a time. When it is ready, all requests that wait
// for it read it. When its writer gives up or its transfer fails, the earliest request that waits
// becomes the writer, and the later ones wait for that request. So a request waits only for earlier
// requests, for jobs and for pulls. Pages are reserved in the step in which a request arrives, or
// when it becomes the writer, so a writer never waits for pages.
//
// A request with `early` is also told when the last block that it waits for is in flight from
// another node. It may then read that block's pages behind the copy (runtime/pool/page_arrivals.h).
// It keeps waiting, and gets its answer when the copy has ended. Until it releases the pages nobody
// else gets them, however the copy ended (in_flight_reads.h).
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "actors/kv_worker/in_flight_reads.h"
#include "actors/kv_worker/index_reports.h"
#include "actors/kv_worker/requests.h"
#include "actors/kv_worker/reservations.h"

namespace troupe::actors {

class PendingBlocks {
 public:
  PendingBlocks(const KvWorkerConfig& config, PagePool& pool, Requests& requests, Reservations& reservations,
                InFlightReads& in_flight, IndexReports& index);

  // Reserves pages for a want, whose block is pending from then on. Returns null if there are none.
  const PoolBlock* reserve(const Request& request, std::size_t want, BlockSource source, Effects& effects);
  void add(const PoolBlock& reserved);  // a block that no request wants yet
  // Ends a pending block: it is ready in the pool, or its reservation has ended. `pulled`: it came
  // from another node.
  void finish(const BlockName& name, std::uint64_t generation, bool pulled, Effects& effects);
  void fail(const BlockName& name, std::uint64_t generation, Effects& effects);

  // ---- waits

  // The block of this want must be pending.
  void wait(Serial serial, Request& request, std::size_t want);
  // Returns true if the block's pull has already lasted longer than the request would wait.
  bool is_slow_pull(Instant now, const BlockName& name, const Request& request) const;
  bool awaits_in_flight(const Request& request) const;  // a copy whose end will be reported
  void end_wait(Serial serial, Effects& effects);       // answers with what the request has

  // ---- pulls

  void begin_pull(Instant now, const BlockName& name);
  void begin_copy(const BlockName& name, std::uint64_t checksum);  // in flight from now on
  bool is_awaited(const BlockName& name, std::uint64_t generation) const;
  // Returns true if a request that waits for the block would read it while it is in flight.
  bool has_in_flight_reader(const BlockName& name) const;
  // Sends a request its grants once, when all blocks that it waits for are in flight.
  void announce(Serial serial, Effects& effects);
  void announce_to_waiters(const BlockName& name, Effects& effects);
  void note_arrival(Instant now, const BlockName& name);

  std::size_t size() const { return blocks_.size(); }
  // Waits for blocks that no request or job makes; 0 unless there is a bug.
  std::size_t waiting_for_nobody() const;
  std::string check_bounds() const;  // "" or the exceeded bound

 private:
  struct Waiter {
    Serial request = 0;
    std::size_t want = 0;
  };
  struct Pending {
    std::uint64_t generation = 0;
    std::vector<Waiter> waiters;             // earliest first; some may have given up
    std::optional<Instant> pull_asked;       // when the pull was requested, for pulled blocks
    std::optional<std::uint64_t> in_flight;  // checksum, once the block is being copied
  };
  bool waits(const Waiter& waiter) const;
  void decide(Waiter waiter, Hold hold, Effects& effects);
  std::vector<Waiter> take_waiters(const BlockName& name, std::uint64_t generation);
  void carry_in_flight_read(const Hold& before, Hold& after);

  const KvWorkerConfig& config_;
  PagePool& pool_;
  Requests& requests_;
  Reservations& reservations_;
  InFlightReads& in_flight_;
  IndexReports& index_;
  std::map<BlockName, Pending> blocks_;
};

}  // namespace troupe::actors
