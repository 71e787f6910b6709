// Applies the rules of the coordination service (keys with revisions, leases that end unless
// renewed) to a plain object in memory. The single node's file and the simulation both use it, so
// that they behave alike.
#include "runtime/coordination/coordination_state.h"

#include <algorithm>

namespace troupe {
namespace {

std::size_t size_of(const std::string& key, const std::string& value) {
  return key.size() + value.size() + CoordinationState::key_bytes;
}

Refusal full(const std::string& what, const std::string& where, const std::string& expected) {
  return {RefusalKind::too_large, "coordination_full", what, where, expected};
}

Refusal refuse_full(const WriteKey& write) {
  return full(
      "no room for " + std::to_string(write.value.size()) + " bytes",
      "coordination key " + write.key.substr(0, 100),
      "at most " + std::to_string(CoordinationState::bytes_max) + " bytes of all keys and values together");
}

}  // namespace

std::optional<Refusal> CoordinationState::reject_if_invalid(const Coordinate& question) {
  const auto* write = std::get_if<WriteKey>(&question.what);
  if (write && size_of(write->key, write->value) > bytes_max) return refuse_full(*write);
  const auto* open = std::get_if<OpenLease>(&question.what);
  if (open && (open->ttl_us < 1 || open->ttl_us > ttl_us_max))
    return Refusal{RefusalKind::malformed, "bad_lease", "a lease of " + std::to_string(open->ttl_us) + " us",
                   "coordination", "1.." + std::to_string(ttl_us_max) + " us"};
  const auto* raise = std::get_if<RaiseRevisions>(&question.what);
  if (raise && raise->above > RaiseRevisions::above_max)
    return Refusal{RefusalKind::malformed, "bad_revision", "revisions above " + std::to_string(raise->above),
                   "coordination", "at most " + std::to_string(RaiseRevisions::above_max)};
  return std::nullopt;
}

CoordinationState::CoordinationState(Keys keys, Revision last) : keys_(std::move(keys)), last_(last) {
  for (const auto& [name, key] : keys_) {
    bytes_ += size_of(name, key.value);
    skip(key.revision);
  }
}

std::variant<CoordinationReply, Refusal> CoordinationState::ask(std::int64_t now_us,
                                                                const Coordinate& question) {
  move_to(now_us);
  if (auto refusal = reject_if_invalid(question)) return *std::move(refusal);
  return std::visit([this](const auto& what) { return answer(what); }, question.what);
}

bool CoordinationState::watched(std::int64_t now_us, const WatchKey& watch) {
  move_to(now_us);
  return show(true, watch.key).revision != watch.seen;
}

std::optional<std::int64_t> CoordinationState::next_end() const {
  std::optional<std::int64_t> next;
  for (const auto& [id, lease] : leases_) next = std::min(next.value_or(lease.end_us), lease.end_us);
  return next;
}

void CoordinationState::keep_as(const CoordinationState& other) {
  now_us_ = std::max(now_us_, other.now_us_);
  for (auto& [id, lease] : leases_) {
    const auto kept = other.leases_.find(id);
    if (kept != other.leases_.end()) lease.end_us = std::max(lease.end_us, kept->second.end_us);
  }
}

CoordinationReply CoordinationState::show(bool ok, const std::string& key) const {
  const auto found = keys_.find(key);
  if (found == keys_.end()) return {ok, 0, "", 0};
  const Key& shown = found->second;
  return {ok, shown.revision, shown.value, 0, shown.revision <= raised_after_};
}

std::variant<CoordinationReply, Refusal> CoordinationState::answer(const WriteKey& write) {
  const auto found = keys_.find(write.key);
  const bool known = found != keys_.end();
  if (write.expected != (known ? found->second.revision : 0)) return show(false, write.key);
  if (write.lease != 0 && !leases_.contains(write.lease)) return show(false, write.key);
  const std::size_t others = bytes_ - (known ? size_of(write.key, found->second.value) : 0);
  if (others + size_of(write.key, write.value) > bytes_max) return refuse_full(write);
  bytes_ = others + size_of(write.key, write.value);
  keys_[write.key] = {write.value, ++last_, write.lease};
  return show(true, write.key);
}

std::variant<CoordinationReply, Refusal> CoordinationState::answer(const EraseKey& erase) {
  const auto found = keys_.find(erase.key);
  const bool known = found != keys_.end();
  if (erase.expected != (known ? found->second.revision : 0)) return show(false, erase.key);
  if (!known) return show(true, erase.key);
  bytes_ -= size_of(erase.key, found->second.value);
  keys_.erase(found);
  ++last_;
  return show(true, erase.key);
}

std::variant<CoordinationReply, Refusal> CoordinationState::answer(const OpenLease& open) {
  if (leases_.size() >= leases_max)
    return full("too many leases", "coordination", "at most " + std::to_string(leases_max));
  leases_[++last_] = {open.ttl_us, now_us_ + open.ttl_us};
  return CoordinationReply{true, 0, "", last_};
}

std::variant<CoordinationReply, Refusal> CoordinationState::answer(const KeepLease& keep) {
  const auto found = leases_.find(keep.lease);
  if (found == leases_.end()) return CoordinationReply{};
  found->second.end_us = now_us_ + found->second.ttl_us;
  return CoordinationReply{true, 0, "", keep.lease};
}

std::variant<CoordinationReply, Refusal> CoordinationState::answer(const RaiseRevisions& raise) {
  if (raise.above > last_) raised_after_ = last_;
  skip(raise.above);
  return CoordinationReply{true};
}

void CoordinationState::end_lease(LeaseId lease) {
  for (auto key = keys_.begin(); key != keys_.end();) {
    const auto next = std::next(key);
    if (key->second.lease == lease) {
      bytes_ -= size_of(key->first, key->second.value);
      keys_.erase(key);
    }
    key = next;
  }
  leases_.erase(lease);
}

void CoordinationState::move_to(std::int64_t now_us) {
  now_us_ = std::max(now_us_, now_us);
  for (auto lease = leases_.begin(); lease != leases_.end();) {
    const auto next = std::next(lease);
    if (lease->second.end_us <= now_us_) end_lease(lease->first);
    lease = next;
  }
}

}  // namespace troupe
