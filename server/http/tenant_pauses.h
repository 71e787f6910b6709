#pragma once
// Refuses the requests of a flooding tenant before their bodies are parsed. The router refuses a
// request because of what its tenant has in flight. That number of requests is then the tenant's
// limit for now: the next one goes to the router when one of those is answered, and others get the
// same refusal again. After a pause one more is let through and, while the router accepts them,
// twice as many each time. The tenant's allowance is thus used, and the server's one thread, which
// serves everyone, parses little more than that.
//
// After a first burst, a tenant's refusals are sent at a limited rate. Otherwise a client that
// retries at once would be refused as fast as the server can, on each of its connections, and delay
// everyone else.
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "runtime/actor/messages.h"

namespace troupe::server {

class TenantPauses {
 public:
  // A refusal, serialized once and sent often.
  struct StoredRefusal {
    RefusalKind kind = RefusalKind::over_quota;
    unsigned retry_after_s = 0;
    std::string json;
  };

  // Rate at which each tenant's refusals are sent. The longest delay stays below Retry-After, which
  // is at least a second.
  static constexpr std::int64_t refusal_interval_us = 1'000, refusal_delay_us_max = 500'000,
                                refusals_at_once = 64;
  // The longest delay of a line: one client may have lines by the thousand. Beyond it they are refused as
  // fast as they come.
  static constexpr std::int64_t line_delay_us_max = 20'000'000;

  explicit TenantPauses(std::int64_t pause_us) : pause_us_(pause_us) {}  // length of the pause

  // A request of this tenant goes to the router; `answered` ends it, whatever the answer.
  void asks(const std::string& tenant) { ++rows_[tenant].asked; }
  void answered(const std::string& tenant);
  void refused(const std::string& tenant, const Refusal& refusal,
               std::int64_t now_us);  // also counts as answered
  // Returns the refusal to send now; null = the request may go to the router.
  const StoredRefusal* find(const std::string& tenant, std::int64_t now_us);
  // Returns the delay in microseconds before the refusal just found is sent.
  std::int64_t refusal_delay_us(const std::string& tenant, std::int64_t now_us);
  // The same for the refusal of a line among many. Lines do not delay requests.
  std::int64_t line_delay_us(const std::string& tenant, std::int64_t now_us);
  std::size_t size() const { return rows_.size(); }

 private:
  struct Row {
    std::size_t asked = 0;  // requests without an answer; a row exists only while there are some
    // limit on `asked`, 0 = none; number let through after the next pause
    std::size_t asked_max = 0, more = 0;
    std::int64_t until_us = 0;
    // when its next refusal may be sent: of a request, of a line
    std::int64_t next_refusal_us = INT64_MIN / 2, next_line_us = INT64_MIN / 2;
    StoredRefusal reported;
  };
  Row& row_of(const std::string& tenant);

  const std::int64_t pause_us_;
  std::map<std::string, Row> rows_;
};

}  // namespace troupe::server
