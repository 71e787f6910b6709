#include "deploy/lab/bench/bench_trace.h"

#include <algorithm>
#include <limits>

namespace troupe::deploy {

namespace {

// Requests whose profiles are written together: each write waits for the disk once.
constexpr std::size_t batch_max = 64;

std::uint64_t or_all(std::uint64_t requests_max) {
  return requests_max > 0 ? requests_max : std::numeric_limits<std::uint64_t>::max();
}

}  // namespace

TraceSurvey survey_trace(const std::filesystem::path& trace, std::uint64_t requests_max,
                         const std::function<std::uint64_t(const std::string&)>& tokens_of, double speed) {
  TraceSurvey survey;
  TraceReader reader(trace);
  TraceUsers users;
  const auto known_tokens = [&](const std::string& item) {
    const std::uint64_t tokens = tokens_of(item);
    if (tokens == 0)
      reader.fail("item \"" + item.substr(0, 40) + "\" is not in the catalog", "its items only");
    return tokens;
  };
  for (TracedRequest request; survey.requests < or_all(requests_max) && reader.next(request);) {
    ++survey.requests;
    if (speed > 0) reader.due(request, speed);
    const TraceUsers::Visit visit = users.visit(reader, request);
    if (visit.first) survey.user_tokens.push_back(0);
    for (const std::string& item : request.events) survey.user_tokens[visit.user] += known_tokens(item);
    for (const std::string& item : request.candidates) known_tokens(item);
  }
  if (survey.requests == 0) reader.fail("there are no requests", "at least one");
  return survey;
}

TraceQuestions::TraceQuestions(const std::filesystem::path& trace, std::uint64_t requests_max,
                               std::size_t events_max, WriteProfiles write, std::optional<bool> generates)
    : reader_(trace),
      left_(or_all(requests_max)),
      events_max_(events_max),
      write_(std::move(write)),
      generates_(generates) {}

bool TraceQuestions::next(Question& question) {
  if (ready_.empty()) read_ahead();
  if (ready_.empty()) return false;
  question = std::move(ready_.front());
  ready_.pop_front();
  return true;
}

// A batch ends before a user who is in it already: none is asked for with a profile that is still to come.
void TraceQuestions::read_ahead() {
  std::vector<PutUser> profiles;
  std::set<std::uint32_t> met;
  while (ready_.size() < batch_max) {
    if (!held_) {
      TracedRequest request;
      if (left_ == 0 || !reader_.next(request)) break;
      --left_;
      if (generates_ && request.generates != *generates_)
        reader_.fail(request.generates ? "items are asked for, and the model ranks"
                                       : "candidates are ranked, and the model generates",
                     "a model of the trace's kind");
      const TraceUsers::Visit visit = users_.visit(reader_, request);
      held_.emplace(std::move(request), visit);
    }
    if (!met.insert(held_->second.user).second) break;
    add(held_->first, held_->second, profiles);
    held_.reset();
  }
  if (write_ && !profiles.empty()) write_(profiles);
}

void TraceQuestions::add(const TracedRequest& request, const TraceUsers::Visit& visit,
                         std::vector<PutUser>& profiles) {
  if (visit.first) histories_.emplace_back();
  std::vector<std::uint32_t>& history = histories_[visit.user];
  for (const std::string& item : request.events) history.push_back(items_.number_of(item));
  if (history.size() > events_max_)
    history.erase(history.begin(), history.end() - static_cast<std::ptrdiff_t>(events_max_));
  if (visit.changed) {
    PutUser& put = profiles.emplace_back(PutUser{0, request.tenant, request.user, {}, {}});
    for (const std::uint32_t item : history) put.history.push_back(items_.name(item));
  }
  Question& question = ready_.emplace_back();
  if (request.generates)
    question.request = GenerateRequest{
        .tenant = request.tenant, .user = request.user, .top_k = request.top_k, .width = request.width};
  else
    question.request =
        RankRequest{.tenant = request.tenant, .user = request.user, .candidates = request.candidates};
  question.truth = request.truth;
  question.at = request.at;
}

}  // namespace troupe::deploy
