#pragma once
// Records the requests of a running service as a request trace (deploy/TRACES.md): who asked when for what,
// and what the profile had got since the user's last request. Asked for by `troupe trace capture` through a
// socket in the data folder, one at a time, bounded by requests and time; while nobody asks, a request costs
// it one look at a flag.
//
// A request is recorded once it is answered, in order of its coming, unless its client made a mistake (4xx
// but 429). Its profile is read from the store behind the answer; events become item ids by the present
// catalog, by an item's tokens, and events of items that it does not have are left out.
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/actor/catalog.h"
#include "runtime/actor/ports.h"
#include "runtime/actor/traced_request.h"

namespace troupe::deploy {

// Which events are new since a user's last request.
class ProfileWatch {
 public:
  explicit ProfileWatch(const Catalog& catalog);  // outlives it
  // Fills profile and events; null: there is no such user.
  void tell(const Profile* profile, TracedRequest& request);
  std::size_t users() const { return users_.size(); }

 private:
  static constexpr std::size_t tail_max = 8;
  struct Seen {
    std::uint64_t profile = 0;
    std::vector<ItemNumber> tail;  // the newest events, of which the next profile has more behind
  };
  std::vector<ItemNumber> items_of(const Profile& profile) const;

  const Catalog& catalog_;
  std::unordered_map<std::string, ItemNumber> by_tokens_;
  std::unordered_map<std::string, Seen> users_;  // by tenant and user
};

struct CaptureLimits {
  std::uint64_t requests = 0;
  std::int64_t us = 0;
};

class TraceCapture {
 public:
  static constexpr std::uint64_t requests_max = 1'000'000;
  static constexpr std::int64_t us_max = std::int64_t{24} * 3600 * 1'000'000;

  // From whatever thread posts requests and gets answers.
  void asked(const Message& message, std::int64_t now_us);
  void answered(const Message& message);

  using FindProfile = std::function<ProfilePointer(const std::string& tenant, const std::string& user)>;
  // Runs until the limits are reached, `write` says false or `over` says true. How many requests were left
  // out, because too many waited to be written. One at a time.
  std::uint64_t record(const CaptureLimits& limits, const Catalog& catalog, const FindProfile& find,
                       const std::function<bool(const TracedRequest&)>& write,
                       const std::function<bool()>& over);

 private:
  static constexpr std::size_t waiting_max = 4096;
  static constexpr std::int64_t patience_us = 60'000'000;  // for an answer
  enum class State : std::uint8_t { open, kept, left_out };
  struct Waiting {
    RequestId id = 0;
    State state = State::open;
    TracedRequest request;
  };
  bool next(TracedRequest& request, std::int64_t now_us);

  std::atomic<bool> on_ = false;
  std::mutex mutex_;  // of those below
  std::condition_variable more_;
  std::deque<Waiting> waiting_;  // in order of time
  std::int64_t began_us_ = 0;
  std::uint64_t left_out_ = 0;
};

}  // namespace troupe::deploy
