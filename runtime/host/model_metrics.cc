// Merges the metrics of all models of a node into one text for Prometheus. Metrics that a model
// counts get the label `model`; metrics of the pool, the server and the disk belong to the node.
#include "runtime/host/model_metrics.h"

#include <algorithm>
#include <set>
#include <vector>

namespace troupe {
namespace {

// A metric of the text form: its description, and its samples as lines.
struct MetricFamily {
  std::string name, description;
  std::vector<std::string> samples;
};

std::string_view next_line(std::string_view& text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

// Splits the text at "# HELP name …", which starts a description; samples follow it.
std::vector<MetricFamily> families_of(std::string_view text) {
  constexpr std::string_view help = "# HELP ";
  std::vector<MetricFamily> families;
  while (!text.empty()) {
    if (text == openmetrics_end) break;
    const std::string_view line = next_line(text);
    if (line.starts_with(help)) {
      const std::string_view name = line.substr(help.size());
      families.push_back({std::string(name.substr(0, name.find(' '))), {}, {}});
    }
    if (families.empty()) continue;
    if (line.starts_with('#'))
      families.back().description.append(line).append("\n");
    else
      families.back().samples.emplace_back(line);
  }
  return families;
}

// Adds the label `model` to "name{labels} value" or "name value". Label values contain no brace
// before the labels begin, and names contain none.
std::string with_model(std::string_view sample, std::string_view model) {
  const std::size_t end = sample.find_first_of("{ ");
  std::string out(sample.substr(0, end));
  out.append("{model=\"").append(model).append("\"");
  if (sample[end] == ' ') return out.append("}").append(sample.substr(end));
  return out.append(",").append(sample.substr(end + 1));
}

// Returns the names of metrics that actors of models count. The HTTP server also counts metrics by
// tenant.
std::set<std::string, std::less<>> names_of_models(bool with_tenants, MetricForm form) {
  std::set<std::string, std::less<>> names;
  for (const MetricRow& row : metric_table())
    if (is_of_model(row.metric) && (with_tenants || row.by != "tenant"))
      names.emplace(family_of(row.name, form));
  return names;
}

}  // namespace

bool is_of_model(Metric metric) {
  using enum Metric;
  switch (metric) {
    case blocks_waited:
    case blocks_corrupt:
    case blocks_checked:
    case blocks_scrubbed:
    case scrub_round_seconds:
    case blocks_evicted_user:
    case blocks_evicted_item:
    case blocks_refused:
    case item_blocks_loaded:
    case item_blocks_saved:
    case item_blocks_save_failed:
    case item_bytes_moved:
    case users_handed_on:
    case users_held_elsewhere:
    case users_left_behind:
    case user_bytes_moved:
    case item_pages:
    case item_pages_used:
    case user_pages:
    case user_pages_used:
    case row_pages:
    case row_pages_used:
    case boundary_bytes_copied:
    case item_saved:
    case user_saved:
    case row_saved:
    case item_page_more:
    case user_page_more:
    case row_page_more:
    case item_page_less:
    case user_page_less:
    case row_page_less:
    case features_lost:
    case feature_items_cached:
    case feature_items_stale:
    case feature_items_read:
    case coordination_losses:
    case store_refuses:
    case index_blocks:
    case index_users:
    case store_damages:
    case store_losses:
    case protocol_errors:
    case messages_undelivered:
    case http_requests:
    case http_responses:
    case spans_exported:
    case spans_lost:
    case build_info:
    case process_cpu_seconds:
    case process_resident_bytes:
    case process_virtual_bytes:
    case process_open_files:
    case process_files_max:
    case process_threads:
    case process_start_seconds:
    case http_refused:
    case api_keys_age:
    case http_connections:
    case http_kept_bytes:
    case http_evicted:
    case http_abandoned:
    case http_accept_failed:
    case log_lines_dropped:
    case disk_bytes:
    case disk_free_bytes:
    case certificate_expires:
    case certificate_lifetime:
    case count_:
      return false;
    default:
      return true;
  }
}

std::string render(const MetricRegistry& node, std::span<const ModelMetrics> models, MetricForm form) {
  if (models.empty()) return node.render(form);
  std::vector<MetricFamily> families = families_of(node.render(form));
  const auto counted_by_models = names_of_models(false, form), of_models = names_of_models(true, form);
  for (MetricFamily& family : families)
    if (counted_by_models.contains(family.name)) family.samples.clear();
  for (const ModelMetrics& model : models)
    for (const MetricFamily& own : families_of(model.metrics->render(form))) {
      if (!of_models.contains(own.name)) continue;
      const auto family = std::ranges::find(families, own.name, &MetricFamily::name);
      if (family == families.end()) continue;
      for (const std::string& sample : own.samples)
        family->samples.push_back(with_model(sample, model.model));
    }
  std::string out;
  for (const MetricFamily& family : families) {
    out += family.description;
    for (const std::string& sample : family.samples) out.append(sample).append("\n");
  }
  if (form == MetricForm::openmetrics) out += openmetrics_end;
  return out;
}

}  // namespace troupe
