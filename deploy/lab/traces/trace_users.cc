// Follows the users of a trace from line to line, and refuses profile versions that contradict
// earlier lines.
#include "deploy/lab/traces/trace_users.h"

namespace troupe::deploy {

TraceUsers::Visit TraceUsers::visit(const TraceReader& reader, const TracedRequest& request) {
  key_ = std::to_string(request.tenant.size()) + ':' + request.tenant + request.user;
  Visit visit{names_.number_of(key_)};
  visit.first = visit.user == profiles_.size();
  if (visit.first) profiles_.push_back(request.profile);
  std::uint64_t& profile = profiles_[visit.user];
  visit.changed = visit.first || request.profile > profile;
  const std::string now = "profile is " + std::to_string(request.profile);
  if (request.profile < profile)
    reader.fail(now, "at least " + std::to_string(profile) + ", as in the user's previous line");
  if (!visit.first && visit.changed && request.events.empty())
    reader.fail(now + ", more than in the user's previous line, but there are no events",
                "the events that the profile got since");
  if (!visit.changed && !request.events.empty())
    reader.fail(now + " as in the user's previous line, but there are events",
                "a higher version with new events");
  profile = request.profile;
  return visit;
}

}  // namespace troupe::deploy
