// Decides which model and catalog version new requests use, and carries out an operator's change
// step by step. All routers agree through one key of the coordination store.
#include "router/fleet/versions.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "kernels/base/check.h"

namespace troupe::router {
namespace {

// Returns a share below all users; nullopt for any other text.
std::optional<std::uint32_t> parse_share(std::string_view text) {
  std::uint32_t share = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), share);
  if (error != std::errc() || end != text.data() + text.size() || share >= Versions::all_users)
    return std::nullopt;
  return share;
}

// Heartbeats for which routers that know a newer epoch may write it again, before others write theirs.
constexpr std::int64_t rumour_beats = 2;
constexpr std::int64_t rumour_beats_max = 3;  // for which requests are pinned in spite of a rumour

bool announces_same(const Versions& a, const Versions& b) {
  return a.next_model == b.next_model && a.next_catalog == b.next_catalog && a.next_share == b.next_share;
}

}  // namespace

std::string versions_text(const Versions& versions) {
  const std::string text =
      versions.model_version + '\n' + versions.catalog_version + '\n' + versions.next_model;
  if (versions.is_shared())
    return text + '\n' + versions.next_catalog + '\n' + std::to_string(versions.next_share);
  return versions.next_catalog.empty() ? text : text + '\n' + versions.next_catalog;
}

std::optional<Versions> parse_versions(std::uint64_t epoch, std::string_view text) {
  std::array<std::string, 5> lines;
  std::size_t count = 0;
  for (bool more = true; more; ++count) {
    if (count == lines.size()) return std::nullopt;
    const std::size_t end = text.find('\n');
    lines[count] = text.substr(0, end);
    more = end != text.npos;
    if (more) text.remove_prefix(end + 1);
  }
  auto& [model, catalog, next_model, next_catalog, share] = lines;
  if (count < 3 || model.empty() || (next_model.empty() && !next_catalog.empty())) return std::nullopt;
  Versions versions{epoch, std::move(model), std::move(catalog), std::move(next_model),
                    std::move(next_catalog)};
  if (count < lines.size()) return versions;
  const auto next_share = parse_share(share);
  if (!next_share || versions.next_model.empty()) return std::nullopt;
  versions.next_share = *next_share;
  return versions;
}

void VersionKeeper::hear(Instant now, const Versions& heard, const WorkerTable& workers) {
  if (coordinate_ && heard.epoch > now_.epoch && !heard.model_version.empty()) {
    note_load_refusal(now, workers);
    now_ = heard;
  }
  if (now_.epoch >= heard_epoch_) behind_since_.reset();
}

std::string VersionKeeper::obstacle(Instant now) const {
  if (!coordinate_) return "";
  std::string why;
  if (now_.epoch == 0) {
    why = "the served versions are not known yet";
  } else if (behind_since_ && now.us - behind_since_->us > rumour_beats_max * heartbeat_.us) {
    why = "workers follow versions of epoch " + std::to_string(heard_epoch_) + ", newer than epoch " +
          std::to_string(now_.epoch) + " known here";
  } else {
    return "";
  }
  return away_why_.empty() ? why : why + "; the coordination store: " + away_why_;
}

// An epoch that a read has disproved is no reason to refuse requests, but the key is written again
// until all nodes follow it.
void VersionKeeper::rumour(Step step, std::uint64_t epoch, const WorkerTable& workers) {
  if (!coordinate_ || epoch <= now_.epoch || epoch > RaiseRevisions::above_max) return;
  heard_epoch_ = std::max(heard_epoch_, epoch);
  if (!behind_since_ && epoch > disproved_epoch_) behind_since_ = step.now;
  if (rumour_read_ && step.now < *rumour_read_ + heartbeat_) return;
  rumour_read_ = step.now;
  tick(step, workers);
}

void VersionKeeper::tick(Step step, const WorkerTable& workers) {
  if (!coordinate_ || question_ != Question::none) return;
  catalog_asked_ = false;
  if (!advance(step, workers)) ask_key(step);
}

void VersionKeeper::ask_key(Step step) {
  start(step, Question::read, Coordinate{ReadKey{std::string(versions_key)}});
}

void VersionKeeper::start(Step step, Question question, Job work) {
  question_ = question;
  asked_at_ = step.now;
  epoch_when_asked_ = now_.epoch;
  heard_when_asked_ = heard_epoch_;
  step.effects.start(job_ = step.next_id++, std::move(work));
}

// Logs each episode in which the Coordination does not answer once.
void VersionKeeper::note_answer(Step step, bool answered, const JobResult& result) {
  const auto* refusal = std::get_if<Refusal>(&result);
  episode_.note(step, answered ? nullptr : refusal);
  const std::string why = answered ? "" : refusal ? refusal->what : "no answer";
  if (why.empty() != away_why_.empty()) {
    if (why.empty()) step.effects.log(LogLevel::info, "coordination_available");
    if (!why.empty())
      step.effects.log(LogLevel::warning, "coordination_unavailable",
                       {{"why", why}, {"where", refusal ? refusal->where : ""}});
  }
  away_why_ = why;
}

void VersionKeeper::note_members_read(Step step, const JobResult& result) {
  if (!coordinate_) note_answer(step, std::holds_alternative<CoordinationReply>(result), result);
}

VersionKeeper::Answer VersionKeeper::on_done(Step step, std::uint64_t job, const JobResult& result,
                                             const WorkerTable& workers) {
  if (question_ == Question::none || job != job_) return Answer::foreign;
  const Question question = std::exchange(question_, Question::none);
  if (question == Question::find_catalog) {
    if (wish_ && wish_->earlier_job != job) on_catalog_found(result);
    if (std::holds_alternative<Refusal>(result) || !advance(step, workers)) ask_key(step);
    return Answer::read;
  }
  const auto* answer = std::get_if<CoordinationReply>(&result);
  note_answer(step, answer != nullptr, result);
  if (!answer) return Answer::read;  // the Coordination is away: ask again with the next heartbeat
  if (question == Question::raise) {
    if (now_.epoch > 0) write(step, now_, raised_over_);
    return Answer::read;
  }
  const bool lost = shows_a_loss(question, *answer), disproved = disproves_a_rumour(question, *answer);
  if (disproved) adopt(step, *answer, workers);
  if (lost || (disproved && now_.epoch == answer->revision)) {
    write_again(step, *answer, lost);
    return Answer::read;
  }
  const bool written = question == Question::write && answer->ok;
  if (written && wish_ && wish_->job == job) wish_->in_place = true;
  adopt(step, *answer, workers);
  trace_withdrawn(*answer, question, written);
  if (wish_ && wish_->earlier_job != job && !std::exchange(wish_->confirmed, true))
    wish_->changes |= target() != now_ || written;
  if (question == Question::read && answer->revision == 0) {
    if (!leaves_to_others()) write(step, now_, 0);  // nothing was served before: the initial versions
  } else {
    advance(step, workers);
  }
  return written ? Answer::written : Answer::read;
}

// Another node has reported a newer epoch so lately that those who know its versions may still write
// them again, if the Coordination has lost them.
bool VersionKeeper::leaves_to_others() const {
  return behind_since_ && asked_at_.us - behind_since_->us < rumour_beats * heartbeat_.us;
}

// Reads are linearizable: a read that began after an epoch was written shows it or a newer one,
// unless the Coordination has lost it. A write that fails shows the key, too.
bool VersionKeeper::shows_a_loss(Question question, const CoordinationReply& answer) const {
  if (question == Question::write && answer.ok) return false;
  if (epoch_when_asked_ == 0 || answer.revision > epoch_when_asked_ || leaves_to_others()) return false;
  if (answer.revision < epoch_when_asked_) return true;
  const auto read = parse_versions(answer.revision, answer.value);
  return read && now_.epoch == read->epoch && *read != now_;
}

bool VersionKeeper::disproves_a_rumour(Question question, const CoordinationReply& answer) const {
  if (question != Question::read || answer.revision == 0 || heard_when_asked_ <= answer.revision)
    return false;
  return heard_when_asked_ <= disproved_epoch_ || (behind_since_ && !leaves_to_others());
}

// Raises the revisions above everything that was seen or heard, then writes the versions followed
// now over the key that was read. Tells of each loss once.
void VersionKeeper::write_again(Step step, const CoordinationReply& answer, bool lost) {
  if (lost && now_.epoch > restored_epoch_) {
    step.effects.log(LogLevel::warning, "versions_lost", {{"epoch", now_.epoch}, {"read", answer.revision}});
    step.effects.count(Metric::coordination_losses, 1, "versions_lost");
  } else if (!lost && heard_when_asked_ > disproved_epoch_) {
    step.effects.log(LogLevel::warning, "versions_unconfirmed",
                     {{"heard", heard_when_asked_}, {"read", answer.revision}});
    step.effects.count(Metric::coordination_losses, 1, "versions_unconfirmed");
  }
  if (lost) restored_epoch_ = std::max(restored_epoch_, now_.epoch);
  disproved_epoch_ = std::max(disproved_epoch_, heard_when_asked_);
  if (heard_epoch_ <= disproved_epoch_) behind_since_.reset();
  raised_over_ = answer.revision;
  start(step, Question::raise, Coordinate{RaiseRevisions{std::max(now_.epoch, heard_when_asked_)}});
}

void VersionKeeper::on_catalog_found(const JobResult& result) {
  const auto* refusal = std::get_if<Refusal>(&result);
  if (!refusal) wish_->catalog_known = true;
  if (refusal && refusal->code == "wrong_catalog") wish_->catalog_wrong = true;
}

void VersionKeeper::adopt(Step step, const CoordinationReply& answer, const WorkerTable& workers) {
  if (answer.revision <= now_.epoch) return;
  if (answer.revision >= heard_epoch_) behind_since_.reset();
  if (auto versions = parse_versions(answer.revision, answer.value)) {
    note_load_refusal(step.now, workers);
    now_ = *std::move(versions);
  } else {
    step.effects.log(LogLevel::warning, "bad_versions", {{"revision", answer.revision}});
  }
}

bool VersionKeeper::advance(Step step, const WorkerTable& workers) {
  if (now_.epoch == 0) return false;  // the key must be read first
  if (wish_ && !wish_->catalog_known && !wish_->catalog_wrong) {
    if (std::exchange(catalog_asked_, true)) return false;
    // A catalog that the port does not know is never flipped to.
    start(step, Question::find_catalog, FindFeatures{.catalog_version = wish_->catalog});
    return true;
  }
  const auto next = next_step(step.now, workers);
  if (next) write(step, *next, now_.epoch);
  return next.has_value();
}

void VersionKeeper::write(Step step, const Versions& next, Revision expected) {
  start(step, Question::write,
        Coordinate{WriteKey{std::string(versions_key), versions_text(next), expected}});
  if (wish_ && next == target()) {
    wish_->job = job_;
    wish_->over = expected;
    wish_->changes = true;
  }
}

std::optional<Versions> VersionKeeper::next_step(Instant now, const WorkerTable& workers) {
  note_announcement(now, workers);
  note_load_refusal(now, workers);
  forget_withdrawn(now);
  if (!now_.next_model.empty() && must_take_back(now, workers)) return settled();
  if (auto next = next_of_wish()) return next;
  if (now_.next_model.empty() || now_.is_shared() || !workers.all_have(now, now_.next_model))
    return std::nullopt;
  Versions next = settled();
  next.model_version = now_.next_model;
  if (!now_.next_catalog.empty()) next.catalog_version = now_.next_catalog;
  return next;
}

// Every write either clears an earlier announcement or makes a new one. An announcement therefore
// has its own epoch, and workers' reports about it are not confused with those about an earlier
// one.
bool VersionKeeper::must_take_back(Instant now, const WorkerTable& workers) const {
  if (withdrawn_ && withdrawn_->announced.epoch == now_.epoch) return true;
  if (!workers.load_refusal(now, now_.epoch, now_.next_model).empty()) return true;
  const bool is_wished = wish_ && target() == now_;  // the router with the wish has its own deadline
  const bool may_stay = now_.is_shared() && was_everywhere_;
  return !is_wished && !may_stay && now.us - announced_since_.us > wait_deadline_.us;
}

void VersionKeeper::note_announcement(Instant now, const WorkerTable& workers) {
  if (announced_epoch_ != now_.epoch) announced_since_ = now, was_everywhere_ = false;
  announced_epoch_ = now_.epoch;
  was_everywhere_ = was_everywhere_ || (!now_.next_model.empty() && workers.all_have(now, now_.next_model));
}

// Called also before newer versions are followed: another router may have taken the announcement
// back for this reason.
void VersionKeeper::note_load_refusal(Instant now, const WorkerTable& workers) {
  if (!wish_ || now_.next_model.empty() || target() != now_) return;
  wish_->why_refused = workers.load_refusal(now, now_.epoch, now_.next_model);
}

// Returns what must be written now for the wish. If it was in place and no longer is, another
// router replaced it.
std::optional<Versions> VersionKeeper::next_of_wish() {
  if (!wish_ || wish_->catalog_wrong || wish_->replaced || !wish_->why_refused.empty()) return std::nullopt;
  if (target() == now_) {
    // without a confirmation the known versions may be outdated
    wish_->in_place = wish_->in_place || wish_->confirmed;
  } else if (wish_->in_place) {
    wish_->replaced = true;
  } else {
    return target();
  }
  return std::nullopt;
}

Versions VersionKeeper::target() const {
  // If two models share the users, another catalog applies to both.
  Versions target = wish_->model.empty() && now_.is_shared() ? now_ : settled();
  const std::string& catalog = wish_->catalog.empty() ? now_.catalog_version : wish_->catalog;
  if (wish_->model.empty() || wish_->model == now_.model_version) {
    target.catalog_version = catalog;
  } else {
    target.next_model = wish_->model;
    target.next_share = wish_->share;
    if (catalog != now_.catalog_version) target.next_catalog = catalog;
  }
  return target;
}

Versions VersionKeeper::settled() const {
  return {.epoch = now_.epoch, .model_version = now_.model_version, .catalog_version = now_.catalog_version};
}

void VersionKeeper::wish(const std::string& model, const std::string& catalog, std::uint32_t share) {
  TROUPE_CHECK(coordinate_ && !wish_, "the keeper has a Coordination and no wish is in progress");
  wish_ = PendingWish{.model = model, .catalog = catalog, .share = share};
  if (question_ != Question::none) wish_->earlier_job = job_;
  wish_->catalog_known = catalog.empty() || catalog == now_.catalog_version;
  withdrawn_.reset();
}

// Withdraws the announcement if it stands, or if nothing newer is known than what its last write
// replaces. In the second case the write may still be in flight or its answer was lost. A wish for
// a catalog alone announces nothing: a current share belongs to another wish.
void VersionKeeper::end_wish(Instant now, bool kept) {
  if (!kept && wish_ && wish_->job != 0 && !wish_->model.empty() && !target().next_model.empty()) {
    const bool stands = target() == now_;
    if (stands || now_.epoch == wish_->over) {
      withdrawn_ = WithdrawnWish{target(), wish_->job, wish_->over, now};
      withdrawn_->announced.epoch = stands ? now_.epoch : 0;
    }
  }
  wish_.reset();
}

// Uses the answer to learn the outcome of a withdrawn wish's write.
void VersionKeeper::trace_withdrawn(const CoordinationReply& answer, Question question, bool written) {
  if (!withdrawn_ || withdrawn_->announced.epoch > 0) return;
  const bool is_own = job_ == withdrawn_->job;
  if (is_own && written) {
    withdrawn_->announced.epoch = answer.revision;
  } else if (is_own || (question == Question::read && answer.revision <= withdrawn_->over)) {
    withdrawn_.reset();  // it was not written
  }
}

// Forgets the withdrawn announcement once it is gone. If the answer of its write was lost, the next
// versions after the replaced ones are compared with it. Later ones with the same content belong to
// another router.
void VersionKeeper::forget_withdrawn(Instant now) {
  if (!withdrawn_) return;
  Versions& announced = withdrawn_->announced;
  if (announced.epoch == 0 && now_.epoch > withdrawn_->over && announces_same(now_, announced))
    announced.epoch = now_.epoch;
  const bool is_past = now_.epoch > std::max(announced.epoch, withdrawn_->over);
  if (is_past || now.us - withdrawn_->since.us > wait_deadline_.us) withdrawn_.reset();
}

VersionKeeper::Wish VersionKeeper::wish_state() const {
  if (!wish_) return Wish::none;
  if (wish_->catalog_wrong) return Wish::wrong_catalog;
  const bool in_place = target() == now_;
  if (wish_->confirmed && in_place && (now_.next_model.empty() || now_.is_shared())) return Wish::served;
  if (!wish_->why_refused.empty() && !in_place) return Wish::refused;
  return wish_->replaced ? Wish::replaced : Wish::pending;
}

}  // namespace troupe::router
