#pragma once
// The router takes requests from the door and sees each to its one outcome: an answer or a typed refusal, by
// its deadline. A ranking request goes
//   on_rank → features → (index) → plan → inference worker → on_ranked
// and every step may end it; answers that come after its end find nothing and are ignored. The index only
// says what is worth reusing: when it is silent the request goes on without it (promise 7).
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "router/plan.h"
#include "router/policy.h"
#include "router/precompute.h"
#include "router/request_check.h"
#include "runtime/core.h"

namespace troupe::router {

struct RouterConfig {
  NodeId node = 1;
  NodeId cache_meta_node = 1;
  NodeId kv_node = 1;              // whose readiness the precomputation waits for
  std::vector<NodeId> workers{1};  // nodes with an inference worker; the first is the own one
  std::uint64_t first_id = 1;      // of its requests and jobs; another one at each start of the process
  PromptForm form;
  NameContext names;
  Policy policy = Policy::bat;  // of requests that name none
  RequestLimits limits;
  std::uint32_t in_flight_max = 1'024;  // ranking and score requests; more are refused
  std::uint32_t writes_in_flight_max = 256;
  Duration budget{1'000'000};  // of requests that name none
  Duration budget_max{10'000'000};
  Duration lookup_wait_min{1'000};  // the index is waited for a tenth of the budget, but at least this
  PrecomputeConfig precompute;
};

// Where the plan runs: the node that holds the user's block, or most of the items' blocks, whichever the
// prefix reuses; ties and misses go to the earliest of `workers`.
NodeId choose_node(Prefix prefix, const std::optional<BlocksFound>& found,
                   const std::vector<NodeId>& workers);

// What became of the tokens of an executed plan.
struct TokenCount {
  std::uint32_t total = 0, computed = 0, reused = 0, blocks_reused = 0;
};

class RouterCore final : public Core {
 public:
  explicit RouterCore(RouterConfig config);
  void step(Instant now, const Event& event, Effects& effects) override;

 private:
  using Serial = std::uint64_t;
  struct Asked {
    Address from;
    RequestId id = 0;
    Instant received, deadline;
  };
  struct SentSegment {  // what is remembered of a plan once it is on its way
    SegmentKind kind = SegmentKind::user;
    std::uint32_t tokens = 0;
    bool named = false;
  };
  enum class Stage : std::uint8_t { features, lookup, executing };
  struct Ranking {
    Asked asked;
    RankRequest request;
    Policy policy = Policy::bat;
    Stage stage = Stage::features;
    Instant stage_began;
    std::vector<Item> items;
    FittedHistory history;
    Prefix prefix = Prefix::none;
    NodeId worker = 0;
    std::vector<SentSegment> sent;
    RankReply reply;  // filled step by step
  };
  struct Scoring {
    Asked asked;
    std::size_t items = 0, labels = 0;
    bool apply_softmax = false;
    NodeId worker = 0;
    std::vector<SentSegment> sent;
  };
  struct Writing {  // kept until its job ends, even when the client was told that it is late
    Asked asked;
    Write write;
    bool answered = false;
  };

  void on_message(Turn turn, const Received& received);
  void on_answer(Turn turn, const Received& received);
  void on_done(Turn turn, const Done& done);
  void on_timer(Turn turn, std::uint64_t timer);
  void on_worker_lost(Turn turn, NodeId node);

  // router_rank.cc
  void on_rank(Turn turn, Address from, const RankRequest& request);
  void on_features(Turn turn, Serial serial, const JobResult& result);
  std::optional<Refusal> take_features(Ranking& ranking, const Features& features) const;
  void look_up(Turn turn, Serial serial, Ranking& ranking);
  void on_found(Turn turn, const BlocksFound& found);
  void execute(Turn turn, Serial serial, Ranking& ranking, const std::optional<BlocksFound>& found);
  void on_ranked(Turn turn, Serial serial, const Executed& executed);

  // router_score.cc
  void on_score(Turn turn, Address from, const ScoreRequest& request);
  Execute score_plan(const ScoreRequest& request) const;
  void on_scored(Turn turn, Serial serial, const Executed& executed);

  // router_core.cc: admission and ends
  template <class Request>
  void on_write(Turn turn, Address from, const Request& request);
  void on_written(Turn turn, Serial serial, const JobResult& result);
  void spread_news(Turn turn, const Write& write);
  bool admit(Turn turn, Address from, RequestId id, const std::optional<Refusal>& fault);
  Asked ask(Turn turn, Address from, RequestId id, Serial serial, std::int64_t budget_us);
  Duration budget_of(std::int64_t budget_us) const;
  void refuse(Turn turn, const Asked& asked, Refusal refusal);
  void refuse_request(Turn turn, Serial serial, const Refusal& refusal);  // and ends it
  void close(Turn turn, const Asked& asked, Serial serial);  // `asked` must outlive it: pass a copy
  void count_in_flight(Turn turn) const;
  static std::vector<SentSegment> remember(const std::vector<PlannedSegment>& segments);
  static TokenCount count_tokens(Turn turn, const std::vector<SentSegment>& sent, const Executed& executed);
  StatusReply status(RequestId id) const;

  Address cache_meta() const { return {config_.cache_meta_node, Role::cache_meta}; }

  RouterConfig config_;
  std::uint64_t next_id_;
  Precompute precompute_;
  std::map<Serial, Ranking> rankings_;
  std::map<Serial, Scoring> scorings_;
  std::map<Serial, Writing> writings_;
  std::set<std::pair<Address, RequestId>> open_;  // requests that have no outcome yet
  std::set<Serial> feature_jobs_;                 // running, whether their request has ended or not
  std::string catalog_version_;                   // as last seen
  std::uint64_t answered_ = 0, refused_ = 0;
};

}  // namespace troupe::router
