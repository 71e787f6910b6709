#pragma once
// Follows the users of a trace line by line: first visits, later visits, and whether the profile has changed.
// Every reader of a trace uses this class, so that all refuse the same contradictions: a profile version that
// falls, rises without events, or stays despite events.
#include <cstdint>
#include <vector>

#include "deploy/data/request_trace.h"
#include "deploy/lab/traces/numbered_names.h"

namespace troupe::deploy {

class TraceUsers {
 public:
  struct Visit {
    std::uint32_t user = 0;  // number of the pair of tenant and user
    bool first = false;
    bool changed = false;  // the profile changed since the last visit; true at the first visit
  };
  // Throws ImportError with the reader's line.
  Visit visit(const TraceReader& reader, const TracedRequest& request);
  std::uint32_t size() const { return names_.size(); }

 private:
  NumberedNames names_;
  std::vector<std::uint64_t> profiles_;  // last profile version, by user
  std::string key_;
};

}  // namespace troupe::deploy
