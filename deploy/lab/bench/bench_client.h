#pragma once
// Who asks a box in `troupe bench rank`, and counts what comes back: closed loop (so many requests under way,
// the next one when one ends) or open loop (each at its time, whatever became of the others).
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "deploy/lab/bench/cpu_profile.h"
#include "runtime/host/host.h"

namespace troupe::deploy {

struct Question {
  std::variant<RankRequest, GenerateRequest> request;
  std::string truth;  // the answer is judged by it; "": it is not judged
  Instant at;         // in an open loop
};
// The next question; false after the last one.
using Questions = std::function<bool(Question&)>;

// The least value that so large a share is not above (the nearest rank); 0 of none.
double percentile(const std::vector<double>& sorted, double share);

struct BenchRankRun {
  std::string policy;
  std::uint64_t requests = 0, errors = 0, users = 0, judged = 0;
  double seconds = 0, qps = 0, p50_ms = 0, p99_ms = 0;
  std::uint64_t tokens_total = 0, tokens_computed = 0, tokens_reused = 0;
  std::uint64_t plans_user = 0, plans_item = 0;
  // Blocks that were found, and that had to be computed. The system block of either plan counts as an item's.
  std::uint64_t user_blocks_hit = 0, user_blocks_computed = 0, item_blocks_hit = 0, item_blocks_computed = 0;
  double hit_rate = 0;         // tokens_reused / tokens_total (BAT §6.2)
  std::vector<double> tenths;  // the same of each tenth of the answers, in the order in which they came
  double cpu_seconds = 0;      // of this process, the client's little included
  // Observed over predicted time from the choice of a node to the answer.
  double prediction_p10 = 0, prediction_p50 = 0, prediction_p90 = 0;
  double recall_at_10 = 0, ndcg_at_10 = 0;  // over the questions with a truth
  std::vector<CpuShare> profile;            // where cpu_seconds went, if that was asked for
};

class BenchClient {
 public:
  // `total`: about how many questions, for who waits. The host outlives it; who is the host's door calls
  // deliver. `profile`: the run says where its CPU time went.
  BenchClient(Host& host, Questions questions, std::uint64_t total, bool profile = false);
  ~BenchClient();  // nobody may deliver to it any more: stops the host

  void deliver(Message answer);
  void wait_until_precomputed();

  // Both rethrow what `questions` throws.
  BenchRankRun run_closed(std::uint32_t in_flight);
  // Latencies count from the time at which a question was due, also where it was posted later.
  BenchRankRun run_open(double speed);

 private:
  using Clock = std::chrono::steady_clock;
  struct Pending {
    Clock::time_point since;
    std::string truth;
  };

  bool fetch(Question& question);  // under mutex_
  void send_next();                // under mutex_
  void post(Question question, Clock::time_point since);
  template <class Reply>
  void take(const Reply& reply);
  std::vector<double> hit_rates() const;
  void judge(const RankReply& reply, const std::string& truth);
  void judge(const GenerateReply& reply, const std::string& truth);
  void judge_place(std::size_t better);
  void finish_one(RequestId id);
  Clock::time_point start();
  BenchRankRun finish(Clock::time_point begin);

  Host& host_;
  Questions questions_;
  std::uint64_t total_;
  const bool profiles_;
  std::optional<CpuProfile> profile_;
  double cpu_begin_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::unordered_map<RequestId, Pending> pending_;  // looked up only
  std::vector<double> latencies_ms_, predictions_;  // predictions: observed over predicted
  struct ReusedTokens {
    std::uint32_t reused = 0, total = 0;
  };
  std::vector<ReusedTokens> reused_;  // of each answer
  std::uint64_t sent_ = 0, finished_ = 0;
  bool ended_ = false;   // there are no more questions
  bool closed_ = false;  // a question follows each answer
  std::exception_ptr failure_;
  std::string precompute_;
  BenchRankRun result_;
};

}  // namespace troupe::deploy
