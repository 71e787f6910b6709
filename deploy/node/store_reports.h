#pragma once
// Reports damage of a store in logs, metrics and the router's status.
#include <vector>

#include "runtime/actor/messages.h"
#include "runtime/host/host.h"
#include "runtime/store/store.h"

namespace troupe::deploy {

// Logs the damage found when the store was opened, at once, so that it is logged even if the
// process ends soon. Then subscribes to damage found later, on any thread. `log` may be empty and
// `metrics` null; `metrics` must outlive the store.
void report_store_health(const LogSink& log, MetricRegistry* metrics, Store& store);

// Adds nothing if the store is undamaged.
void add_health(const StoreHealth& health, std::vector<StatusField>& fields);

}  // namespace troupe::deploy
