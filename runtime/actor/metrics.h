#pragma once
// The one table of metrics. A core names a metric by its enumerator; the host's registry adds it up and renders the
// Prometheus text form. Labels are part of the row, so that cores never build strings for them.
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace troupe {

enum class Metric : std::uint16_t {
  requests_rank, requests_score, requests_generate, requests_complete, requests_refused, requests_expired,
  tokens_total, tokens_computed, tokens_reused,
  plans_user, plans_item, plans_other, plans_recompute,
  requests_waiting, tenant_requests, tenant_refused, tenant_work, tenant_waiting,
  request_seconds, compute_seconds, prediction_ratio, batch_tokens, batch_requests, queue_depth, requests_in_flight,
  blocks_hit_user, blocks_hit_item, blocks_computed_user, blocks_computed_item, blocks_waited, blocks_corrupt,
  blocks_checked, blocks_scrubbed, scrub_round_seconds,
  blocks_evicted_user, blocks_evicted_item, blocks_refused,
  item_blocks_loaded, item_blocks_saved, item_blocks_save_failed, item_blocks_precomputed,
  item_blocks_given_up,
  items_refreshed, item_bytes_moved, items_hot,
  item_pages, item_pages_used, user_pages, user_pages_used, row_pages, row_pages_used,
  rows_hit, rows_missed, rows_repeated, rows_evicted, rows_dropped, rows_corrupt, row_bytes_missed, row_bytes_refilled,
  boundary_bytes_copied,
  device_blocks_hit, device_blocks_missed, device_blocks_evicted, device_bytes_in, device_bytes_out,
  device_pages, device_pages_used,
  features_lost, features_cached, features_stale, features_missing,
  index_blocks, index_users,
  store_damages, store_losses,
  protocol_errors, messages_undelivered,
  http_requests, http_refused, http_connections, http_made_room, http_accept_failed,
  count_
};

enum class MetricKind : std::uint8_t { counter, gauge, histogram };
struct MetricRow {
  Metric metric;
  MetricKind kind;
  std::string_view name;     // "troupe_tokens_total"
  std::string_view labels;   // "" or e.g. "kind=\"user\""
  std::string_view help;
  // "tenant": there is a sample for each tenant, of the first `of_whom_max`; "(others)" is that of all further ones.
  std::string_view by = {};
};
inline constexpr std::size_t of_whom_max = 64;
std::span<const MetricRow> metric_table();   // one row per enumerator, in order

// Thread-safe. One per process.
class MetricRegistry {
 public:
  MetricRegistry();
  ~MetricRegistry();
  void record(Metric metric, double amount);   // counter: add; gauge: set; histogram: observe
  // The same, of a row with samples for each of somebody: a counter or a gauge.
  void record(Metric metric, double amount, std::string_view whose);
  double value(Metric metric) const;           // counter or gauge; histogram: number of observations
  double value(Metric metric, std::string_view whose) const;
  std::string render() const;                  // Prometheus text exposition format 0.0.4
 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace troupe
