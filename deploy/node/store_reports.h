#pragma once
// What became of a damaged store, in logs and metrics, and in what a router says of itself.
#include <vector>

#include "runtime/actor/messages.h"
#include "runtime/host/host.h"
#include "runtime/store/store.h"

namespace troupe::deploy {

// What was found and lost at the opening, at once: whatever ends the process next, it was said. And from now
// on what is met, from any thread. `log` may be empty, `metrics` null; the latter must outlive the store.
void tell_of_store(const LogSink& log, MetricRegistry* metrics, Store& store);

// Nothing, if it is whole.
void add_health(const StoreHealth& health, std::vector<StatusField>& fields);

}  // namespace troupe::deploy
