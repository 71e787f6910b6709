// Keeps a cluster's small shared state (who leads, who is a member) in etcd. It tries etcd's
// endpoints in order within a time limit, and logs in again when needed. A change that may have
// been sent is never repeated, since its outcome is unknown. An etcd that lost data is noticed, and
// its revisions are raised above those seen before.
#include "runtime/coordination/etcd_coordination.h"

#include <algorithm>
#include <limits>
#include <random>
#include <stdexcept>
#include <thread>

#include "runtime/coordination/coordination_state.h"

namespace troupe {
namespace {

constexpr std::chrono::milliseconds look_every(50);  // interval between the reads of a watch
constexpr std::string_view history_key = "history";
// Other nodes may have seen newer changes than this one before the loss.
constexpr Revision raise_margin = 1'000;
constexpr int raise_tries = 5, guard_tries = 5;
// Silence of the known etcd cluster after which another one is followed.
constexpr std::chrono::seconds cluster_rest(1);
// Etcd's numbers are signed.
constexpr std::uint64_t number_max = std::numeric_limits<std::int64_t>::max();

std::vector<std::unique_ptr<EtcdEndpoint>> endpoints_of(const std::string& list,
                                                        const std::shared_ptr<const TlsClient>& tls) {
  std::vector<std::unique_ptr<EtcdEndpoint>> endpoints;
  for (std::size_t at = 0; at <= list.size();) {
    const std::size_t comma = std::min(list.find(',', at), list.size());
    endpoints.push_back(std::make_unique<EtcdEndpoint>(list.substr(at, comma - at), tls));
    at = comma + 1;
  }
  return endpoints;
}

// Refuses plain endpoints beside secure ones: a plain one would receive the password, or a token
// from the others.
void refuse_mixed(const std::vector<std::unique_ptr<EtcdEndpoint>>& endpoints, bool is_secure) {
  const auto is_clear = [](const auto& endpoint) { return !endpoint->url().starts_with("https://"); };
  const auto clear = std::ranges::find_if(endpoints, is_clear);
  if (clear == endpoints.end() || (!is_secure && std::ranges::all_of(endpoints, is_clear))) return;
  throw std::runtime_error(
      "etcd endpoint \"" + (*clear)->url() +
      "\" is in the clear, but others use https or TLS files are set; expected https for all, or for none");
}

// Returns the key of a change that must fail because it names a number above etcd's maximum.
const std::string* key_out_of_range(const Coordinate& question) {
  if (const auto* write = std::get_if<WriteKey>(&question.what))
    return write->expected > number_max || write->lease > number_max ? &write->key : nullptr;
  const auto* erase = std::get_if<EraseKey>(&question.what);
  return erase && erase->expected > number_max ? &erase->key : nullptr;
}

bool is_of_lease(const Coordinate& question) {
  return std::holds_alternative<OpenLease>(question.what) || std::holds_alternative<KeepLease>(question.what);
}

// Returns the revision that a change replaces; nullopt for other questions.
std::optional<Revision> expected_by(const Coordinate& question) {
  if (const auto* write = std::get_if<WriteKey>(&question.what)) return write->expected;
  const auto* erase = std::get_if<EraseKey>(&question.what);
  return erase ? std::optional(erase->expected) : std::nullopt;
}

// Returns the question with etcd's revision in place of its number, or nullopt and the key if no
// change can have that number.
std::optional<Coordinate> in_etcd(Coordinate question, const EtcdHistory& history, std::string& key) {
  bool is_possible = true;
  std::visit(
      [&](auto& what) {
        if constexpr (requires { what.expected; }) {
          key = what.key;
          const auto revision = history.etcd_of(what.expected);
          is_possible = revision.has_value();
          what.expected = revision.value_or(0);
        }
      },
      question.what);
  return is_possible ? std::optional(std::move(question)) : std::nullopt;
}

std::uint64_t draw_id() {
  std::random_device random;
  const std::uint64_t id = (std::uint64_t{random()} << 32) | random();
  return std::max<std::uint64_t>(1, id);
}

// Returns the first endpoint's refusal, and in it the other endpoints' reasons where they are others: the
// first may say what to mend, such as a login, while the last says only that a machine is away.
Refusal first_of_all(std::vector<Refusal> refusals) {
  Refusal first = refusals.front();
  std::string others;
  for (const Refusal& refusal : refusals)
    if (refusal.what != first.what) others += "; " + refusal.where + ": " + refusal.what;
  first.what += others;
  return first;
}

}  // namespace

EtcdCoordination::EtcdCoordination(const EtcdOptions& options)
    : prefix_(options.prefix),
      limit_(options.limit_us),
      login_(options.login),
      on_loss_(options.on_loss),
      endpoints_(endpoints_of(options.endpoints, options.tls)) {
  refuse_mixed(endpoints_, options.tls != nullptr);
  if (!prefix_.ends_with('/'))
    throw std::runtime_error("etcd prefix \"" + prefix_ + "\": expected one that ends with a slash");
  if (options.limit_us < 1 || options.limit_us > CoordinationState::ttl_us_max)
    throw std::runtime_error("etcd limit of " + std::to_string(options.limit_us) + " us; expected 1.." +
                             std::to_string(CoordinationState::ttl_us_max));
}

EtcdCoordination::Answer EtcdCoordination::ask(const Coordinate& question) {
  if (auto refusal = CoordinationState::reject_if_invalid(question)) return *std::move(refusal);
  if (const auto* key = std::get_if<WatchKey>(&question.what)) return watch(*key);
  const Clock::time_point end = Clock::now() + limit_;
  if (const std::string* key = key_out_of_range(question)) return show_unchanged(*key, end);
  const auto* keep = std::get_if<KeepLease>(&question.what);
  if (keep && keep->lease > number_max) return CoordinationReply{};
  return ask_before(question, end);
}

EtcdCoordination::Answer EtcdCoordination::watch(const WatchKey& key) {
  const std::int64_t wait_us = std::clamp<std::int64_t>(key.wait_us, 0, CoordinationState::ttl_us_max);
  const Clock::time_point end = Clock::now() + std::chrono::microseconds(wait_us);
  while (true) {
    const Clock::time_point began = Clock::now();
    Answer answer = ask_before(Coordinate{key}, began + limit_);
    const auto* read = std::get_if<CoordinationReply>(&answer);
    if (!read || read->revision != key.seen || began >= end) return answer;
    std::this_thread::sleep_until(std::min(end, began + look_every));
  }
}

// Answers a change that did not take place: shows the stored key instead.
EtcdCoordination::Answer EtcdCoordination::show_unchanged(const std::string& key, Clock::time_point end) {
  Answer answer = ask_before(Coordinate{ReadKey{key}}, end);
  if (auto* read = std::get_if<CoordinationReply>(&answer)) read->ok = false;
  return answer;
}

// A change that was not made although its key is as expected failed at the guard: the history has
// changed. It is sent again with the history that was read since.
EtcdCoordination::Answer EtcdCoordination::ask_before(const Coordinate& question, Clock::time_point end) {
  if (const auto* raise = std::get_if<RaiseRevisions>(&question.what)) return raise_above(raise->above, end);
  for (int tries = 1;; ++tries) {
    bool guard_failed = false;
    Answer answer = ask_once(question, end, guard_failed);
    if (!guard_failed) return answer;
    if (tries == guard_tries)
      return unavailable("other nodes changed the history of revisions at the same time", "etcd");
  }
}

EtcdCoordination::Answer EtcdCoordination::ask_once(const Coordinate& question, Clock::time_point end,
                                                    bool& guard_failed) {
  const KnownHistory before = known();
  std::string key;
  const auto translated = in_etcd(question, before.history, key);
  if (!translated) return show_unchanged(key, end);
  const bool is_guarded = before.read_at > 0 && expected_by(question);
  const auto guard =
      is_guarded ? std::optional(EtcdGuard{std::string(history_key), before.key}) : std::nullopt;
  const Attempt attempt = send(*translated, guard, end);
  const auto* write = std::get_if<WriteKey>(&question.what);
  if (attempt.no_lease && write) return show_unchanged(write->key, end);
  const auto* reply = std::get_if<CoordinationReply>(&attempt.answer);
  if (!reply || is_of_lease(question)) return attempt.answer;
  if (is_guarded && reply->ok) note_made(before, attempt.store);
  Answer answer = numbered(question, *reply, attempt.store, end);
  const auto* shown = std::get_if<CoordinationReply>(&answer);
  // In another history the same number may mean another value: its caller has to read it first.
  const bool is_same = before.history.id() == 0 || known().history.id() == before.history.id();
  guard_failed = is_guarded && is_same && shown && !shown->ok && shown->revision == *expected_by(question);
  return answer;
}

EtcdCoordination::Attempt EtcdCoordination::send(const Coordinate& question,
                                                 const std::optional<EtcdGuard>& guard,
                                                 Clock::time_point end) {
  const EtcdQuestion asked = etcd_question(question, prefix_, guard);
  const std::size_t count = endpoints_.size(), first = preferred();
  Attempt attempt;
  std::vector<Refusal> refusals;
  std::size_t at = first;
  for (std::size_t left = count; left > 0; --left) {
    const Clock::time_point now = Clock::now();
    const Clock::time_point share = now + (end - now) / static_cast<int>(left);
    attempt = try_at(*endpoints_[at], question, asked, share, asked.changes ? end : share);
    if (attempt.understood) break;
    if (const auto* refusal = std::get_if<Refusal>(&attempt.answer)) refusals.push_back(*refusal);
    at = (at + 1) % count;
    if (attempt.sent && asked.changes) break;
  }
  prefer(at);
  const bool is_outcome_unknown = attempt.sent && asked.changes;  // the last reason says why
  if (!attempt.understood && !refusals.empty() && !is_outcome_unknown)
    attempt.answer = first_of_all(std::move(refusals));
  return attempt;
}

// ---- revisions that never go back ----

// Returns the answer with Troupe's revisions in place of etcd's. Reads the history first if etcd has
// changed since. `store`: etcd's revision in the answer.
EtcdCoordination::Answer EtcdCoordination::numbered(const Coordinate& question, CoordinationReply reply,
                                                    Revision store, Clock::time_point end) {
  const KnownHistory before = known();
  const bool is_made = expected_by(question) && reply.ok;
  if (store != before.read_at)
    if (auto refusal = read_history(end)) return *std::move(refusal);
  const KnownHistory now = known();
  std::string why;
  const std::string what = loss_since(before, now, why);
  if (now.history.number_of(now.read_at) < before.highest) {
    const Answer raised = raise_above(before.highest + raise_margin, end);
    if (std::holds_alternative<Refusal>(raised)) return unavailable(why, "etcd");
  }
  if (!what.empty()) {
    if (on_loss_) on_loss_(what, why);
    if (is_made) return unavailable("it is unknown whether the change lasts, because " + why, "etcd");
  }
  if (is_made && now.history.id() == 0) begin_history(end);
  const KnownHistory last = known();
  reply.outdated = last.history.is_before_raise(reply.revision);
  reply.revision = last.history.number_of(reply.revision);
  const std::lock_guard held(mutex_);
  known_.highest =
      std::max({known_.highest, last.history.number_of(store), last.history.number_of(last.read_at)});
  return reply;
}

// Returns what etcd has lost, or "".
std::string EtcdCoordination::loss_since(const KnownHistory& before, const KnownHistory& now,
                                         std::string& why) const {
  const Revision number = now.history.number_of(now.read_at);
  const bool goes_back = number < before.highest;
  if (goes_back)
    why = "the store went back from revision " + std::to_string(before.highest) + " to " +
          std::to_string(number);
  if (before.history.id() != 0 && now.history.id() != before.history.id()) {
    if (!goes_back) why = "the store has another history than before";
    return "emptied";
  }
  return goes_back ? "went_back" : "";
}

// A change that required the history to be as known shows that it is so at the change's revision.
void EtcdCoordination::note_made(const KnownHistory& before, Revision store) {
  const std::lock_guard held(mutex_);
  if (known_.key == before.key && known_.read_at == before.read_at && store > known_.read_at)
    known_.read_at = store;
}

class EtcdCoordination::HistoryTurn {
 public:
  HistoryTurn(EtcdCoordination& of, Clock::time_point end) : of_(of) {
    std::unique_lock held(of.mutex_);
    is_mine_ = of.history_is_read_.wait_until(held, end, [&] { return !of.reads_history_; });
    if (is_mine_) of.reads_history_ = true;
  }
  ~HistoryTurn() {
    if (!is_mine_) return;
    const std::lock_guard held(of_.mutex_);
    of_.reads_history_ = false;
    of_.history_is_read_.notify_one();
  }
  HistoryTurn(const HistoryTurn&) = delete;
  HistoryTurn& operator=(const HistoryTurn&) = delete;
  explicit operator bool() const { return is_mine_; }

 private:
  EtcdCoordination& of_;
  bool is_mine_ = false;
};

std::optional<Refusal> EtcdCoordination::read_history(Clock::time_point end) {
  const HistoryTurn alone(*this, end);
  if (!alone) return unavailable("no answer in time", "etcd");
  const Attempt attempt = send(Coordinate{ReadKey{std::string(history_key)}}, std::nullopt, end);
  if (const auto* refusal = std::get_if<Refusal>(&attempt.answer)) return *refusal;
  const auto& reply = std::get<CoordinationReply>(attempt.answer);
  EtcdHistory history;
  if (reply.revision > 0) {
    auto parsed = EtcdHistory::parse(reply.value);
    if (!parsed)
      return unavailable("its value is no history of revisions",
                         "etcd key " + prefix_ + std::string(history_key));
    history = *std::move(parsed);
  }
  const std::lock_guard held(mutex_);
  known_.history = std::move(history);
  known_.key = reply.revision;
  known_.read_at = attempt.store;
  return std::nullopt;
}

EtcdCoordination::Answer EtcdCoordination::raise_above(Revision above, Clock::time_point end) {
  for (int tries = 0; tries < raise_tries; ++tries) {
    if (auto refusal = read_history(end)) return *std::move(refusal);
    const KnownHistory now = known();
    if (now.history.number_of(now.read_at + 1) > above) return CoordinationReply{true};
    EtcdHistory next = now.history;
    if (next.id() == 0) next.set_id(draw_id());
    next.raise(now.read_at, above);
    const WriteKey write{std::string(history_key), next.text(), now.key};
    const Attempt attempt = send(Coordinate{write}, std::nullopt, end);
    if (std::holds_alternative<Refusal>(attempt.answer)) return attempt.answer;
  }
  return unavailable("other nodes changed the history of revisions at the same time", "etcd");
}

// Gives etcd a history, by which its loss is noticed even if its revisions have grown since. If that
// fails, the next change does it.
void EtcdCoordination::begin_history(Clock::time_point end) {
  EtcdHistory history;
  history.set_id(draw_id());
  const WriteKey write{std::string(history_key), history.text(), 0};
  const Attempt attempt = send(Coordinate{write}, std::nullopt, end);
  if (std::holds_alternative<CoordinationReply>(attempt.answer)) read_history(end);
}

EtcdCoordination::KnownHistory EtcdCoordination::known() const {
  const std::lock_guard held(mutex_);
  return known_;
}

// ---- one endpoint ----

// Logs in first if etcd requires it.
EtcdCoordination::Attempt EtcdCoordination::try_at(EtcdEndpoint& endpoint, const Coordinate& question,
                                                   const EtcdQuestion& asked, Clock::time_point connected_by,
                                                   Clock::time_point answered_by) {
  if (login_.user.empty()) return try_once(endpoint, question, asked, "", connected_by, answered_by);
  std::string token;
  {
    const std::lock_guard held(mutex_);
    token = token_;
  }
  if (!token.empty()) {
    Attempt attempt = try_once(endpoint, question, asked, token, connected_by, answered_by);
    if (!attempt.no_login) return attempt;
  }
  if (auto failed = log_in(endpoint, token, connected_by, answered_by)) return *std::move(failed);
  return try_once(endpoint, question, asked, token, connected_by, answered_by);
}

// Returns nullopt and the token, or the failed attempt.
std::optional<EtcdCoordination::Attempt> EtcdCoordination::log_in(EtcdEndpoint& endpoint, std::string& token,
                                                                  Clock::time_point connected_by,
                                                                  Clock::time_point answered_by) {
  const EtcdQuestion asked = etcd_login_question(login_);
  const auto reply = endpoint.post(asked.path, asked.body, "", connected_by, answered_by);
  const std::string where = endpoint.url() + asked.path;
  if (const auto* silence = std::get_if<EtcdNoReply>(&reply))
    return Attempt{.answer = unavailable(silence->what, where)};
  const auto& [status, body] = std::get<EtcdReply>(reply);
  auto answer = etcd_login_answer(status, body);
  if (const auto* fault = std::get_if<EtcdFault>(&answer))
    return Attempt{.answer = unavailable(fault->what, where)};
  token = std::get<std::string>(std::move(answer));
  const std::lock_guard held(mutex_);
  token_ = token;
  return std::nullopt;
}

EtcdCoordination::Attempt EtcdCoordination::try_once(EtcdEndpoint& endpoint, const Coordinate& question,
                                                     const EtcdQuestion& asked, const std::string& token,
                                                     Clock::time_point connected_by,
                                                     Clock::time_point answered_by) {
  const auto reply = endpoint.post(asked.path, asked.body, token, connected_by, answered_by);
  const std::string where = endpoint.url() + asked.path;
  if (const auto* silence = std::get_if<EtcdNoReply>(&reply))
    return {.answer = unavailable(silence->what, where), .sent = silence->sent};
  const auto& [status, body] = std::get<EtcdReply>(reply);
  const auto answer = etcd_answer(question, prefix_, status, body);
  if (const auto* fault = std::get_if<EtcdFault>(&answer))
    return {unavailable(fault->what, where),
            0,
            fault->no_lease,
            !fault->no_login,
            fault->no_lease,
            fault->no_login};
  const auto& understood = std::get<EtcdAnswer>(answer);
  if (const auto strange = note_cluster(understood.cluster))
    return {.answer = unavailable(*strange, where), .sent = true};
  return {understood.said, understood.revision, true, true};
}

// Returns why the answer of this etcd cluster is not accepted, if so.
std::optional<std::string> EtcdCoordination::note_cluster(std::uint64_t cluster) {
  std::string why;
  {
    const std::lock_guard held(mutex_);
    const Clock::time_point now = Clock::now();
    if (cluster_ != 0 && cluster != cluster_) {
      why = "this is etcd cluster " + std::to_string(cluster) + ", before it was " + std::to_string(cluster_);
      if (now - answered_at_ < cluster_rest) return why;
    }
    cluster_ = cluster;
    answered_at_ = now;
  }
  if (!why.empty() && on_loss_) on_loss_("replaced", why);
  return std::nullopt;
}

std::size_t EtcdCoordination::preferred() const {
  const std::lock_guard held(mutex_);
  return preferred_;
}

void EtcdCoordination::prefer(std::size_t endpoint) {
  const std::lock_guard held(mutex_);
  preferred_ = endpoint;
}

Refusal EtcdCoordination::unavailable(const std::string& what, const std::string& where) const {
  return {RefusalKind::unavailable, "coordination_unavailable", what, where,
          "an answer of etcd v3 within " + std::to_string(limit_.count() / 1'000) + " ms"};
}

}  // namespace troupe
