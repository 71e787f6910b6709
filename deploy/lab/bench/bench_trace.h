#pragma once
// Questions of a request trace for `troupe-lab bench rank --trace`. Profiles are written into the node's
// store as the trace changes them, shortly before the requests that need them.
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "deploy/lab/bench/bench_client.h"
#include "deploy/lab/traces/trace_users.h"

namespace troupe::deploy {

struct TraceTotals {
  std::uint64_t requests = 0;
  std::vector<std::uint64_t> user_tokens;  // tokens of each user's last profile
};
// Reads the first `requests_max` requests of a trace once (0 = all). `tokens_of` returns the tokens of an
// item, or 0 if the catalog lacks it. Throws ImportError with the line for an item that the catalog lacks, a
// request of another kind than `generates` (as for TraceQuestions), a trace without requests, and a trace
// that takes too long at `speed` (0 = its times are not used).
TraceTotals total_trace(const std::filesystem::path& trace, std::uint64_t requests_max,
                        const std::function<std::uint64_t(const std::string& item)>& tokens_of,
                        double speed = 0, std::optional<bool> generates = {});

class TraceQuestions {
 public:
  using WriteProfiles = std::function<void(const std::vector<PutUser>&)>;
  // Profiles keep their newest `events_max` events. `write` may be null. `generates` is true for a model that
  // generates and false for one that ranks; requests of the other kind are refused with their line. An empty
  // optional accepts both kinds.
  TraceQuestions(const std::filesystem::path& trace, std::uint64_t requests_max, std::size_t events_max,
                 WriteProfiles write, std::optional<bool> generates = false);

  bool next(Question& question);
  std::uint64_t users() const { return users_.size(); }

 private:
  void read_ahead();
  void add(const TracedRequest& request, const TraceUsers::Visit& visit, std::vector<PutUser>& profiles);

  TraceReader reader_;
  std::uint64_t left_;
  std::size_t events_max_;
  WriteProfiles write_;
  std::optional<bool> generates_;
  TraceUsers users_;
  NumberedNames items_;
  std::vector<std::vector<std::uint32_t>> histories_;                // item numbers, by user
  std::optional<std::pair<TracedRequest, TraceUsers::Visit>> next_;  // first request of the next batch
  std::deque<Question> ready_;
};

}  // namespace troupe::deploy
