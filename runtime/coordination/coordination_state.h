#pragma once
// State of a Coordination as a plain object: keys, the revision of each key's last change, and
// leases. The caller passes the time and it never waits. So FileCoordination and the simulation's
// adapter share its rules and differ only in their clock and in what survives a crash.
//
// Revisions and lease ids come from one counter that only rises. A change that must outlive the
// process always takes a number, so `last()` tells whether there is something to save. A lease has
// ended when now >= its end. The keys bound to it are erased with it, without a new number.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>

#include "runtime/actor/coordination.h"

namespace troupe {

class CoordinationState {
 public:
  // Sum over keys and values, plus `key_bytes` for each key.
  static constexpr std::size_t bytes_max = 1'000'000;
  static constexpr std::size_t key_bytes = 64;
  static constexpr std::size_t leases_max = 1'000;
  static constexpr std::int64_t ttl_us_max = 3'600'000'000;

  struct Key {
    std::string value;
    Revision revision = 0;
    LeaseId lease = 0;  // 0: the key has no lease
  };
  using Keys = std::map<std::string, Key>;

  CoordinationState() = default;
  // Returns the refusal of requests that are invalid in any state: malformed "bad_lease" (a ttl
  // outside 1..ttl_us_max), malformed "bad_revision" (numbers raised above their bound), too_large
  // "coordination_full" (a key and value that are too large by themselves).
  static std::optional<Refusal> reject_if_invalid(const Coordinate& question);

  // Restores saved state: keys without leases, and the counter. Key revisions above `last` raise
  // it.
  CoordinationState(Keys keys, Revision last);

  // Answers at once; a WatchKey as if its wait were over (see `watched`). `now_us` may be on any
  // monotonic clock; an earlier time counts as the latest one. Refusals are those of `reject_if_invalid` and
  // too_large "coordination_full", and change nothing.
  std::variant<CoordinationReply, Refusal> ask(std::int64_t now_us, const Coordinate& question);

  // True if the watch ends before its wait is over, because the key's revision is no longer `seen`.
  bool watched(std::int64_t now_us, const WatchKey& watch);
  // Returns the end of the first lease to expire: the next time that something changes by itself.
  std::optional<std::int64_t> next_end() const;

  const Keys& keys() const { return keys_; }
  Revision last() const { return last_; }
  // Marks numbers up to `last` as used.
  void skip(Revision last) { last_ = last > last_ ? last : last_; }
  // Extends leases to their end in `other`, where they may have been kept since this copy was made.
  void keep_as(const CoordinationState& other);

 private:
  struct Lease {
    std::int64_t ttl_us = 0, end_us = 0;
  };

  std::variant<CoordinationReply, Refusal> answer(const WriteKey& write);
  std::variant<CoordinationReply, Refusal> answer(const EraseKey& erase);
  std::variant<CoordinationReply, Refusal> answer(const OpenLease& open);
  std::variant<CoordinationReply, Refusal> answer(const KeepLease& keep);
  std::variant<CoordinationReply, Refusal> answer(const RaiseRevisions& raise);
  std::variant<CoordinationReply, Refusal> answer(const ReadKey& read) { return show(true, read.key); }
  std::variant<CoordinationReply, Refusal> answer(const WatchKey& watch) { return show(true, watch.key); }
  CoordinationReply show(bool ok, const std::string& key) const;
  void end_lease(LeaseId lease);
  void move_to(std::int64_t now_us);

  Keys keys_;
  std::map<LeaseId, Lease> leases_;
  std::size_t bytes_ = 0;
  std::int64_t now_us_ = 0;
  Revision last_ = 0;
  Revision raised_after_ = 0;  // last number before they were raised
};

}  // namespace troupe
