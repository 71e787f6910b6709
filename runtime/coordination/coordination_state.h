#pragma once
// What a Coordination remembers, as a plain object: keys, the revision of each one's last change, leases. It
// is told the time and never waits, so FileCoordination and the simulation's adapter keep the same rules and
// only differ in where the time comes from and what survives a crash.
//
// Numbers (revisions and lease ids) come from one counter that only rises; a change that must outlive the
// process always draws one, so `last()` tells whether there is something to save. A lease has ended when now
// >= its end; the keys bound to it end with it, which draws no number.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>

#include "runtime/actor/coordination.h"

namespace troupe {

class CoordinationState {
 public:
  static constexpr std::size_t bytes_max = 1'000'000;  // of keys and values, each key with `key_bytes` on top
  static constexpr std::size_t key_bytes = 64;
  static constexpr std::size_t leases_max = 1'000;
  static constexpr std::int64_t ttl_us_max = 3'600'000'000;

  struct Key {
    std::string value;
    Revision revision = 0;
    LeaseId lease = 0;  // 0: the key outlives everybody
  };
  using Keys = std::map<std::string, Key>;

  CoordinationState() = default;
  // What is refused whatever the store holds: 400 "bad_lease" (a ttl outside 1..ttl_us_max), 413
  // "coordination_full" (a key and value that are too large by themselves).
  static std::optional<Refusal> fault_of(const Coordinate& question);

  // What was saved: keys without a lease, and the counter. Revisions of keys above `last` raise it.
  CoordinationState(Keys keys, Revision last);

  // Answered at once; a WatchKey as if its wait were over (see `watched`). `now_us` is on any clock that does
  // not go back; an earlier time than the last one counts as the last one. Refusal: those of `fault_of`, and
  // 413 "coordination_full". Nothing has changed then.
  std::variant<Coordinated, Refusal> ask(std::int64_t now_us, const Coordinate& question);

  // Would this watch be answered before its wait is over? True if the key's revision is not `seen` any more.
  bool watched(std::int64_t now_us, const WatchKey& watch);
  // When the first lease ends, if nobody keeps it: the next time that something changes by itself.
  std::optional<std::int64_t> next_end() const;

  const Keys& keys() const { return keys_; }
  Revision last() const { return last_; }
  // Numbers up to this one are not given out any more.
  void skip(Revision last) { last_ = last > last_ ? last : last_; }
  // Leases last as long as in `other`, which may have been asked to keep them since this was copied from it.
  void keep_as(const CoordinationState& other);
  // All leases end now, with their keys: the process that counted their time is gone.
  void end_leases();

 private:
  struct Lease {
    std::int64_t ttl_us = 0, end_us = 0;
  };

  std::variant<Coordinated, Refusal> answer(const WriteKey& write);
  std::variant<Coordinated, Refusal> answer(const EraseKey& erase);
  std::variant<Coordinated, Refusal> answer(const OpenLease& open);
  std::variant<Coordinated, Refusal> answer(const KeepLease& keep);
  std::variant<Coordinated, Refusal> answer(const ReadKey& read) { return show(true, read.key); }
  std::variant<Coordinated, Refusal> answer(const WatchKey& watch) { return show(true, watch.key); }
  Coordinated show(bool ok, const std::string& key) const;
  void end_lease(LeaseId lease);
  void move_to(std::int64_t now_us);

  Keys keys_;
  std::map<LeaseId, Lease> leases_;
  std::size_t bytes_ = 0;
  std::int64_t now_us_ = 0;
  Revision last_ = 0;
};

}  // namespace troupe
