#pragma once
// The one table of metrics. A core names a metric by its enumerator; the host's registry adds it up and
// renders the Prometheus text form. Labels are part of the row, so that cores never build strings for them.
//
// Not prometheus-cpp, which Debian has as 1.0: that knows neither exemplars nor the OpenMetrics form that
// they need, looks a series up by a map of texts, and a core would build that map for each request. Here a
// series without a label of its own is an atomic in an array, and what is counted is known when the program
// is compiled.
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
  features_cached,
  features_stale,
  features_missing,
  index_blocks,
  index_users,
  store_damages,
  store_losses,
  protocol_errors,
  messages_undelivered,
  http_requests,
  http_responses,
  api_keys_age,
  http_refused,
  http_connections,
  http_made_room,
  http_accept_failed,
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
  // "tenant": there is a sample for each tenant, of the first `of_whom_max`; "(others)" is that of all
  // further ones. Of several labels with commas between ("route,status") the values have a tab between.
  std::string_view by = {};
};
inline constexpr std::size_t of_whom_max = 64;
std::span<const MetricRow> metric_table();  // one row per enumerator, in order

// Prometheus' text, version 0.0.4; or OpenMetrics 1.0, which has exemplars.
enum class MetricForm : std::uint8_t { prometheus, openmetrics };
inline constexpr std::string_view openmetrics_end = "# EOF\n";
std::string_view family_of(std::string_view name, MetricForm form);  // as its description names it

// Thread-safe. One per process.
class MetricRegistry {
 public:
  MetricRegistry();
  ~MetricRegistry();
  void record(Metric metric, double amount);  // counter: add; gauge: set; histogram: observe
  // The same, of a row with samples for each of somebody: a counter or a gauge. `trace`, if it is sampled, is
  // an example of what a histogram has observed.
  void record(Metric metric, double amount, std::string_view whose, const TraceContext& trace = {});
  void follow(Metric counter, double total);  // which is counted elsewhere
  double value(
      Metric metric) const;  // counter or gauge, all samples together; histogram: number of observations
  double value(Metric metric, std::string_view whose) const;
  std::string render(MetricForm form = MetricForm::prometheus) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace troupe
