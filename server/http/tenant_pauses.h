#pragma once
// Who floods is refused before his bodies are read as JSON. When the router refuses a request because of what
// its tenant has there already, then so many as the tenant has there at that moment are as many as it may
// have for now: the next one goes to the router when one of those is answered, and whatever comes meanwhile
// gets the refusal again. After a moment one more is let through and, while the router takes them, twice as
// many each time. So what the tenant may have is used, and the door's one thread, for which everybody waits,
// reads little more than that.
//
// Beyond a first few, refusals of a tenant leave one after the other, so many a second: a client that asks
// again as soon as it is refused would otherwise be refused as fast as the door can, on each of its
// connections, with everybody behind it.
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "runtime/actor/messages.h"

namespace troupe::server {

class TenantPauses {
 public:
  // Written out once, and told often.
  struct Told {
    unsigned status = 0, retry_after_s = 0;
    std::string json;
  };

  // Of each tenant's refusals, when they leave. Who is held longest is still told before Retry-After, a
  // second at least.
  static constexpr std::int64_t turn_us = 1'000, turn_us_max = 500'000, turns_at_once = 64;

  explicit TenantPauses(std::int64_t pause_us) : pause_us_(pause_us) {}  // the moment

  // A request of this tenant goes to the router; and it is answered, in whatever way.
  void asks(const std::string& tenant) { ++rows_[tenant].asked; }
  void answered(const std::string& tenant);
  void refused(const std::string& tenant, const Refusal& refusal,
               std::int64_t now_us);  // and by that answered
  // What the tenant is told now; null: it may ask.
  const Told* find(const std::string& tenant, std::int64_t now_us);
  // How long until it is told what was just found.
  std::int64_t take_turn(const std::string& tenant, std::int64_t now_us);
  std::size_t size() const { return rows_.size(); }

 private:
  struct Row {
    std::size_t asked = 0;                // that are not answered; nobody has a row without
    std::size_t asked_max = 0, more = 0;  // 0: as many as come; and how many more when the time is over
    std::int64_t until_us = 0;
    std::int64_t turn_at_us = INT64_MIN / 2;  // of its next refusal
    Told told;
  };
  const std::int64_t pause_us_;
  std::map<std::string, Row> rows_;
};

}  // namespace troupe::server
