// Opens what computes a model's passes on a node. Rows of tables that are not in memory are read
// through the node's page pool.
#include "deploy/node/model_compute.h"

#include <utility>

#include "actors/inference/compute_port.h"
#include "actors/inference/paced_table_port.h"
#include "deploy/models/engine.h"
#include "deploy/models/model_prototypes.h"
#include "deploy/node/model_versions.h"

namespace troupe::deploy {
namespace {

// The cache keeps rows in pages of the pool.
std::shared_ptr<actors::RowCache> make_row_cache(const ServedModel& model, PageArena& arena) {
  const std::size_t row_bytes = std::size_t{model.facts.table_columns} * sizeof(float);
  if (row_bytes == 0) return nullptr;
  if (row_bytes > arena.page_bytes())
    throw ConfigError(
        "pool.page_tokens is " + std::to_string(model.config.pool.page_tokens) + ", whose pages have " +
        std::to_string(arena.page_bytes()) + " bytes; expected at least the " + std::to_string(row_bytes) +
        " of an embedding row, with model.tables: " + std::string(word_of(model.config.model.tables)));
  return std::make_shared<actors::RowCache>(arena, model.facts.table_columns);
}

std::shared_ptr<actors::TableShards> make_shards(const ServedModel& model, PageArena& arena) {
  return model.has_sharded_table() ? std::make_shared<actors::TableShards>(arena, model.facts.table_columns)
                                   : nullptr;
}

// Applies model.table_bandwidth, the shards (if any) and the row cache to a table, in this order.
WrapTable through(const std::shared_ptr<actors::RowCache>& rows,
                  const std::shared_ptr<actors::TableShards>& shards, const ModelSettings& settings,
                  const std::string& model_version) {
  if (!rows) return {};
  const auto bandwidth = static_cast<double>(settings.table_bandwidth);
  return [rows, shards, bandwidth, model_version](std::shared_ptr<kernels::EmbeddingTable> table) {
    if (bandwidth > 0) table = std::make_shared<actors::PacedTable>(std::move(table), bandwidth);
    if (shards) table = shards->sharded(std::move(table), model_version, "items");
    return rows->cached(std::move(table));
  };
}

}  // namespace

void open_compute(ServedModel& model, PageArena& arena) {
  const auto rows = make_row_cache(model, arena);
  const auto shards = make_shards(model, arena);
  Engine engine = model.opened.engine(through(rows, shards, model.config.model, model.names.model_version));
  if (model.prototypes)
    engine.executor = make_prototype_executor(model.config, std::move(engine.executor), model.prototypes,
                                              through(rows, {}, model.config.model, {}));
  model.compute = std::make_unique<actors::ComputePort>(actors::ComputePort::Options{
      .model = {std::move(engine.executor), std::move(model.opened.make_assets)},
      .model_version = model.names.model_version,
      .arena = arena,
      .slots = executors_of(model.config),
      .make_pages = engine.make_pages,
      .loader = version_loader(model.versions, model.config, model.prompt,
                               [rows, shards, settings = model.config.model](const std::string& version) {
                                 return through(rows, shards, settings, version);
                               }),
      .find_catalog =
          [&model](const std::string& version) {
            return model.features ? model.features->catalog_at(version) : nullptr;
          },
      .rows = rows,
      .shards = shards});
}

}  // namespace troupe::deploy
