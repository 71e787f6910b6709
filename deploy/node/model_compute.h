#pragma once
// Opens what computes a model's passes on a node: the engine on the configured device, the cache
// and the shards of tables that are not in memory, prototypes, and the loader of later versions.
#include "deploy/node/served_model.h"
#include "runtime/pool/page_arena.h"

namespace troupe::deploy {

// Sets `model.compute`, and takes the weights from `model.opened`. The arena and the model must
// outlive the port. Throws ConfigError if a row does not fit a page, and what the engine throws.
void open_compute(ServedModel& model, PageArena& arena);

}  // namespace troupe::deploy
