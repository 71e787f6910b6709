#pragma once
// Test helper: makes the job of a batch from its requests.
#include <memory>
#include <utility>
#include <vector>

#include "runtime/actor/ports.h"

namespace troupe {

inline RunBatch batch_of(std::vector<BatchRequest> requests) {
  RunBatch batch;
  for (BatchRequest& request : requests)
    batch.requests.push_back(std::make_shared<const BatchRequest>(std::move(request)));
  return batch;
}

}  // namespace troupe
