#pragma once
// The client of `troupe-lab bench rank`: sends requests to a single node and counts the answers. A closed
// loop keeps a number of requests in flight and sends the next one when one ends. An open loop sends each
// request at its time, whatever happens to the others.
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
  std::string truth;  // item that the answer is judged by; "" = not judged
  Instant at;         // due time in an open loop
};
// Supplies the next question; returns false after the last one.
using Questions = std::function<bool(Question&)>;

// Nearest-rank percentile: the smallest value that at least `share` of the values do not exceed. Returns 0
// for an empty list.
double percentile(const std::vector<double>& sorted, double share);

// Result of one ranking, to be compared with another answer to the same question.
struct RankedAnswer {
  bool judged = false;            // the true item is known
  std::size_t rank = 0;           // of the true item, from 1; 0: it is not among the items
  std::vector<std::string> best;  // up to ten items, best first
};

struct BenchRankRun {
  std::string policy;
  std::uint64_t requests = 0, errors = 0, users = 0, judged = 0;
  double seconds = 0, qps = 0, p50_ms = 0, p99_ms = 0;
  std::uint64_t tokens_total = 0, tokens_computed = 0, tokens_reused = 0;
  std::uint64_t plans_user = 0, plans_item = 0;
  // Blocks that were found in the cache, and blocks that had to be computed. The system block of either
  // plan counts as an item block.
  std::uint64_t user_blocks_hit = 0, user_blocks_computed = 0, item_blocks_hit = 0, item_blocks_computed = 0;
  double hit_rate = 0;         // tokens_reused / tokens_total (BAT §6.2)
  std::vector<double> tenths;  // hit rate of each tenth of the answers, in order of arrival
  double cpu_seconds = 0;      // of this process, including the client's small part
  // Observed over predicted time, from the choice of a worker to the answer.
  double prediction_p10 = 0, prediction_p50 = 0, prediction_p90 = 0;
  double recall_at_10 = 0, ndcg_at_10 = 0;  // over the questions with a truth
  std::vector<CpuShare> profile;            // cpu_seconds by component; empty unless requested
  std::vector<RankedAnswer> answers;        // by question; empty unless kept
  std::uint64_t resident_bytes = 0;  // memory that the node added to the process; 0 unless answers are kept
};

class BenchClient {
 public:
  // `total`: approximate number of questions, for the progress display. `profile`: the run reports where
  // its CPU time went. The host outlives the client, and its server address passes answers to deliver().
  BenchClient(Host& host, Questions questions, std::uint64_t total, bool profile = false);
  ~BenchClient();  // stops the host, so that nothing is delivered any more

  void keep_answers() { keeps_answers_ = true; }  // of rankings, in BenchRankRun::answers
  void deliver(Message answer);
  void wait_until_precomputed();

  // Both rethrow what `questions` throws.
  BenchRankRun run_closed(std::uint32_t in_flight);
  // Latencies count from the time at which a question was due, even if it was posted later.
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
  void count_hit(std::size_t better);
  void keep(const RankReply& reply);
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
  std::unordered_map<RequestId, Pending> pending_;  // never iterated
  std::vector<double> latencies_ms_, predictions_;  // predictions_: observed over predicted time
  struct ReusedTokens {
    std::uint32_t reused = 0, total = 0;
  };
  std::vector<ReusedTokens> reused_;  // one per answer
  std::uint64_t sent_ = 0, finished_ = 0;
  bool ended_ = false;   // there are no more questions
  bool closed_ = false;  // a question follows each answer
  bool keeps_answers_ = false;
  std::exception_ptr failure_;
  std::string precompute_;
  BenchRankRun result_;
};

}  // namespace troupe::deploy
