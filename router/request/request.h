#pragma once
// Interface that the router's request life cycle needs from a request kind: its check, the features
// that it needs, the plans by which it could be answered, and its reply. RouterCore does the rest,
// which is the same for all kinds. A kind is a file that implements this interface and a row of the
// table below.
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

// Result of a request that has been run.
struct RunResult {
  std::vector<ScoreRow> rows;  // one per readout of the plan; finite numbers
  std::vector<Beam> beams;     // of the plan's search, accepted by validate_beams below
  std::string_view plan;       // plan that was run
  std::uint32_t tokens_total = 0, tokens_computed = 0, tokens_reused = 0, blocks_reused = 0,
                blocks_written = 0;
  Timings timings;
  std::string model_version;
  NodeId node = 0;
  double approximate = 0;  // share of the prompt's tokens
};

// Fills the reply fields that all kinds share.
template <class Reply>
void fill_run(const RunResult& outcome, Reply& reply) {
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
  virtual std::int64_t budget_us() const = 0;  // 0 = the configured budget
  virtual const TraceContext& trace() const = 0;
  virtual std::string_view model() const { return ""; }  // model version that it wants; "" = any served one
  // Checks the request before anything is done for it.
  virtual std::optional<Refusal> validate(const PromptForm& form, const RequestLimits& limits) const = 0;
  virtual std::uint64_t home() const = 0;         // hash; requests with equal hashes prefer the same worker
  virtual std::uint64_t fingerprint() const = 0;  // of its content; valid once it has its features

  // ---- what it needs to know ----
  virtual std::optional<FindFeatures> features() const {
    return std::nullopt;
  }  // without versions; nullopt = needs no features
  virtual std::optional<Refusal> take(const PromptForm&, const RequestLimits&, const Features&) {
    return std::nullopt;
  }
  virtual std::string catalog_version() const { return ""; }  // of the snapshot that it took; "" = none
  virtual std::span<const ItemView> items() const {
    return {};
  }  // catalog items in question; they count as demand

  // ---- its plans ----
  // chooses among its plans; null = there is one plan
  virtual const Policy* policy() const { return nullptr; }
  virtual std::string user() const { return ""; }  // user whose accesses the index counts; "" = none
  virtual Situation situation() const { return {}; }
  // Builds the plans in the policy's order; at least one. Called once.
  virtual std::vector<Candidate> candidates(const PromptForm& form, const BlockNames& names) const = 0;

  // Checks the paths that a worker's search found; "" = valid, else what is wrong.
  virtual std::string validate_beams(std::span<const Beam>) const { return ""; }
  virtual Message reply(const RunResult& outcome) = 0;  // called once, at the end
};

struct RequestKind {
  std::string_view name;
  Metric metric;  // counts requests of this kind
  bool (*is)(const Message& message);
  // `usual`: the policy of requests that name none.
  std::unique_ptr<Request> (*take)(const Message& message, const Policy& usual);
};
std::span<const RequestKind> request_kinds();
const RequestKind* find_kind(const Message& message);  // null = the message is not a request

Candidate score_plan(const ScoreRequest& request);
std::unique_ptr<Request> take_rank(const Message& message, const Policy& usual);
std::unique_ptr<Request> take_generate(const Message& message, const Policy& usual);
std::unique_ptr<Request> take_complete(const Message& message, const Policy& usual);
std::unique_ptr<Request> take_score(const Message& message, const Policy& usual);

}  // namespace troupe::router
