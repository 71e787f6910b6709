#pragma once
// What the life of a request in the router asks of its kind: what is wrong with it, what it needs to know, by
// which plans it could be answered, and its answer. RouterCore does the rest, and is the same for all. A kind
// is a file that implements this and a row of the table below.
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "router/request/block_names.h"
#include "router/request/candidate.h"
#include "router/request/policy.h"
#include "router/request/request_check.h"
#include "runtime/actor/metrics.h"
#include "runtime/actor/ports.h"

namespace troupe::router {

// Of a request that has been run.
struct Outcome {
  std::vector<ScoreRow> rows;  // one per readout of the plan, finite numbers
  std::vector<Beam> beams;     // of the plan's search, as find_beams_fault below let them pass
  std::string_view plan;       // that was run
  std::uint32_t tokens_total = 0, tokens_computed = 0, tokens_reused = 0, blocks_reused = 0,
                blocks_written = 0;
  Timings timings;
  std::string model_version;
  NodeId node = 0;
  double approximate = 0;  // share of the prompt's tokens
};

// What a reply tells of the run, whatever was asked.
template <class Reply>
void tell_run(const Outcome& outcome, Reply& reply) {
  reply.tokens_total = outcome.tokens_total;
  reply.tokens_computed = outcome.tokens_computed;
  reply.tokens_reused = outcome.tokens_reused;
  reply.model_version = outcome.model_version;
  reply.node = outcome.node;
  reply.timings = outcome.timings;
}

class Request {
 public:
  virtual ~Request() = default;

  virtual RequestId id() const = 0;
  virtual std::string_view tenant() const = 0;
  virtual std::int64_t budget_us() const = 0;  // 0: the configured one
  virtual const TraceContext& trace() const = 0;
  virtual std::string_view model() const { return ""; }  // the version that it wants; "": whichever is served
  // Before anything is done for it.
  virtual std::optional<Refusal> find_fault(const PromptForm& form, const RequestLimits& limits) const = 0;
  virtual std::uint64_t home()
      const = 0;  // a hash: equal ones go to the same worker, if nothing speaks against it
  virtual std::uint64_t fingerprint() const = 0;  // of its content, once it has its features

  // ---- what it needs to know ----
  virtual std::optional<FindFeatures> features() const {
    return std::nullopt;
  }  // of no versions; absent: nothing
  virtual std::optional<Refusal> take(const PromptForm&, const RequestLimits&, const Features&) {
    return std::nullopt;
  }
  virtual std::string catalog_version() const {
    return "";
  }  // of the snapshot that it took; "": it needs none
  virtual std::span<const ItemView> items() const {
    return {};
  }  // that it asks about: what is wanted of the catalog

  // ---- its plans ----
  virtual const Policy* policy() const { return nullptr; }  // that chooses among them; null: there is one
  virtual std::string user() const { return ""; }           // whose access the index counts; "": nobody's
  virtual Situation situation() const { return {}; }
  // In the order in which the policy has them; at least one. Called once.
  virtual std::vector<Candidate> candidates(const PromptForm& form, const BlockNames& names) const = 0;

  // Of what a worker found by search: "" if it can be an answer; else what is wrong with it.
  virtual std::string find_beams_fault(std::span<const Beam>) const { return ""; }
  virtual Message reply(const Outcome& outcome) = 0;  // called once, at the end
};

struct RequestKind {
  std::string_view name;
  Metric metric;  // requests of this kind
  bool (*is)(const Message& message);
  // `usual`: the policy of requests that name none.
  std::unique_ptr<Request> (*take)(const Message& message, const Policy& usual);
};
std::span<const RequestKind> request_kinds();
const RequestKind* find_kind(const Message& message);  // null: it is no request

Candidate score_plan(const ScoreRequest& request);
std::unique_ptr<Request> take_rank(const Message& message, const Policy& usual);
std::unique_ptr<Request> take_generate(const Message& message, const Policy& usual);
std::unique_ptr<Request> take_complete(const Message& message, const Policy& usual);
std::unique_ptr<Request> take_score(const Message& message, const Policy& usual);

}  // namespace troupe::router
