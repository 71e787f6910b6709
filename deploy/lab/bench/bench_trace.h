#pragma once
// The questions of a request trace for `troupe bench rank --trace`: profiles are written into the box's store
// as the trace says that they change, a little ahead of the requests that need them.
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

struct TraceSurvey {
  std::uint64_t requests = 0;
  std::vector<std::uint64_t> user_tokens;  // of each user's last profile
};
// One pass over the trace, at most `requests_max` of it (0: all). `tokens_of` an item; 0: the catalog lacks
// it, which is refused with its place, as is a trace without requests, or one that takes too long at this
// speed (0: not at its times).
TraceSurvey survey_trace(const std::filesystem::path& trace, std::uint64_t requests_max,
                         const std::function<std::uint64_t(const std::string& item)>& tokens_of,
                         double speed = 0);

class TraceQuestions {
 public:
  using WriteProfiles = std::function<void(const std::vector<PutUser>&)>;
  // Profiles keep their newest `events_max` events; `write` may be null. Requests are for a model that
  // generates, or for one that ranks, and others are refused with their place; nothing: for either.
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
  std::vector<std::vector<std::uint32_t>> histories_;                // by user
  std::optional<std::pair<TracedRequest, TraceUsers::Visit>> held_;  // read, and for the next batch
  std::deque<Question> ready_;
};

}  // namespace troupe::deploy
