#pragma once
// A task is one plan at an inference worker, from its arrival to its outcome.
#include <cstdint>
#include <memory>

#include "actors/inference/plan_blocks.h"
#include "placement/cost/work.h"
#include "runtime/actor/core.h"
#include "runtime/actor/serials.h"

namespace troupe::actors {

struct Task {
  enum class State : std::uint8_t {
    arrived,    // a background plan that has not begun
    acquiring,  // waits for its blocks
    ready,
    running  // in a batch
  };

  Serial serial = 0;
  Address from;
  Execute execute;  // its plan and its blocks move into `request` when it first runs
  // Shared with the job. Kept here because the plan runs again if its batch fails or misses shards.
  BatchRequestPointer request;
  State state = State::arrived;
  bool again = false;  // its batch failed: it runs once more, alone
  Instant received, deadline, ready_at, started;
  Instant wait_deadline;     // end of the wait for blocks
  std::int64_t pull_us = 0;  // time until other nodes' blocks had arrived
  PlanBlocks blocks;
  placement::Pass pass;  // given the grants; until they are known all tokens count as computed

  bool is_background() const { return execute.priority == Priority::background; }
  bool runs_alone() const { return execute.alone || again || blocks.in_flight(); }
};

}  // namespace troupe::actors
