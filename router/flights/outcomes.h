#pragma once
// Gives every request of this router its one outcome, an answer or a refusal, and recognises copies
// of requests. A request is open until it has its outcome. After that its id is remembered for a
// while, so that a late copy is ignored. Refusals that an operator could act on are logged, one line
// for each code in ten seconds.
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "router/fleet/step.h"
#include "runtime/actor/recent_ids.h"

namespace troupe::router {

struct RequestOrigin {
  Address from;
  RequestId id = 0;
  Instant received, deadline;
};

Refusal too_many_requests(std::uint32_t most);
Refusal deadline_passed();
Refusal client_gone();  // nobody reads it

class Outcomes {
 public:
  // `recent_max`: ids that are remembered after the outcome.
  explicit Outcomes(std::size_t recent_max) : recent_(recent_max) {}

  bool is_copy(Address from, RequestId id) const {
    return open_.contains({from, id}) || recent_.contains(from, id);
  }
  void open(const RequestOrigin& origin) { open_.insert({origin.from, origin.id}); }
  // Give the request its outcome. It need not be open.
  void answer(Step step, const RequestOrigin& origin, Message reply);
  void refuse(Step step, const RequestOrigin& origin, Refusal refusal);
  void settle(const RequestOrigin& origin);  // records the outcome, which the caller sends

  static constexpr Duration log_every{10'000'000};
  static constexpr std::size_t logged_codes_max = 64;

  std::size_t open_count() const { return open_.size(); }
  std::size_t recent_count() const { return recent_.size(); }
  std::uint64_t refused() const { return refused_; }

 private:
  void log_refusal(Step step, const Refusal& refusal);

  std::set<std::pair<Address, RequestId>> open_;
  RecentIds recent_;
  std::uint64_t refused_ = 0;
  struct LoggedCode {
    Instant at;                    // of the last line
    std::uint64_t suppressed = 0;  // refusals since
  };
  std::map<std::string, LoggedCode> logged_;  // by code
};

}  // namespace troupe::router
