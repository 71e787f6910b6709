#pragma once
// Records the requests of a running service as a request trace (docs/reference/trace-format.md): time, user,
// kind of request, and the events that the profile gained since the user's last request. `troupe trace
// capture` starts it through a socket in the data folder, one capture at a time, bounded by
// requests and time. While no capture runs, a request costs one read of a flag.
//
// A request is recorded after its reply, in order of arrival, unless the request was at fault
// (runtime/actor/refusal.h). Its profile is read from the store after the reply. Events become item ids by
// looking up their tokens in the present catalog; events of unknown items are left out.
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/actor/catalog.h"
#include "runtime/actor/ports.h"
#include "runtime/actor/traced_request.h"

namespace troupe::deploy {

// Finds the events that are new since a user's last request.
class NewEventFinder {
 public:
  explicit NewEventFinder(const Catalog& catalog);  // `catalog` must outlive it
  // Fills the request's profile number and events. A null profile stands for an unknown user.
  void fill(const Profile* profile, TracedRequest& request);
  // Does the same for a request with a history of these items; those that the catalog lacks are left out.
  void fill(const std::vector<std::string>& history, TracedRequest& request);
  std::size_t users() const { return users_.size(); }

 private:
  static constexpr std::size_t tail_max = 8;
  struct LastProfile {
    std::uint64_t profile = 0;
    std::vector<ItemNumber> tail;  // newest events; the next profile has new ones after them
  };
  std::vector<ItemNumber> items_of(const Profile& profile) const;
  void fill_events(const std::vector<ItemNumber>& items, TracedRequest& request);

  const Catalog& catalog_;
  std::unordered_map<std::string, ItemNumber> by_tokens_;
  std::unordered_map<std::string, LastProfile> users_;  // by tenant and user
};

struct CaptureLimits {
  std::uint64_t requests = 0;
  std::int64_t us = 0;
};

class TraceCapture {
 public:
  static constexpr std::uint64_t requests_max = 1'000'000;
  static constexpr std::int64_t us_max = std::int64_t{24} * 3600 * 1'000'000;

  // Called by the threads that post requests and receive replies.
  void on_request(const Message& message, std::int64_t now_us);
  void on_reply(const Message& message);

  using FindProfile = std::function<ProfilePointer(const std::string& tenant, const std::string& user)>;
  // Records until the limits are reached, `write` returns false or `over` returns true. Returns the
  // number of requests left out because too many waited to be written. One call at a time.
  std::uint64_t record(const CaptureLimits& limits, const Catalog& catalog, const FindProfile& find,
                       const std::function<bool(const TracedRequest&)>& write,
                       const std::function<bool()>& over);

 private:
  static constexpr std::size_t waiting_max = 4096;
  static constexpr std::int64_t reply_timeout_us = 60'000'000;  // maximum wait for a reply
  enum class State : std::uint8_t { open, kept, left_out };
  struct PendingRequest {
    RequestId id = 0;
    State state = State::open;
    TracedRequest request;
    // Items of the request's own history, in place of the profile of `request.user`.
    std::optional<std::vector<std::string>> history = {};
  };
  static bool take(const Message& message, PendingRequest& pending);
  bool next(PendingRequest& request, std::int64_t now_us);

  std::atomic<bool> on_ = false;
  std::mutex mutex_;  // guards the members below
  std::condition_variable more_;
  std::deque<PendingRequest> waiting_;  // in order of arrival
  std::int64_t start_us_ = 0;
  std::uint64_t left_out_ = 0;
};

}  // namespace troupe::deploy
