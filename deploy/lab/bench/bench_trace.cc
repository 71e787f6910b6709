// Turns a request trace into the requests of `troupe-lab bench rank --trace`. Writes each user's
// profile into the store shortly before the request that needs it.
#include "deploy/lab/bench/bench_trace.h"

#include <algorithm>
#include <limits>

namespace troupe::deploy {

namespace {

// Requests per batch. Their profiles are written together, because each write waits for the disk once.
constexpr std::size_t batch_max = 64;

std::uint64_t or_all(std::uint64_t requests_max) {
  return requests_max > 0 ? requests_max : std::numeric_limits<std::uint64_t>::max();
}

void check_kind(const TraceReader& reader, const TracedRequest& request, std::optional<bool> generates) {
  if (generates && request.generates != *generates)
    reader.fail(request.generates ? "the request generates items, but the model ranks"
                                  : "the request ranks candidates, but the model generates",
                "a model of the trace's kind");
}

}  // namespace

TraceTotals total_trace(const std::filesystem::path& trace, std::uint64_t requests_max,
                        const std::function<std::uint64_t(const std::string&)>& tokens_of, double speed,
                        std::optional<bool> generates) {
  TraceTotals survey;
  TraceReader reader(trace);
  TraceUsers users;
  const auto known_tokens = [&](const std::string& item) {
    const std::uint64_t tokens = tokens_of(item);
    if (tokens == 0)
      reader.fail("item \"" + item.substr(0, 40) + "\" is not in the catalog", "only items of the catalog");
    return tokens;
  };
  for (TracedRequest request; survey.requests < or_all(requests_max) && reader.next(request);) {
    ++survey.requests;
    check_kind(reader, request, generates);
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

// Fills ready_ with a batch. A batch ends before a user's second request, so that no request finds a profile
// newer than its own.
void TraceQuestions::read_ahead() {
  std::vector<PutUser> profiles;
  std::set<std::uint32_t> users_in_batch;
  while (ready_.size() < batch_max) {
    if (!next_) {
      TracedRequest request;
      if (left_ == 0 || !reader_.next(request)) break;
      --left_;
      check_kind(reader_, request, generates_);
      const TraceUsers::Visit visit = users_.visit(reader_, request);
      next_.emplace(std::move(request), visit);
    }
    if (!users_in_batch.insert(next_->second.user).second) break;
    add(next_->first, next_->second, profiles);
    next_.reset();
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
