#pragma once
// Describes what a leaving node still waits for. The node writes this to the Coordination, bound to a lease,
// so that `troupe leave` and `troupe members` can show it from anywhere. It is advice for people: nothing is
// decided by it.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "runtime/actor/identity.h"

namespace troupe::deploy {

struct LeaveProgress {
  enum class Phase : std::uint8_t { drains, migrates, left };
  struct Router {  // one that has not reported that all item blocks are migrated
    std::string name, model;
    bool heard = false;
    std::uint64_t blocks = 0;          // item blocks that it knows to be missing
    std::uint64_t items = 0;           // of the catalog that it has looked up
    std::vector<std::string> awaited;  // workers that are not ready to take item blocks
    bool operator==(const Router&) const = default;
  };

  Phase phase = Phase::drains;
  std::uint64_t user_blocks = 0, user_blocks_open = 0;  // all, and those not migrated yet
  std::vector<Router> routers;
  bool whole = false;  // with Phase::left: all blocks were migrated

  bool operator==(const LeaveProgress&) const = default;
};

// Key of the Coordination under which that node's progress is.
std::string leave_key(NodeId node);
// Returns a text for people, such as "waits for 3 of 40 user blocks to copy; front-1: 37 item blocks …".
std::string text_of(const LeaveProgress& progress);
nlohmann::json json_of(const LeaveProgress& progress);
// Returns nullopt if the text is not what json_of() wrote.
std::optional<LeaveProgress> parse_leave_progress(const std::string& text);

}  // namespace troupe::deploy
