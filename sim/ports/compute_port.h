#pragma once
// Simulated device of an inference worker: runs batches on the toy model, reading and writing the pages of
// its process. A batch reads its cached pages at its start and again at its end; it writes half of its
// pages at the start and all of them at the end. Pages that change in between were given to another block
// under a reader or writer, which breaks promise 3. Since the answer alone may look right, the port also
// reports pages of another block, tenant or model than the plan's (promises 2, 14, 4), items that never had
// these tokens in the plan's catalog (4), and pages pulled too late (3). Also reported (2): a page computed
// here and used before any checksum comparison although a bit has flipped, and a block computed from such a
// page. Answers from pages whose bits flipped later are only recorded.
//
// Blocks that arrive from another node while a batch runs delay its layers as on a real device
// (sim/base/overlap.h); the batch keeps its executor slot meanwhile. When the copies have ended, or the
// batch has waited as long as it may, it takes the blocks as the copies left them. If one is missing, that
// pass fails and another pass computes everything.
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "placement/cost/cost_model.h"
#include "sim/base/overlap.h"
#include "sim/base/slowness.h"
#include "sim/base/violations.h"
#include "sim/host/sim_host.h"
#include "sim/ports/sim_rows.h"
#include "sim/ports/sim_shards.h"
#include "sim/world/corrupted_answers.h"
#include "sim/world/pages.h"

namespace troupe::sim {

// Device faults, written by the fault injector at any time. Jobs read them when they begin and end.
struct DeviceFaults {
  Slowness slowness;    // of jobs that begin while it is set
  bool hung = false;    // jobs that begin never end
  bool broken = false;  // batches end in a refusal until healed
  bool nan = false;     // one logit of each request is NaN
  bool load_fails = false;
};

struct ComputeOptions {
  NodeId node = 0;
  const ToyFamily* family = &toy_decoder();
  std::string model_version;                                           // loaded at the start
  std::size_t models_max = 3;                                          // maximum number of loaded models
  std::function<bool(const std::string& model_version)> model_exists;  // null = all exist
  // Returns true if the item ever had these tokens in that catalog; null = always true.
  std::function<bool(std::string_view item, std::string_view catalog, std::span<const Token> tokens)>
      had_tokens;
  // Returns the catalog version that a plan was made against; null = searches are refused.
  std::function<CatalogPointer(const std::string& catalog_version)> find_catalog;
  Duration load_time{2'000'000};
  bool verify_on_read = true;  // check cached pages before use, like the real port's option
  // Returns the checksum of a model's prototypes; null = no prototypes.
  std::function<std::string(const std::string& model_version)> prototypes;
  std::uint32_t page_rows = 0;   // embedding rows per page; 0 = tables are in memory
  std::uint32_t shard_rows = 0;  // rows of each table that is spread over the nodes' memory; 0 = not spread
  // Layers of the models, to count those that all tokens of a repair pass through; 0 = not counted.
  std::uint32_t layers = 0;
  // Undisturbed device time of a batch.
  std::function<Duration(const placement::Pass& pass, std::uint64_t pulled_tokens)> batch_time;
  // Returns the extra time of an executor beside the device; `still` is how long it was idle before. Null =
  // none.
  std::function<Duration(const RunBatch& batch, Duration still)> beside;
  double split_share = 0;  // fraction of a batch that idle processors may share
  // Executor slots that share one device: an additional batch takes its time from theirs. 0 = each slot is a
  // device.
  std::uint32_t slots = 0;
  std::function<Instant()> now;        // virtual time
  CorruptedAnswers* struck = nullptr;  // receives scores computed from flipped bits; null = not recorded
  // Called within begin() when a poisonous batch begins; that batch never ends. Kill the process by
  // SimHost::at.
  std::function<void(NodeId, std::uint64_t content)> on_poison;
};

// Returns the tokens of the plan's user segments. The history may be in parts, also in position-independent
// blocks. The plan is poison if poison_of these tokens is among the poisons.
std::vector<Token> user_tokens(const Plan& plan);
std::uint64_t poison_of(std::span<const Token> user_tokens);
// Returns what the plan computes, given what its grants reuse. pulled_tokens returns how many reused tokens
// came from another node. Blocks of segments in `missed` are not reused.
placement::Pass pass_of(const BatchRequest& request, std::uint32_t layers = 0,
                        std::span<const std::uint32_t> missed = {});
std::uint64_t pulled_tokens(const BatchRequest& request, std::span<const std::uint32_t> missed = {});
bool awaits(const BatchRequest& request);  // true if blocks arrive while it runs
// Returns a hash of what the request asks for, independent of its prefix. The same items in another order
// are another request, as for routers.
std::uint64_t content_of(const BatchRequest& request);

class SimComputePort final : public SimPort {
 public:
  // All references must outlive the port. `poisons` and `faults` may change during its life.
  SimComputePort(ComputeOptions options, Pages& pages, const DeviceFaults& faults,
                 const std::set<std::uint64_t>& poisons, Violations& violations);

  std::optional<Duration> begin(Instant now, const Job& job, std::uint32_t slot) override;
  std::optional<Duration> goes_on(Instant now, const Job& job, std::uint32_t slot) override;
  std::optional<double> computes(const Job& job, std::uint32_t slot) const override;
  JobResult run(const Job& job, std::uint32_t slot) override;

  const std::set<std::string>& models() const { return models_; }  // loaded models
  const SimRows* rows() const { return rows_ ? &*rows_ : nullptr; }
  Duration busy() const { return busy_; }  // time with batches over all slots, including waits
  // part of it spent on computing; failed passes count in full
  Duration computed() const { return computed_; }

 private:
  // Pages of a segment as they were when the batch began or when their copy ended; the first is
  // StartedRequest::pages[first].
  struct Reading {
    std::uint32_t segment = 0, first = 0;
    bool half_written = false;  // and not read
  };
  struct Rows {  // of a computed segment
    std::uint32_t segment = 0;
    SimRows::Reading reading;
  };
  struct StartedRequest {
    bool awaits = false;  // blocks are arriving and not checked yet
    BatchReply reply;
    std::vector<SegmentValue> values;  // per segment
    std::vector<Reading> readings;
    std::vector<Page> pages;
    std::vector<bool> struck;  // per segment: computed or taken from flipped bits
    std::vector<Rows> rows;
  };
  struct Running {
    std::vector<StartedRequest> requests;
    Layers layers;
    std::set<std::string> models;
    std::vector<TableShard> away;  // missing shards with which it ends
    SimShards::HeldShards shards;
    bool waits = false;     // a request awaits blocks
    Duration waited, came;  // as in BatchDone
    Duration owed;          // added time for other batches on the device
  };

  // Returns the time of a pass that computes the blocks that `started` requests missed.
  Duration time_of(const RunBatch& batch, std::span<const StartedRequest> started) const;
  Duration keep_busy(Duration takes);
  Duration share_device(Duration takes, std::uint32_t slot);
  const BatchRequest* find_poison(const RunBatch& batch) const;  // null = none
  Duration await_copies(Instant now, const RunBatch& batch, Instant begun) const;
  Duration end_wait(Instant now, const RunBatch& batch, Running& running);
  std::optional<ArrivalInterval> copies_of(const RunBatch& batch) const;
  StartedRequest begin_awaiting(const BatchRequest& request);
  void await_end(const BatchRequest& request, StartedRequest& begun);
  bool take_arriving(const BatchRequest& request, std::uint32_t segment, StartedRequest& begun);
  StartedRequest begin_request(const BatchRequest& request, std::vector<Rows> rows = {});
  std::optional<Refusal> validate_request(const BatchRequest& request) const;
  std::span<const Page> note(const BatchRequest& request, std::uint32_t segment, bool half_written,
                             StartedRequest& begun);
  void check_catalog(const BatchRequest& request);
  std::vector<TableShard> shards_away(const RunBatch& batch);
  const SimRows::Reading& hold_rows(const BatchRequest& request, std::uint32_t segment,
                                    StartedRequest& begun);
  void read_rows(const BatchRequest& request, std::uint32_t segment, StartedRequest& begun);
  std::vector<Beam> search(const BatchRequest& request, const SegmentValue& value) const;
  bool make_of_prototypes(const BatchRequest& request, std::uint32_t segment, StartedRequest& begun);
  bool take_block(const BatchRequest& request, std::uint32_t segment, StartedRequest& begun);
  bool find_struck(const BatchRequest& request, std::uint32_t segment, std::span<const Page> pages);
  void check_origin(const BatchRequest& request, std::uint32_t segment, std::span<const Page> pages);
  Provenance origin(const BatchRequest& request, std::uint32_t segment) const;
  void write_block(const BatchRequest& request, std::uint32_t segment, const SegmentValue& value, bool half);
  void end_request(const BatchRequest& request, StartedRequest& begun);
  JobResult run_batch(const RunBatch& batch, std::uint32_t slot);
  JobResult load(const LoadModel& load);
  JobResult drop(const DropModel& drop);
  const std::string& model_of(const BatchRequest& request) const;
  RowTotals row_totals() const;
  void report(int promise, const BatchRequest& request, std::uint32_t segment, std::string_view what);

  ComputeOptions options_;
  Pages& pages_;
  const DeviceFaults& faults_;
  const std::set<std::uint64_t>& poisons_;
  Violations& violations_;
  std::optional<SimRows> rows_;
  std::optional<SimShards> shards_;
  SimShards::HeldShards* granted_ = nullptr;  // of the current batch
  std::set<std::string> models_;
  std::map<std::uint32_t, Running> running_;  // per executor slot
  std::map<std::uint32_t, Instant> ended_;    // end of the last batch, per slot
  Duration busy_{}, computed_{};
  std::vector<PageFingerprint> prints_;  // of the current block; kept to reuse its memory
};

}  // namespace troupe::sim
