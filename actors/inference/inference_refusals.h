#pragma once
// Refusals of the inference worker. All but `bad_blocks` may succeed on another worker or at a
// later try; `bad_blocks` is an error of the sender.
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/actor/messages.h"

namespace troupe::actors {

inline Refusal too_late() {
  return {RefusalKind::deadline_exceeded, "deadline_exceeded", "the plan's time was over before it could run",
          "inference worker", "a larger budget or less load"};
}

inline Refusal client_gone() {
  return {RefusalKind::unavailable, "client_gone", "the client has closed its connection", "inference worker",
          "a client that waits for the answer"};
}

inline Refusal queue_full(std::uint32_t queue_max) {
  return {RefusalKind::unavailable, "overloaded", std::to_string(queue_max) + " plans are waiting",
          "inference worker", "a retry after a pause"};
}

inline Refusal no_time(std::int64_t budget_us) {
  return {RefusalKind::unavailable, "overloaded",
          "the waiting plans already take longer than " + std::to_string(budget_us) + " us",
          "inference worker", "a retry after a pause, or a larger budget"};
}

inline Refusal drains() {
  return {RefusalKind::unavailable, "draining", "this worker is draining and takes no new plans",
          "inference worker", "another worker"};
}

inline Refusal bad_blocks(std::size_t blocks, std::size_t segments) {
  return {RefusalKind::unprocessable, "bad_plan",
          "the plan has " + std::to_string(blocks) + " blocks and " + std::to_string(segments) + " segments",
          "blocks", "one for each segment"};
}

inline Refusal wrong_model(const std::string& model, const std::vector<std::string>& served) {
  std::string all;
  for (const std::string& name : served) all += (all.empty() ? "" : ", ") + name;
  return {RefusalKind::unavailable, "wrong_model", "model " + model + " is not loaded", "inference worker",
          "one of: " + all};
}

}  // namespace troupe::actors
