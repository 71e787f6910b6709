#include "router/versions.h"

#include <algorithm>
#include <utility>

#include "kernels/check.h"

namespace troupe::router {

std::string versions_text(const Versions& versions) {
  return versions.model_version + '\n' + versions.catalog_version + '\n' + versions.next_model;
}

std::optional<Versions> parse_versions(std::uint64_t epoch, std::string_view text) {
  const std::size_t first = text.find('\n');
  if (first == text.npos || first == 0) return std::nullopt;
  const std::size_t second = text.find('\n', first + 1);
  if (second == text.npos || text.find('\n', second + 1) != text.npos) return std::nullopt;
  return Versions{epoch, std::string(text.substr(0, first)),
                  std::string(text.substr(first + 1, second - first - 1)),
                  std::string(text.substr(second + 1))};
}

void VersionKeeper::hear(const Versions& heard) {
  if (coordinate_ && heard.epoch > now_.epoch && !heard.model_version.empty()) now_ = heard;
  if (now_.epoch >= heard_epoch_) behind_since_.reset();
}

void VersionKeeper::rumour(Turn turn, std::uint64_t epoch, const WorkerTable& workers) {
  if (!coordinate_ || epoch <= now_.epoch) return;
  heard_epoch_ = std::max(heard_epoch_, epoch);
  if (!behind_since_) behind_since_ = turn.now;
  if (rumour_read_ && turn.now < *rumour_read_ + heartbeat_) return;
  rumour_read_ = turn.now;
  tick(turn, workers);
}

void VersionKeeper::tick(Turn turn, const WorkerTable& workers) {
  if (!coordinate_ || question_ != Question::none) return;
  catalog_asked_ = false;
  if (!advance(turn, workers)) ask_key(turn);
}

void VersionKeeper::ask_key(Turn turn) {
  question_ = Question::read;
  turn.effects.start(job_ = turn.next_id++, Coordinate{ReadKey{std::string(versions_key)}});
}

VersionKeeper::Answer VersionKeeper::on_done(Turn turn, std::uint64_t job, const JobResult& result,
                                             const WorkerTable& workers) {
  if (question_ == Question::none || job != job_) return Answer::foreign;
  const Question question = std::exchange(question_, Question::none);
  if (question == Question::find_catalog) {
    const auto* refusal = std::get_if<Refusal>(&result);
    if (wish_ && !refusal) wish_->catalog_known = true;
    if (wish_ && refusal && refusal->code == "wrong_catalog") wish_->catalog_wrong = true;
    if (refusal || !advance(turn, workers)) ask_key(turn);
    return Answer::read;
  }
  const auto* answer = std::get_if<Coordinated>(&result);
  if (!answer) return Answer::read;  // the Coordination is away: asked again with the next heartbeat
  const bool written = question == Question::write && answer->ok;
  if (written && wish_ && writing_->next_model == wish_->model) wish_->announced = true;
  if (written && wish_ && writing_->catalog_version == wish_->catalog) wish_->catalog_set = true;
  adopt(turn, *answer);
  if (question == Question::read && answer->revision == 0) {
    write(turn, now_, 0);  // nobody has served anything yet
  } else {
    advance(turn, workers);
  }
  return written ? Answer::written : Answer::read;
}

void VersionKeeper::adopt(Turn turn, const Coordinated& answer) {
  if (answer.revision <= now_.epoch) return;
  if (answer.revision >= heard_epoch_) behind_since_.reset();
  if (auto versions = parse_versions(answer.revision, answer.value)) {
    now_ = *std::move(versions);
  } else {
    turn.effects.log(LogLevel::warning, "bad_versions", {{"revision", std::to_string(answer.revision)}});
  }
}

bool VersionKeeper::advance(Turn turn, const WorkerTable& workers) {
  if (now_.epoch == 0) return false;  // read first
  if (wish_ && !wish_->catalog_known && !wish_->catalog_wrong) {
    if (std::exchange(catalog_asked_, true)) return false;
    question_ = Question::find_catalog;  // a catalog that the port does not know is never flipped to
    turn.effects.start(job_ = turn.next_id++, FindFeatures{.catalog_version = wish_->catalog});
    return true;
  }
  const auto next = next_step(turn.now, workers);
  if (next) write(turn, *next, now_.epoch);
  return next.has_value();
}

void VersionKeeper::write(Turn turn, const Versions& next, Revision expected) {
  question_ = Question::write;
  writing_ = next;
  turn.effects.start(job_ = turn.next_id++,
                     Coordinate{WriteKey{std::string(versions_key), versions_text(next), expected}});
}

std::optional<Versions> VersionKeeper::next_step(Instant now, const WorkerTable& workers) {
  if (auto next = next_of_wish()) return next;
  if (now_.next_model.empty() || !workers.all_have(now, now_.next_model)) return std::nullopt;
  const bool wished = wish_state() == Wish::pending && wish_->model == now_.next_model;
  return Versions{now_.epoch, now_.next_model, wished ? wish_->catalog : now_.catalog_version, ""};
}

// What is to be written for the wish now; a step that was done and is not to be seen any more was undone by
// somebody.
std::optional<Versions> VersionKeeper::next_of_wish() {
  if (wish_state() != Wish::pending) return std::nullopt;
  Versions next = now_;
  if (now_.model_version != wish_->model) {
    if (now_.next_model == wish_->model) {
      wish_->announced = true;
      return std::nullopt;
    }
    next.next_model = wish_->model;
    if (!wish_->announced) return next;
  } else {
    next.catalog_version = wish_->catalog;
    if (!wish_->catalog_set) return next;
  }
  wish_->replaced = true;
  return std::nullopt;
}

void VersionKeeper::wish(const std::string& model, const std::string& catalog) {
  TROUPE_CHECK(coordinate_ && !wish_, "one wish at a time, and somebody to keep it");
  wish_ =
      Wished{model.empty() ? now_.model_version : model, catalog.empty() ? now_.catalog_version : catalog};
  wish_->catalog_known = wish_->catalog == now_.catalog_version;
}

VersionKeeper::Wish VersionKeeper::wish_state() const {
  if (!wish_) return Wish::none;
  if (wish_->catalog_wrong) return Wish::wrong_catalog;
  if (wish_->replaced) return Wish::replaced;
  const bool served = now_.model_version == wish_->model && now_.catalog_version == wish_->catalog;
  return served ? Wish::served : Wish::pending;
}

}  // namespace troupe::router
