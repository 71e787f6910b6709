#pragma once
// What a trace says of its users, line by line: who comes, who comes again, and whether the profile has
// changed since. Whoever replays or measures a trace follows it with this, so that all refuse the same
// contradictions: a version that falls, rises without events, or stays in spite of them.
#include <cstdint>
#include <vector>

#include "deploy/lab/traces/numbered_names.h"
#include "deploy/lab/traces/request_trace.h"

namespace troupe::deploy {

class TraceUsers {
 public:
  struct Visit {
    std::uint32_t user = 0;  // number of tenant and user together
    bool first = false;
    bool changed = false;  // the profile, since the last visit; at the first one too
  };
  // Throws ImportError with the reader's place.
  Visit visit(const TraceReader& reader, const TracedRequest& request);
  std::uint32_t size() const { return names_.size(); }

 private:
  NumberedNames names_;
  std::vector<std::uint64_t> profiles_;  // last version by user
  std::string key_;
};

}  // namespace troupe::deploy
