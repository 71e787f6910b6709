// Implements embeddings: the final hidden state of each text's last token, or of a user's last event,
// divided by its length. The texts share nothing, so each is a segment of its own without a name. A
// user's history has the blocks that rankings use (plan_events.cc).
#include <algorithm>
#include <cmath>
#include <utility>

#include "router/fleet/fingerprint.h"
#include "router/request/own_history.h"
#include "router/request/plans.h"
#include "router/request/request.h"
#include "runtime/actor/user_home.h"

namespace troupe::router {
namespace {

constexpr std::size_t item_tokens = 1;  // of a model whose tokens are items

class Embedding final : public RequestOf<EmbedRequest> {
 public:
  Embedding(EmbedRequest&& request, const Policy& usual)
      : RequestOf(std::move(request)),
        user_(history_user(request_)),
        policy_(usual),
        content_(router::fingerprint(request_, 0)) {}

  std::string_view kind() const override { return "embed"; }
  std::string_view named_user() const override { return request_.user; }
  std::uint64_t profile_version() const override { return profile_version_; }
  std::uint64_t home() const override { return of_user_ ? user_hash(request_.tenant, user_) : content_; }
  std::uint64_t fingerprint() const override {
    return of_user_ ? router::fingerprint(request_, profile_version_) : content_;
  }

  std::optional<FindFeatures> features() const override {
    if (!of_user_) return std::nullopt;
    return FindFeatures{.tenant = request_.tenant, .user = request_.user, .history = own_history(request_)};
  }
  std::optional<Refusal> take(const PromptForm& form, const RequestLimits& limits,
                              const Features& features) override;

  const Policy* policy() const override { return of_user_ ? &policy_ : nullptr; }
  std::string user() const override { return of_user_ ? owner_of_user(request_.tenant, user_) : ""; }
  Situation situation() const override { return {.user_tokens = history_.tokens.size()}; }
  std::vector<Candidate> candidates(const PromptForm& form, const BlockNames& names) override;
  Message reply(RunResult&& result) override;

 private:
  Candidate of_texts();
  Candidate of_history(const PromptForm& form, const BlockNames& names) const;

  std::string user_;  // owner of the history's blocks
  Policy policy_;
  std::uint64_t content_ = 0;  // fingerprint without a profile
  bool of_user_ = request_.texts.empty();
  FittedHistory history_;
  std::uint64_t profile_version_ = 0;
};

std::optional<Refusal> Embedding::take(const PromptForm& form, const RequestLimits& limits,
                                       const Features& features) {
  if (!features.user) {
    Refusal refusal = user_without_profile(request_.user, request_.tenant);
    refusal.where = "input";
    return refusal;
  }
  profile_version_ = features.user->version;
  history_ = fit_history(form, *features.user, item_tokens);  // as many events as a ranking reads
  if (history_.tokens.empty())
    return Refusal{
        RefusalKind::unprocessable, "empty_history",
        has_own_history(request_) ? "the history is empty" : "user \"" + request_.user + "\" has no events",
        "input", "a user with at least one event"};
  if (history_.tokens.size() > limits.request_tokens_max)
    return Refusal{RefusalKind::too_large, "too_many_tokens",
                   "the user has " + std::to_string(history_.tokens.size()) + " tokens", "input",
                   "at most " + std::to_string(limits.request_tokens_max) + " (router.request_tokens_max)"};
  return std::nullopt;
}

void read_last_state(Plan& plan) {
  const auto segment = static_cast<std::uint32_t>(plan.segments.size() - 1);
  const auto last = static_cast<std::uint32_t>(plan.segments.back().tokens.size() - 1);
  plan.readouts.push_back({.segment = segment, .offset = last, .what = Readout::What::state});
}

Candidate Embedding::of_texts() {
  Candidate made;
  made.name = "embed";
  for (TokenList& text : request_.texts) {
    made.plan.segments.push_back({SegmentKind::user, std::move(text.tokens), 0, {}});
    read_last_state(made.plan);
  }
  made.blocks.resize(made.plan.segments.size());
  return made;
}

// The last event, or a history that is one segment, gets no block, so that it is computed and can be read.
Candidate Embedding::of_history(const PromptForm& form, const BlockNames& names) const {
  Candidate made = history_plan({.form = form,
                                 .names = policy_->reuses ? &names : nullptr,
                                 .tenant = request_.tenant,
                                 .user = user_,
                                 .history = history_.tokens,
                                 .events = history_.events,
                                 .features = history_.features,
                                 .now = request_.request_timestamp});
  made.plan.readouts.clear();  // a model of next items would read its candidates, which are none
  read_last_state(made.plan);
  made.blocks.back() = {};
  return made;
}

std::vector<Candidate> Embedding::candidates(const PromptForm& form, const BlockNames& names) {
  std::vector<Candidate> made;
  made.push_back(of_user_ ? of_history(form, names) : of_texts());
  return made;
}

// A state of only zeros stays as it is.
void divide_by_length(std::vector<double>& state) {
  double squares = 0;
  for (const double number : state) squares += number * number;
  const double length = std::sqrt(squares);
  if (length == 0) return;
  for (double& number : state) number /= length;
}

Message Embedding::reply(RunResult&& result) {
  EmbedReply reply{.id = request_.id, .embeddings = std::move(result.rows)};
  for (ScoreRow& row : reply.embeddings) divide_by_length(row.scores);
  fill_run(result, reply);
  return reply;
}

}  // namespace

std::unique_ptr<Request> take_embed(Message&& message, const Policy& usual) {
  return std::make_unique<Embedding>(std::get<EmbedRequest>(std::move(message)), usual);
}

}  // namespace troupe::router
