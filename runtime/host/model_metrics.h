#pragma once
// The metrics of a node that serves several models: those that a model's router and inference worker count
// are the model's, with the label `model`; those of the pool, the index, the door and the disk are the
// node's, as on a node with one model.
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
// As MetricRegistry::render, of all of them in one text: each metric is described once.
std::string render(const MetricRegistry& node, std::span<const ModelMetrics> models,
                   MetricForm form = MetricForm::prometheus);

}  // namespace troupe
