// Keeps a cluster's small shared state (who leads, who is a member) in etcd. It tries etcd's
// endpoints in order within a time limit, and logs in again when needed. A change that may have
// been sent is never repeated, since its outcome is unknown.
#include "runtime/coordination/etcd_coordination.h"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <thread>

#include "runtime/coordination/coordination_state.h"

namespace troupe {
namespace {

constexpr std::chrono::milliseconds look_every(50);  // interval between the reads of a watch
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

}  // namespace

EtcdCoordination::EtcdCoordination(const EtcdOptions& options)
    : prefix_(options.prefix),
      limit_(options.limit_us),
      login_(options.login),
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

EtcdCoordination::Answer EtcdCoordination::ask_before(const Coordinate& question, Clock::time_point end) {
  const EtcdQuestion asked = etcd_question(question, prefix_);
  const std::size_t count = endpoints_.size(), first = preferred();
  Attempt attempt;
  std::size_t at = first;
  for (std::size_t left = count; left > 0; --left) {
    const Clock::time_point now = Clock::now();
    const Clock::time_point share = now + (end - now) / static_cast<int>(left);
    attempt = try_at(*endpoints_[at], question, asked, share, asked.changes ? end : share);
    if (attempt.understood) break;
    at = (at + 1) % count;
    if (attempt.sent && asked.changes) break;
  }
  prefer(at);
  const auto* write = std::get_if<WriteKey>(&question.what);
  if (attempt.no_lease && write) return show_unchanged(write->key, end);
  return attempt.answer;
}

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
  const Revision before = highest();
  const auto reply = endpoint.post(asked.path, asked.body, token, connected_by, answered_by);
  const std::string where = endpoint.url() + asked.path;
  if (const auto* silence = std::get_if<EtcdNoReply>(&reply))
    return {.answer = unavailable(silence->what, where), .sent = silence->sent};
  const auto& [status, body] = std::get<EtcdReply>(reply);
  const auto answer = etcd_answer(question, prefix_, status, body);
  if (const auto* fault = std::get_if<EtcdFault>(&answer))
    return {unavailable(fault->what, where), fault->no_lease, !fault->no_login, fault->no_lease,
            fault->no_login};
  const auto& understood = std::get<EtcdAnswer>(answer);
  if (const auto strange = note(question, understood, before))
    return {.answer = unavailable(*strange, where), .sent = true};
  return {understood.said, true, true};
}

// Checks the answer's cluster and revision. For keys, etcd's members answer as of what all had
// agreed on before the question arrived. For leases, a member may answer as of an earlier moment.
std::optional<std::string> EtcdCoordination::note(const Coordinate& question, const EtcdAnswer& answer,
                                                  Revision before) {
  const bool of_lease =
      std::holds_alternative<OpenLease>(question.what) || std::holds_alternative<KeepLease>(question.what);
  const std::lock_guard held(mutex_);
  if (cluster_ == 0) cluster_ = answer.cluster;
  if (answer.cluster != cluster_)
    return "this is etcd cluster " + std::to_string(answer.cluster) + ", before it was " +
           std::to_string(cluster_);
  if (!of_lease && answer.revision < before)
    return "the store went back from revision " + std::to_string(before) + " to " +
           std::to_string(answer.revision);
  highest_ = std::max(highest_, answer.revision);
  return std::nullopt;
}

Revision EtcdCoordination::highest() const {
  const std::lock_guard held(mutex_);
  return highest_;
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
