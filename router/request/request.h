#pragma once
// Interface that the router's request life cycle needs from a request kind: its check, the features
// that it needs, the plans by which it could be answered, and its reply. Planning, Attempts and
// Answers do the rest, which is the same for all kinds. A kind is a file that implements this
// interface and a row of the table below. It keeps the received message, which is moved into it.
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
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
  // Plan and blocks that ran, and per segment 1 if its block was reused; valid until the reply is made.
  const Candidate* sent = nullptr;
  std::span<const std::uint8_t> reused;
};

// Fills the reply fields that all kinds share.
template <class Reply>
void fill_run(RunResult& result, Reply& reply) {
  reply.tokens_total = result.tokens_total;
  reply.tokens_computed = result.tokens_computed;
  reply.tokens_reused = result.tokens_reused;
  reply.model_version = std::move(result.model_version);
  reply.timings = result.timings;
  if constexpr (requires { reply.node; }) reply.node = result.node;
}

class Request {
 public:
  virtual ~Request() = default;

  virtual std::string_view kind() const = 0;  // name of its RequestKind
  virtual RequestId id() const = 0;
  virtual std::string_view tenant() const = 0;
  virtual std::int64_t budget_us() const = 0;  // 0 = the configured budget
  virtual const TraceContext& trace() const = 0;
  virtual std::string_view client_request_id() const = 0;      // x-request-id of its client; "" = none
  virtual std::string_view named_user() const { return ""; }   // user that it names; "" = none
  virtual std::uint64_t profile_version() const { return 0; }  // of the profile that it took; 0 = none
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
  // Builds the plans in the policy's order; at least one. Called once: the plans take the request's
  // tokens.
  virtual std::vector<Candidate> candidates(const PromptForm& form, const BlockNames& names) = 0;
  // Builds one of these plans anew, with the marked items computed in their place (RankPrompt::in_place).
  // nullopt = the request has no such plans.
  virtual std::optional<Candidate> candidate_in_place(std::string_view, const PromptForm&, const BlockNames&,
                                                      std::span<const std::uint8_t>) const {
    return std::nullopt;
  }

  // Checks the paths that a worker's search found; "" = valid, else what is wrong.
  virtual std::string validate_beams(std::span<const Beam>) const { return ""; }
  // Called once, at the end: what the reply needs is moved out of the request. Only `trace` stays.
  virtual Message reply(RunResult&& result) = 0;
};

// Holds a request's message, and answers from the members that the messages of all kinds have. A kind moves
// parts of it into its plan.
template <class Body>
class RequestOf : public Request {
 public:
  explicit RequestOf(Body&& request) : request_(std::move(request)) {}

  RequestId id() const final { return request_.id; }
  std::string_view tenant() const final { return request_.tenant; }
  std::int64_t budget_us() const final { return request_.budget_us; }
  const TraceContext& trace() const final { return request_.trace; }
  std::string_view client_request_id() const final { return request_.client_request_id; }
  std::optional<Refusal> validate(const PromptForm& form, const RequestLimits& limits) const final {
    return router::validate(request_, form, limits);
  }

 protected:
  Body request_;
};

// Returns the x-request-id of the request's response: its client's, else its trace id.
std::string request_id_of(const Request& request);

struct RequestKind {
  std::string_view name;
  Metric metric;  // counts requests of this kind
  bool (*is)(const Message& message);
  // Moves from the message. `usual`: the policy of requests that name none.
  std::unique_ptr<Request> (*take)(Message&& message, const Policy& usual);
};
std::span<const RequestKind> request_kinds();
const RequestKind* find_kind(const Message& message);  // null = the message is not a request

std::unique_ptr<Request> take_rank(Message&& message, const Policy& usual);
std::unique_ptr<Request> take_generate(Message&& message, const Policy& usual);
std::unique_ptr<Request> take_complete(Message&& message, const Policy& usual);
std::unique_ptr<Request> take_score(Message&& message, const Policy& usual);
std::unique_ptr<Request> take_embed(Message&& message, const Policy& usual);

}  // namespace troupe::router
