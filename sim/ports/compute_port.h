#pragma once
// The simulated device of an inference worker: runs batches on the toy model, reading and writing the pages
// of its process. A batch reads its cached pages at its start and again at its end, and writes half of its
// pages at the start and all of them at the end; pages that changed between are pages that were given to
// somebody else under a reader or a writer, which is reported (promise 3). Pages of another block, tenant or
// model than the plan's are reported as well (promises 2, 14, 4), items that were never so in the catalog
// that the plan names (4), and pages that were pulled too late (3), since the answer alone may look right. So
// is what was computed here and is used before anybody compared it with its checksum though a bit of it has
// flipped, and a block that is computed from such a page (2); answers from pages whose bits flipped later are
// only noted.
//
// Blocks that come from another node while a batch runs delay its layers as a real device's
// (sim/base/overlap.h), which holds its lane meanwhile. When their copies have ended, or it has waited as
// long as it may, they are taken as the copies left them; where one is missing that pass was in vain, and all
// is computed by another.
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "placement/cost/cost_model.h"
#include "sim/base/overlap.h"
#include "sim/base/slowness.h"
#include "sim/base/violations.h"
#include "sim/host/sim_host.h"
#include "sim/ports/sim_rows.h"
#include "sim/ports/sim_shards.h"
#include "sim/world/pages.h"
#include "sim/world/struck_answers.h"

namespace troupe::sim {

// Whoever injects faults writes these at any time; jobs look at them as they begin and end.
struct DeviceFaults {
  Slowness slowness;    // of jobs that begin
  bool hung = false;    // jobs that begin do not end
  bool broken = false;  // batches end in a refusal, until healed
  bool nan = false;     // a logit of each request is not a number
  bool load_fails = false;
};

struct ComputeOptions {
  NodeId node = 0;
  const ToyFamily* family = &toy_decoder();
  std::string model_version;                                           // loaded from the start
  std::size_t models_max = 3;                                          // room for loaded ones
  std::function<bool(const std::string& model_version)> model_exists;  // none: all do
  // Whether the item was ever made of these tokens in that catalog; none: it was.
  std::function<bool(std::string_view item, std::string_view catalog, std::span<const Token> tokens)>
      had_tokens;
  // A version of the catalog as plans were made against it; none: searches are refused.
  std::function<CatalogPointer(const std::string& catalog_version)> find_catalog;
  Duration load_time{2'000'000};
  bool verify_on_read = true;  // check cached pages before they are used, as the real port's option
  // The checksum of a model's prototypes; none: there are none.
  std::function<std::string(const std::string& model_version)> prototypes;
  std::uint32_t page_rows = 0;   // of the models' embedding tables, in a page; 0: they are in memory
  std::uint32_t shard_rows = 0;  // of each of these tables, which is spread over nodes' memory; 0: it is not
  std::uint32_t layers =
      0;  // of the models, to count those that all tokens of a repair go through; 0: none are counted
  // Undisturbed device time of a batch.
  std::function<Duration(const placement::Pass& pass, std::uint64_t pulled_tokens)> batch_time;
  // What an executor does beside it, which stood still for so long before; none: nothing.
  std::function<Duration(const RunBatch& batch, Duration still)> beside;
  double split_share = 0;  // of a batch, what idle processors may take over
  std::uint32_t lanes =
      0;  // that together are the device: a batch more has its time from theirs; 0: each is a device
  std::function<Instant()> now;     // virtual time
  StruckAnswers* struck = nullptr;  // where they are noted
  // A poisonous batch begins: it never ends. Called within begin(): kill the process by SimHost::at.
  std::function<void(NodeId, std::uint64_t content)> on_poison;
};

// A user segment of these tokens is poison, if this is among the poisons.
std::vector<Token> user_tokens(
    const Plan& plan);  // a history may be in parts, and those in blocks that stand anywhere
std::uint64_t poison_of(std::span<const Token> user_tokens);
// What its plan computes, given what its grants reuse; and how much of that was on another node.
placement::Pass pass_of(const BatchRequest& request, std::uint32_t layers = 0);
std::uint64_t pulled_tokens(const BatchRequest& request);
bool awaits(const BatchRequest& request);  // blocks that come while it runs
// What a request asks for, whatever its prefix. To routers the same items in another order are another
// request.
std::uint64_t content_of(const BatchRequest& request);

class ComputePort final : public SimPort {
 public:
  // All references outlive the port. `poisons` and `faults` may change while it lives.
  ComputePort(ComputeOptions options, Pages& pages, const DeviceFaults& faults,
              const std::set<std::uint64_t>& poisons, Violations& violations);

  std::optional<Duration> begin(Instant now, const Job& job, std::uint32_t lane) override;
  std::optional<Duration> goes_on(Instant now, const Job& job, std::uint32_t lane) override;
  std::optional<double> computes(const Job& job, std::uint32_t lane) const override;
  JobResult run(const Job& job, std::uint32_t lane) override;

  const std::set<std::string>& models() const { return models_; }  // loaded
  const SimRows* rows() const { return rows_ ? &*rows_ : nullptr; }
  Duration busy() const { return busy_; }  // with batches, all lanes together, and also while they wait
  Duration computed() const { return computed_; }  // of that, the batches themselves; one in vain as a whole

 private:
  // A segment's pages lay there like this when the batch began, or when their copy ended: those of
  // Begun::pages from `first` on.
  struct Reading {
    std::uint32_t segment = 0, first = 0;
    bool half_written = false;  // and not read
  };
  struct Rows {  // of a segment that is computed
    std::uint32_t segment = 0;
    SimRows::Reading reading;
  };
  struct Begun {
    bool awaits = false;  // blocks that come: nothing is known of it yet
    BatchReply reply;
    std::vector<SegmentValue> values;  // per segment
    std::vector<Reading> readings;
    std::vector<Page> pages;
    std::vector<bool> struck;  // per segment: what it is computed or taken from
    std::vector<Rows> rows;
  };
  struct Running {
    std::vector<Begun> requests;
    Layers layers;
    std::set<std::string> models;
    std::vector<TableShard> away;  // without which it ends
    SimShards::Granted shards;
    bool waits = false;     // a request awaits blocks
    Duration waited, came;  // as BatchDone says
    Duration owed;          // for what went beside it
  };

  Duration time_of(const RunBatch& batch) const;
  Duration keep_busy(Duration takes);
  Duration share_device(Duration takes, std::uint32_t lane);
  const BatchRequest* find_poison(const RunBatch& batch) const;  // null: there is none
  Duration await_copies(Instant now, const RunBatch& batch, Instant begun) const;
  Duration end_wait(Instant now, const RunBatch& batch, Running& running);
  std::optional<Coming> copies_of(const RunBatch& batch) const;
  Begun begin_awaiting(const BatchRequest& request);
  void await_end(const BatchRequest& request, Begun& begun);
  bool take_coming(const BatchRequest& request, std::uint32_t segment, Begun& begun);
  Begun begin_request(const BatchRequest& request, std::vector<Rows> rows = {});
  std::optional<Refusal> find_request_fault(const BatchRequest& request) const;
  std::span<const Page> note(const BatchRequest& request, std::uint32_t segment, bool half_written,
                             Begun& begun);
  void check_catalog(const BatchRequest& request);
  std::vector<TableShard> shards_away(const RunBatch& batch);
  const SimRows::Reading& hold_rows(const BatchRequest& request, std::uint32_t segment, Begun& begun);
  void read_rows(const BatchRequest& request, std::uint32_t segment, Begun& begun);
  std::vector<Beam> search(const BatchRequest& request, const SegmentValue& value) const;
  bool make_of_prototypes(const BatchRequest& request, std::uint32_t segment, Begun& begun);
  bool take_block(const BatchRequest& request, std::uint32_t segment, Begun& begun);
  bool find_struck(const BatchRequest& request, std::uint32_t segment, std::span<const Page> pages);
  void check_origin(const BatchRequest& request, std::uint32_t segment, std::span<const Page> pages);
  Provenance origin(const BatchRequest& request, std::uint32_t segment) const;
  void write_block(const BatchRequest& request, std::uint32_t segment, const SegmentValue& value, bool half);
  void end_request(const BatchRequest& request, Begun& begun);
  JobResult run_batch(const RunBatch& batch, std::uint32_t lane);
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
  SimShards::Granted* granted_ = nullptr;  // of the batch at hand
  std::set<std::string> models_;
  std::map<std::uint32_t, Running> running_;  // per lane
  std::map<std::uint32_t, Instant> ended_;    // the last batch of each
  Duration busy_{}, computed_{};
  std::vector<Fingerprint> prints_;  // of the block at hand; kept for its memory
};

}  // namespace troupe::sim
