#pragma once
// The table of all metrics. A core names a metric by its enumerator; the host's registry adds up
// the values and renders the Prometheus text form. Labels are part of a row, so that cores never
// build strings for them.
//
// We do not use prometheus-cpp, which Debian has as version 1.0. It supports neither exemplars nor
// the OpenMetrics form that they need. It looks a series up by a map of texts, which a core would
// have to build for each request. Here a series without a variable label is an atomic in an array,
// known at compile time.
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "runtime/actor/trace_context.h"

namespace troupe {

enum class Metric : std::uint16_t {
  requests_rank,
  requests_score,
  requests_generate,
  requests_complete,
  requests_embed,
  requests_refused,
  requests_expired,
  tokens_total,
  tokens_computed,
  tokens_reused,
  plans_user,
  plans_item,
  plans_other,
  plans_recompute,
  requests_waiting,
  tenant_requests,
  tenant_refused,
  tenant_answered,
  tenant_seconds,
  tenant_work,
  tenant_waiting,
  version_answered,
  request_seconds,
  stage_features,
  stage_lookup,
  stage_turn,
  stage_blocks,
  stage_pull,
  stage_queue,
  stage_compute,
  compute_seconds,
  overlap_begun,
  overlap_missed,
  overlap_spared,
  prediction_ratio,
  verified_equal,
  verified_different,
  verified_unstable,
  verified_dropped,
  batch_tokens,
  batch_requests,
  queue_depth,
  requests_in_flight,
  blocks_hit_user,
  blocks_hit_item,
  blocks_computed_user,
  blocks_computed_item,
  blocks_waited,
  blocks_corrupt,
  blocks_checked,
  blocks_scrubbed,
  scrub_round_seconds,
  blocks_evicted_user,
  blocks_evicted_item,
  blocks_refused,
  item_blocks_loaded,
  item_blocks_saved,
  item_blocks_save_failed,
  item_blocks_precomputed,
  item_blocks_given_up,
  items_refreshed,
  item_bytes_moved,
  items_hot,
  users_handed_on,
  users_held_elsewhere,
  users_left_behind,
  user_bytes_moved,
  item_pages,
  item_pages_used,
  user_pages,
  user_pages_used,
  row_pages,
  row_pages_used,
  rows_hit,
  rows_missed,
  rows_repeated,
  rows_evicted,
  rows_dropped,
  rows_corrupt,
  row_bytes_missed,
  row_bytes_refilled,
  rows_from_here,
  rows_from_nodes,
  rows_from_table,
  boundary_bytes_copied,
  item_saved,
  user_saved,
  row_saved,
  item_page_more,
  user_page_more,
  row_page_more,
  item_page_less,
  user_page_less,
  row_page_less,
  device_blocks_hit,
  device_blocks_missed,
  device_blocks_evicted,
  device_bytes_in,
  device_bytes_out,
  device_pages,
  device_pages_used,
  features_lost,
  coordination_losses,
  store_refuses,
  features_age,
  workers_lost,
  features_cached,
  features_stale,
  features_missing,
  features_unknown,
  features_own,
  feature_items_cached,
  feature_items_stale,
  feature_items_read,
  index_blocks,
  index_users,
  store_damages,
  store_losses,
  replay_recorded,
  replay_dropped,
  protocol_errors,
  messages_undelivered,
  http_requests,
  http_responses,
  api_keys_age,
  http_refused,
  http_connections,
  http_kept_bytes,
  http_evicted,
  http_abandoned,
  http_accept_failed,
  log_lines_dropped,
  disk_bytes,
  disk_free_bytes,
  certificate_expires,
  certificate_lifetime,
  spans_exported,
  spans_lost,
  build_info,
  process_cpu_seconds,
  process_resident_bytes,
  process_virtual_bytes,
  process_open_files,
  process_files_max,
  process_threads,
  process_start_seconds,
  count_
};

enum class MetricKind : std::uint8_t { counter, gauge, histogram };
struct MetricRow {
  Metric metric;
  MetricKind kind;
  std::string_view name;    // "troupe_tokens_total"
  std::string_view labels;  // "" or e.g. "kind=\"user\""
  std::string_view help;
  // Name of a variable label, e.g. "tenant": each of the first `label_values_max` label values gets a
  // sample of its own; "(others)" collects all further ones. Several labels are separated by commas
  // ("route,status"), their values by tabs. A tenant has samples of its own from its first answered
  // request on, or once 0 requests are recorded for it; of more than `label_values_max` tenants, those
  // answered lately have them.
  std::string_view by = {};
};
inline constexpr std::size_t label_values_max = 64;
std::span<const MetricRow> metric_table();  // has one row per enumerator, in order

// Text form: Prometheus 0.0.4, or OpenMetrics 1.0, which has exemplars.
enum class MetricForm : std::uint8_t { prometheus, openmetrics };
inline constexpr std::string_view openmetrics_end = "# EOF\n";
// returns the metric's name in HELP and TYPE lines
std::string_view family_of(std::string_view name, MetricForm form);

// Thread-safe. One per process.
class MetricRegistry {
 public:
  MetricRegistry();
  ~MetricRegistry();
  void record(Metric metric, double amount);  // counters add, gauges set, histograms observe
  // Records the sample `label_value` of a counter or gauge with a variable label. A sampled `trace`
  // becomes an exemplar of a histogram's observation.
  void record(Metric metric, double amount, std::string_view label_value, const TraceContext& trace = {});
  void follow(Metric counter, double total);  // sets a counter that is counted elsewhere
  // Returns the value of a counter or gauge, summed over all samples, or a histogram's number of
  // observations.
  double value(Metric metric) const;
  double value(Metric metric, std::string_view label_value) const;
  std::string render(MetricForm form = MetricForm::prometheus) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace troupe
