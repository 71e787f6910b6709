#pragma once
// Metrics of a node that serves several models. Metrics of a model's router and inference worker
// have the label `model`. Metrics of the pool, the index, the HTTP server and the disk belong to
// the node, as on a node with one model.
#include <span>
#include <string>
#include <string_view>

#include "runtime/actor/metrics.h"

namespace troupe {

bool is_of_model(Metric metric);

struct ModelMetrics {
  std::string_view model;
  const MetricRegistry* metrics = nullptr;
};
// Renders all registries into one text, as MetricRegistry::render does; each metric is described
// once.
std::string render(const MetricRegistry& node, std::span<const ModelMetrics> models,
                   MetricForm form = MetricForm::prometheus);

}  // namespace troupe
