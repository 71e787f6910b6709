// Table of all metrics with names, labels and help texts, and the registry that adds up their
// values. It renders them for Prometheus, as plain text or in the OpenMetrics form, which also
// links samples to traces.
#include "runtime/actor/metrics.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cmath>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "kernels/base/check.h"
#include "runtime/actor/utf8.h"

namespace troupe {
namespace {

using enum Metric;
using enum MetricKind;

constexpr std::string_view user_label = "kind=\"user\"", item_label = "kind=\"item\"";
constexpr std::string_view handed_help =
    "User blocks of a leaving worker: migrated to the user's new home, held by other nodes already, or "
    "not taken over.";
constexpr std::string_view row_label = "kind=\"row\"";
constexpr std::string_view rows_help =
    "Distinct embedding table rows that passes read, by where they were found.";
constexpr std::string_view row_bytes_help =
    "Bytes of rows read from their table, for passes or to refill pages.";
constexpr std::string_view rows_fetched_help =
    "Rows of sharded tables that missed in the pool's row pages, by where they were found: this node's "
    "memory, another node's memory, or the table.";
constexpr std::string_view by_tenant = "tenant", other_values = "(others)";
constexpr std::string_view feature_items_help =
    "Items that requests wanted while features.items is cached, by where they came from: the cache, the "
    "cache after their expiry (stale), or Redis (store), which includes refreshes of stale ones.";
constexpr std::string_view features_help =
    "Requests answered without a profile read from the store, by what was used: a cached profile, a stale "
    "one, none (missing: not known yet; unknown: not stored), or the request's own history (request).";
constexpr std::string_view requests_help = "Requests that the router received.";
constexpr std::string_view stage_help = "Duration of a stage of an answered request.";
constexpr std::string_view plans_help = "Requests by the plan that was run.";
constexpr std::string_view hit_help = "Cached blocks that requests reused.";
constexpr std::string_view computed_help = "Blocks that had to be computed.";
constexpr std::string_view evicted_help = "Blocks evicted from the pool to free pages.";
constexpr std::string_view saved_help = "Time that requests saved through hits in an area.";
constexpr std::string_view page_more_help =
    "Microseconds per second that requests would save if an area had one page more.";
constexpr std::string_view page_less_help =
    "Microseconds per second that requests would lose if an area had one page less.";
constexpr std::string_view pages_help = "Pages of the pool that belong to an area.";
constexpr std::string_view device_blocks_help =
    "Cached blocks that batches read on the GPU, by where they were found: device memory or host memory.";
constexpr std::string_view device_bytes_help = "Bytes of pages copied between host and GPU.";
constexpr std::string_view verified_help =
    "Answers chosen by verify.share, by what their recomputation without cached blocks showed: equal, "
    "different, unstable (two recomputations differ), or dropped because none was made.";
constexpr std::string_view pages_used_help = "Pages of an area that hold blocks or rows.";

// Rows with the same name differ only in their labels; they need not be adjacent.
constexpr MetricRow rows[] = {
    {requests_rank, counter, "troupe_requests_total", "kind=\"rank\"", requests_help},
    {requests_score, counter, "troupe_requests_total", "kind=\"score\"", requests_help},
    {requests_generate, counter, "troupe_requests_total", "kind=\"generate\"", requests_help},
    {requests_complete, counter, "troupe_requests_total", "kind=\"complete\"", requests_help},
    {requests_embed, counter, "troupe_requests_total", "kind=\"embed\"", requests_help},
    {requests_refused, counter, "troupe_requests_refused_total", "",
     "Requests answered with a refusal, by its code.", "code"},
    {requests_expired, counter, "troupe_requests_expired_total", "", "Requests whose deadline passed."},
    {tokens_total, counter, "troupe_tokens_total", "", "Tokens of all plans that were run."},
    {tokens_computed, counter, "troupe_tokens_computed_total", "", "Tokens that were computed."},
    {tokens_reused, counter, "troupe_tokens_reused_total", "", "Tokens whose keys and values were reused."},
    {plans_user, counter, "troupe_plans_total", user_label, plans_help},
    {plans_item, counter, "troupe_plans_total", item_label, plans_help},
    {plans_other, counter, "troupe_plans_total", "kind=\"other\"", plans_help},
    {plans_recompute, counter, "troupe_plans_total", "kind=\"recompute\"", plans_help},
    {requests_waiting, gauge, "troupe_requests_waiting", "",
     "Requests that wait at the router for a worker."},
    {tenant_requests, counter, "troupe_tenant_requests_total", "",
     "Requests that the router admitted, by tenant.", by_tenant},
    {tenant_refused, counter, "troupe_tenant_refused_total", "",
     "Requests that the router refused or that expired, by tenant.", by_tenant},
    {tenant_answered, counter, "troupe_tenant_answered_total", "",
     "Requests that the router answered, by tenant.", by_tenant},
    {tenant_seconds, counter, "troupe_tenant_seconds_total", "",
     "Sum of the times from receipt to answer of answered requests, by tenant.", by_tenant},
    {tenant_work, counter, "troupe_tenant_work_seconds_total", "",
     "Predicted compute time of the plans sent to workers, by tenant.", by_tenant},
    {tenant_waiting, gauge, "troupe_tenant_waiting", "",
     "Requests that wait at the router for a worker, by tenant.", by_tenant},
    {version_answered, counter, "troupe_version_answered_total", "",
     "Requests that were answered, by model version.", "version"},
    {request_seconds, histogram, "troupe_request_seconds", "",
     "Time from a request's receipt to its answer."},
    {stage_features, histogram, "troupe_stage_seconds", "stage=\"features\"", stage_help},
    {stage_lookup, histogram, "troupe_stage_seconds", "stage=\"lookup\"", stage_help},
    {stage_turn, histogram, "troupe_stage_seconds", "stage=\"turn\"", stage_help},
    {stage_blocks, histogram, "troupe_stage_seconds", "stage=\"blocks\"", stage_help},
    {stage_pull, histogram, "troupe_stage_seconds", "stage=\"pull\"", stage_help},
    {stage_queue, histogram, "troupe_stage_seconds", "stage=\"queue\"", stage_help},
    {stage_compute, histogram, "troupe_stage_seconds", "stage=\"compute\"", stage_help},
    {compute_seconds, histogram, "troupe_compute_seconds", "", "Compute time of one batch."},
    {overlap_begun, counter, "troupe_overlap_plans_total", "",
     "Plans that began while some of their blocks were still being pulled (inference.overlap)."},
    {overlap_missed, counter, "troupe_overlap_missed_total", "",
     "Overlapped plans whose pulls failed, so that the blocks were computed."},
    {overlap_spared, counter, "troupe_overlap_saved_seconds_total", "",
     "Compute time of overlapped plans that ran while their blocks were being pulled."},
    {prediction_ratio, histogram, "troupe_prediction_ratio", "",
     "Ratio of observed to predicted time from sending a plan to its answer."},
    {verified_equal, counter, "troupe_verified_answers_total", "result=\"equal\"", verified_help},
    {verified_different, counter, "troupe_verified_answers_total", "result=\"different\"", verified_help},
    {verified_unstable, counter, "troupe_verified_answers_total", "result=\"unstable\"", verified_help},
    {verified_dropped, counter, "troupe_verified_answers_total", "result=\"dropped\"", verified_help},
    {batch_tokens, histogram, "troupe_batch_tokens", "", "Computed tokens of one batch."},
    {batch_requests, histogram, "troupe_batch_requests", "", "Requests in one batch."},
    {queue_depth, gauge, "troupe_queue_depth", "",
     "Requests that wait at the inference worker for an executor."},
    {requests_in_flight, gauge, "troupe_requests_in_flight", "",
     "Requests that the router has admitted and not answered yet."},
    {blocks_hit_user, counter, "troupe_blocks_hit_total", user_label, hit_help},
    {blocks_hit_item, counter, "troupe_blocks_hit_total", item_label, hit_help},
    {blocks_computed_user, counter, "troupe_blocks_computed_total", user_label, computed_help},
    {blocks_computed_item, counter, "troupe_blocks_computed_total", item_label, computed_help},
    {blocks_waited, counter, "troupe_blocks_waited_total", "",
     "Times that a request waited for a block that another request was computing."},
    {blocks_corrupt, counter, "troupe_blocks_corrupt_total", "", "Cached blocks that failed their checksum."},
    {blocks_checked, counter, "troupe_blocks_checked_total", "",
     "Reads of cached blocks whose bytes were compared with their checksum."},
    {blocks_scrubbed, counter, "troupe_blocks_scrubbed_total", "",
     "Cached blocks that the scrubber compared with their checksum."},
    {scrub_round_seconds, gauge, "troupe_scrub_round_seconds", "",
     "Duration of the scrubber's last round over all cached blocks. A flipped bit in memory is found within "
     "one round."},
    {blocks_evicted_user, counter, "troupe_blocks_evicted_total", user_label, evicted_help},
    {blocks_evicted_item, counter, "troupe_blocks_evicted_total", item_label, evicted_help},
    {blocks_refused, counter, "troupe_blocks_refused_total", "",
     "Blocks for which the pool had no free pages."},
    {item_blocks_loaded, counter, "troupe_item_blocks_loaded_total", "", "Item blocks read from disk."},
    {item_blocks_saved, counter, "troupe_item_blocks_saved_total", "", "Item blocks written to disk."},
    {item_blocks_save_failed, counter, "troupe_item_blocks_save_failed_total", "",
     "Item blocks that could not be written to disk."},
    {item_blocks_precomputed, counter, "troupe_item_blocks_precomputed_total", "",
     "Item blocks computed in the background."},
    {item_blocks_given_up, counter, "troupe_item_blocks_given_up_total", "",
     "Items excluded from background computation, because they failed again when computed alone."},
    {items_refreshed, counter, "troupe_items_refreshed_total", "",
     "Blocks of hot or updated items that were missing on an assigned worker and were computed or pulled "
     "there."},
    {item_bytes_moved, counter, "troupe_item_bytes_moved_total", "",
     "Bytes of item blocks that workers pulled from each other in the background."},
    {items_hot, gauge, "troupe_items_hot", "",
     "Items assigned to all workers because they are hot, in addition to those of the placement plan."},
    {users_handed_on, counter, "troupe_user_blocks_migrated_total", "to=\"home\"", handed_help},
    {users_held_elsewhere, counter, "troupe_user_blocks_migrated_total", "to=\"had\"", handed_help},
    {users_left_behind, counter, "troupe_user_blocks_migrated_total", "to=\"nobody\"", handed_help},
    {user_bytes_moved, counter, "troupe_user_bytes_moved_total", "",
     "Bytes of user blocks that were pulled from leaving workers."},
    {item_pages, gauge, "troupe_pages", item_label, pages_help},
    {item_pages_used, gauge, "troupe_pages_used", item_label, pages_used_help},
    {user_pages, gauge, "troupe_pages", user_label, pages_help},
    {user_pages_used, gauge, "troupe_pages_used", user_label, pages_used_help},
    {row_pages, gauge, "troupe_pages", row_label, pages_help},
    {row_pages_used, gauge, "troupe_pages_used", row_label, pages_used_help},
    {rows_hit, counter, "troupe_rows_total", "from=\"pool\"", rows_help},
    {rows_missed, counter, "troupe_rows_total", "from=\"table\"", rows_help},
    {rows_repeated, counter, "troupe_rows_repeated_total", "",
     "Repeated uses of a row within one pass; each row was fetched once."},
    {rows_evicted, counter, "troupe_rows_evicted_total", "",
     "Rows evicted for other rows or together with their page."},
    {rows_dropped, counter, "troupe_rows_dropped_total", "", "Rows dropped with their model version."},
    {rows_corrupt, counter, "troupe_rows_corrupt_total", "",
     "Rows in the pool that failed their checksum and were fetched again."},
    {row_bytes_missed, counter, "troupe_row_bytes_total", "for=\"pass\"", row_bytes_help},
    {row_bytes_refilled, counter, "troupe_row_bytes_total", "for=\"refill\"", row_bytes_help},
    {rows_from_here, counter, "troupe_rows_fetched_total", "from=\"here\"", rows_fetched_help},
    {rows_from_nodes, counter, "troupe_rows_fetched_total", "from=\"node\"", rows_fetched_help},
    {rows_from_table, counter, "troupe_rows_fetched_total", "from=\"table\"", rows_fetched_help},
    {boundary_bytes_copied, counter, "troupe_boundary_bytes_copied_total", "",
     "Bytes of blocks copied because the boundary between areas moved. Always 0: only page numbers change "
     "their area."},
    {item_saved, counter, "troupe_saved_seconds_total", item_label, saved_help},
    {user_saved, counter, "troupe_saved_seconds_total", user_label, saved_help},
    {row_saved, counter, "troupe_saved_seconds_total", row_label, saved_help},
    {item_page_more, gauge, "troupe_area_page_gain", item_label, page_more_help},
    {user_page_more, gauge, "troupe_area_page_gain", user_label, page_more_help},
    {row_page_more, gauge, "troupe_area_page_gain", row_label, page_more_help},
    {item_page_less, gauge, "troupe_area_page_loss", item_label, page_less_help},
    {user_page_less, gauge, "troupe_area_page_loss", user_label, page_less_help},
    {row_page_less, gauge, "troupe_area_page_loss", row_label, page_less_help},
    {device_blocks_hit, counter, "troupe_device_blocks_read_total", "from=\"device\"", device_blocks_help},
    {device_blocks_missed, counter, "troupe_device_blocks_read_total", "from=\"host\"", device_blocks_help},
    {device_blocks_evicted, counter, "troupe_device_blocks_evicted_total", "",
     "Block copies evicted from GPU memory."},
    {device_bytes_in, counter, "troupe_device_bytes_total", "to=\"device\"", device_bytes_help},
    {device_bytes_out, counter, "troupe_device_bytes_total", "to=\"host\"", device_bytes_help},
    {device_pages, gauge, "troupe_device_pages", "", "Pages of GPU memory for copies of blocks."},
    {device_pages_used, gauge, "troupe_device_pages_used", "",
     "Pages of GPU memory that hold copies of blocks."},
    {features_lost, counter, "troupe_features_lost_total", "",
     "Times that Redis lacked profiles or items that it had acknowledged, for example after a restart "
     "or failover."},
    {coordination_losses, counter, "troupe_coordination_losses_total", "",
     "Times that the coordination store lacked something that it had acknowledged, by what was noticed: "
     "emptied, went_back or replaced (seen by this node's connection), versions_lost or "
     "versions_unconfirmed (seen by a router).",
     "what"},
    {store_refuses, gauge, "troupe_store_refuses", "",
     "1 while a store that this node needs is away or refuses, by store (coordination, reads or writes of "
     "features) and reason: the store's own error code, or away.",
     "store,reason"},
    {features_age, gauge, "troupe_features_age_seconds", "",
     "Time since the feature store answered last, while it is away and requests are answered as known last "
     "(features.on_outage); otherwise 0."},
    {workers_lost, gauge, "troupe_workers_lost", "",
     "Workers of the cluster, without those that leave, that this router does not hear."},
    {features_cached, counter, "troupe_features_total", "from=\"cache\"", features_help},
    {features_stale, counter, "troupe_features_total", "from=\"stale\"", features_help},
    {features_missing, counter, "troupe_features_total", "from=\"missing\"", features_help},
    {features_unknown, counter, "troupe_features_total", "from=\"unknown\"", features_help},
    {features_own, counter, "troupe_features_total", "from=\"request\"", features_help},
    {feature_items_cached, counter, "troupe_feature_items_total", "from=\"cache\"", feature_items_help},
    {feature_items_stale, counter, "troupe_feature_items_total", "from=\"stale\"", feature_items_help},
    {feature_items_read, counter, "troupe_feature_items_total", "from=\"store\"", feature_items_help},
    {index_blocks, gauge, "troupe_index_blocks", "", "Blocks in the index of cache-meta."},
    {index_users, gauge, "troupe_index_users", "", "Users whose accesses cache-meta counts."},
    {store_damages, counter, "troupe_store_damages_total", "",
     "Damaged positions in the data folder's files, each counted once."},
    {store_losses, counter, "troupe_store_losses_total", "",
     "Ranges of acknowledged rows or writes that were lost when a damaged store was started."},
    {replay_recorded, counter, "troupe_replay_recorded_total", "",
     "Answers that were recorded for replays (replay.keep)."},
    {replay_dropped, counter, "troupe_replay_dropped_total", "",
     "Answers that were not recorded for replays, because storing them fell behind or failed."},
    {protocol_errors, counter, "troupe_protocol_errors_total", "",
     "Messages that could not be decoded or delivered, or were invalid."},
    {messages_undelivered, counter, "troupe_messages_undelivered_total", "",
     "Messages to other nodes that were dropped because the node was unreachable or too slow."},
    {http_requests, counter, "troupe_http_requests_total", "", "HTTP requests."},
    {http_responses, counter, "troupe_http_responses_total", "", "HTTP responses, by route and status.",
     "route,status"},
    {api_keys_age, gauge, "troupe_api_keys_age_seconds", "",
     "Time since the API keys were last read from Redis."},
    {http_refused, counter, "troupe_http_refused_total", "",
     "HTTP requests and connections that were refused, by the refusal's code.", "code"},
    {http_connections, gauge, "troupe_http_connections", "", "Open HTTP connections."},
    {http_kept_bytes, gauge, "troupe_http_kept_bytes", "",
     "Bytes kept for HTTP connections: requests being read, answers and results being written "
     "(http.memory_max)."},
    {http_evicted, counter, "troupe_http_connections_evicted_total", "",
     "HTTP connections closed to free a connection slot or memory for others."},
    {http_abandoned, counter, "troupe_http_requests_abandoned_total", "",
     "HTTP requests whose client closed its connection before the answer. They are not begun."},
    {http_accept_failed, counter, "troupe_http_accept_failed_total", "",
     "HTTP connections that could not be accepted, most likely because the limit of open files is reached."},
    {log_lines_dropped, counter, "troupe_log_lines_dropped_total", "",
     "Log lines that were lost because they came faster than they could be written, or could not be "
     "written."},
    {disk_bytes, gauge, "troupe_disk_bytes", "",
     "Size of the file system of a folder: data (node.data_dir) or log (of node.log_file).", "folder"},
    {disk_free_bytes, gauge, "troupe_disk_free_bytes", "",
     "Bytes of the file system of a folder that this process may still write.", "folder"},
    {certificate_expires, gauge, "troupe_certificate_expires_seconds", "",
     "Time until a certificate in use expires; negative afterwards: http (http.tls_certificate), node or "
     "authority (cluster.certificates). Of a chain, the first to expire.",
     "of"},
    {certificate_lifetime, gauge, "troupe_certificate_lifetime_seconds", "",
     "Time for which such a certificate was issued.", "of"},
    {spans_exported, counter, "troupe_spans_exported_total", "",
     "Spans of sampled requests that the collector accepted."},
    {spans_lost, counter, "troupe_spans_lost_total", "",
     "Spans of sampled requests that were dropped because the collector was unreachable or too slow."},
    {build_info, gauge, "troupe_build_info", "",
     "Always 1; the labels give the program's version and commit.", "version,commit"},
    {process_cpu_seconds, counter, "process_cpu_seconds_total", "", "CPU time of this process."},
    {process_resident_bytes, gauge, "process_resident_memory_bytes", "", "Resident memory of this process."},
    {process_virtual_bytes, gauge, "process_virtual_memory_bytes", "", "Virtual memory of this process."},
    {process_open_files, gauge, "process_open_fds", "", "Open files of this process."},
    {process_files_max, gauge, "process_max_fds", "", "Maximum number of open files of this process."},
    {process_threads, gauge, "process_threads", "", "Threads of this process."},
    {process_start_seconds, gauge, "process_start_time_seconds", "",
     "Start time of this process, in seconds since 1970."},
};

constexpr std::size_t metric_count = static_cast<std::size_t>(Metric::count_);
static_assert(std::size(rows) == metric_count, "one row per metric");
static_assert(
    [] {
      for (std::size_t i = 0; i < metric_count; ++i)
        if (rows[i].metric != static_cast<Metric>(i)) return false;
      return true;
    }(),
    "the rows are in the order of the enumerators");

// Upper bounds of a histogram's buckets; larger values go to the bucket +Inf.
constexpr double seconds_bounds[] = {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
                                     0.25,   0.5,   1,      2.5,   5,    10,    30,   60};
constexpr double stage_bounds[] = {0.00002, 0.00005, 0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01,
                                   0.02,    0.05,    0.1,    0.2,    0.5,    1,     2,     5,     10};
constexpr double tokens_bounds[] = {16, 64, 256, 512, 1024, 2048, 4096, 8192, 16384, 65536, 262144, 1048576};
constexpr double ratio_bounds[] = {0.1, 0.25, 0.5, 0.67, 0.8, 0.9, 1, 1.1, 1.25, 1.5, 2, 4, 10};
constexpr double requests_bounds[] = {1, 2, 4, 8, 16, 32, 64, 128, 256};

std::span<const double> bounds_of(Metric metric) {
  switch (metric) {
    case request_seconds:
    case compute_seconds:
      return seconds_bounds;
    case stage_features:
    case stage_lookup:
    case stage_turn:
    case stage_blocks:
    case stage_pull:
    case stage_queue:
    case stage_compute:
      return stage_bounds;
    case prediction_ratio:
      return ratio_bounds;
    case batch_tokens:
      return tokens_bounds;
    case batch_requests:
      return requests_bounds;
    default:
      return {};
  }
}

void append_number(std::string& out, double value) {
  if (std::isnan(value)) {
    out += "NaN";
  } else if (std::isinf(value)) {
    out += value > 0 ? "+Inf" : "-Inf";
  } else {
    char buffer[32];
    const bool whole =
        value == std::floor(value) && std::abs(value) < 0x1p53;  // readable, without an exponent
    const auto end = whole ? std::to_chars(buffer, std::end(buffer), static_cast<std::int64_t>(value)).ptr
                           : std::to_chars(buffer, std::end(buffer), value).ptr;
    out.append(buffer, end);
  }
}

std::string_view kind_name(MetricKind kind) {
  return kind == counter ? "counter" : kind == gauge ? "gauge" : "histogram";
}

// Writes `name{labels,more} value` and, in OpenMetrics, an exemplar after it.
void append_sample(std::string& out, const MetricRow& row, std::string_view suffix, std::string_view more,
                   double value, std::string_view exemplar = {}) {
  out.append(row.name).append(suffix);
  if (!row.labels.empty() || !more.empty()) {
    out.append("{").append(row.labels);
    if (!row.labels.empty() && !more.empty()) out += ',';
    out.append(more).append("}");
  }
  out += ' ';
  append_number(out, value);
  out.append(exemplar) += '\n';
}

// Last observation in a bucket that belongs to a sampled request.
struct Exemplar {
  TraceContext trace;
  double value = 0, at_s = 0;
};

double since_1970_s() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// " # {trace_id="…",span_id="…"} value seconds"
std::string text_of(const Exemplar& exemplar) {
  if (!exemplar.trace.is_there()) return "";
  std::string text =
      " # {trace_id=\"" + trace_id(exemplar.trace) + "\",span_id=\"" + span_id(exemplar.trace.span) + "\"} ";
  append_number(text, exemplar.value);
  append_number(text += ' ', std::round(exemplar.at_s * 1000) / 1000);
  return text;
}

// Values of one metric. Updates are relaxed: a scrape may see a histogram's bucket before its sum.
struct Series {
  std::atomic<double> value = 0;                    // value of a counter or gauge; sum of a histogram
  std::vector<std::atomic<std::uint64_t>> buckets;  // of a histogram: one per bound, and +Inf

  std::uint64_t observations() const {
    std::uint64_t sum = 0;
    for (const auto& bucket : buckets) sum += bucket.load(std::memory_order_relaxed);
    return sum;
  }
};

using LabelledSamples = std::map<std::string, double, std::less<>>;  // samples by label value

// Returns the sample of `label_value`. Once the maximum number of samples exists, all others share the
// last one.
double& sample_of(LabelledSamples& samples, std::string_view label_value) {
  if (const auto at = samples.find(label_value); at != samples.end()) return at->second;
  return samples[std::string(samples.size() + 1 < label_values_max ? label_value : other_values)];
}

std::string_view take_part(std::string_view& text, char end) {
  const std::size_t at = std::min(text.find(end), text.size());
  const std::string_view part = text.substr(0, at);
  text.remove_prefix(std::min(at + 1, text.size()));
  return part;
}

// Escapes a label value. A scraper refuses the whole text for one invalid byte, so control characters
// become blanks, and bytes that are no UTF-8 become U+FFFD, whoever sent them.
void append_label_value(std::string& out, std::string_view value) {
  while (!value.empty()) {
    const std::size_t length = utf8_length(value);
    const std::string_view character = value.substr(0, std::max<std::size_t>(1, length));
    if (character == "\\" || character == "\"") out += '\\';
    if (length == 0)
      out += "\xef\xbf\xbd";  // U+FFFD
    else
      out += is_control(character) ? " " : character;
    value.remove_prefix(character.size());
  }
}

// Returns labels with their values as they stand between the braces.
std::string quoted(std::string_view labels, std::string_view values) {
  std::string out;
  while (!labels.empty()) {
    out.append(out.empty() ? "" : ",").append(take_part(labels, ',')).append("=\"");
    append_label_value(out, labels.empty() ? values : take_part(values, '\t'));
    out += '"';
  }
  return out;
}

void append_labelled(std::string& out, const MetricRow& row, const LabelledSamples& samples) {
  for (const auto& [label_value, value] : samples)
    append_sample(out, row, "", quoted(row.by, label_value), value);
}

// `exemplars` may be empty: then none are written.
void append_histogram(std::string& out, const MetricRow& row, const Series& series,
                      std::span<const Exemplar> exemplars) {
  const std::span<const double> bounds = bounds_of(row.metric);
  std::uint64_t below = 0;
  for (std::size_t i = 0; i <= bounds.size(); ++i) {
    below += series.buckets[i].load(std::memory_order_relaxed);
    std::string bound = "le=\"";
    append_number(bound, i < bounds.size() ? bounds[i] : INFINITY);
    append_sample(out, row, "_bucket", bound + "\"", static_cast<double>(below),
                  i < exemplars.size() ? text_of(exemplars[i]) : "");
  }
  append_sample(out, row, "_sum", "", series.value.load(std::memory_order_relaxed));
  // sum of the buckets as this scrape saw them
  append_sample(out, row, "_count", "", static_cast<double>(below));
}

}  // namespace

std::span<const MetricRow> metric_table() { return rows; }

// Samples of a counter end in _total; in OpenMetrics the name of its family does not.
std::string_view family_of(std::string_view name, MetricForm form) {
  constexpr std::string_view total = "_total";
  const bool cut = form == MetricForm::openmetrics && name.ends_with(total);
  return cut ? name.substr(0, name.size() - total.size()) : name;
}

struct MetricRegistry::State {
  std::array<Series, metric_count> series;
  std::mutex mutex;  // guards the members below
  std::array<LabelledSamples, metric_count> named;
  std::map<std::string, std::uint64_t, std::less<>> tenants;  // with samples of their own, by last use
  std::uint64_t uses = 0;
  std::array<std::vector<Exemplar>, metric_count> exemplars;  // one per bucket, or empty

  void keep_example(std::size_t index, std::size_t bucket, double amount, const TraceContext& trace) {
    const std::lock_guard lock(mutex);
    exemplars[index].resize(series[index].buckets.size());
    exemplars[index][bucket] = {trace, amount, since_1970_s()};
  }

  // Returns the label value under which this tenant is counted. A name that nobody answered takes no
  // sample from the others, whoever invents it.
  std::string_view counted_tenant(Metric metric, double amount, std::string_view tenant) {
    if (tenant.empty()) return tenant;
    const auto known = tenants.find(tenant);
    const bool is_listed = metric == tenant_requests && amount == 0;
    if (metric != tenant_answered && !is_listed) return known == tenants.end() ? other_values : tenant;
    if (known == tenants.end() && tenants.size() + 2 >= label_values_max) forget_tenant();
    tenants[std::string(tenant)] = ++uses;
    return tenant;
  }

  // Adds the samples of the tenant that was not answered for longest to those of the others.
  void forget_tenant() {
    const auto oldest =
        std::ranges::min_element(tenants, {}, [](const auto& tenant) { return tenant.second; });
    for (const MetricRow& row : rows) {
      if (row.by != by_tenant) continue;
      LabelledSamples& samples = named[static_cast<std::size_t>(row.metric)];
      const auto sample = samples.find(oldest->first);
      if (sample == samples.end()) continue;
      if (row.kind == counter) samples[std::string(other_values)] += sample->second;
      samples.erase(sample);
    }
    tenants.erase(oldest);
  }
};

MetricRegistry::MetricRegistry() : state_(std::make_unique<State>()) {
  for (const MetricRow& row : rows)
    if (row.kind == histogram)
      state_->series[static_cast<std::size_t>(row.metric)].buckets =
          std::vector<std::atomic<std::uint64_t>>(bounds_of(row.metric).size() + 1);
}

MetricRegistry::~MetricRegistry() = default;

void MetricRegistry::record(Metric metric, double amount) { record(metric, amount, {}, {}); }

void MetricRegistry::record(Metric metric, double amount, std::string_view label_value,
                            const TraceContext& trace) {
  const auto index = static_cast<std::size_t>(metric);
  TROUPE_CHECK(index < metric_count, "a metric that is not in the table");
  Series& series = state_->series[index];
  if (!rows[index].by.empty()) {
    const std::lock_guard lock(state_->mutex);
    LabelledSamples& samples = state_->named[index];
    double& sample = rows[index].by == by_tenant
                         ? samples[std::string(state_->counted_tenant(metric, amount, label_value))]
                         : sample_of(samples, label_value);
    sample = rows[index].kind == counter ? sample + amount : amount;
  } else if (rows[index].kind == counter) {
    series.value.fetch_add(amount, std::memory_order_relaxed);
  } else if (rows[index].kind == gauge) {
    series.value.store(amount, std::memory_order_relaxed);
  } else {
    const std::span<const double> bounds = bounds_of(metric);
    const auto bucket = static_cast<std::size_t>(std::ranges::lower_bound(bounds, amount) - bounds.begin());
    series.buckets[bucket].fetch_add(1, std::memory_order_relaxed);
    series.value.fetch_add(amount, std::memory_order_relaxed);
    if (trace.sampled) state_->keep_example(index, bucket, amount, trace);
  }
}

void MetricRegistry::follow(Metric metric, double total) {
  state_->series[static_cast<std::size_t>(metric)].value.store(total, std::memory_order_relaxed);
}

double MetricRegistry::value(Metric metric, std::string_view label_value) const {
  const std::lock_guard lock(state_->mutex);
  const LabelledSamples& samples = state_->named[static_cast<std::size_t>(metric)];
  const auto at = samples.find(label_value);
  return at != samples.end() ? at->second : 0;
}

double MetricRegistry::value(Metric metric) const {
  const auto index = static_cast<std::size_t>(metric);
  TROUPE_CHECK(index < metric_count, "a metric that is not in the table");
  if (!rows[index].by.empty()) {
    const std::lock_guard lock(state_->mutex);
    double sum = 0;
    for (const auto& [label_value, value] : state_->named[index]) sum += value;
    return sum;
  }
  const Series& series = state_->series[index];
  if (rows[index].kind == histogram) return static_cast<double>(series.observations());
  return series.value.load(std::memory_order_relaxed);
}

std::string MetricRegistry::render(MetricForm form) const {
  std::string out;
  const auto append_row = [&](const MetricRow& row) {
    const auto index = static_cast<std::size_t>(row.metric);
    const Series& series = state_->series[index];
    const std::lock_guard lock(state_->mutex);
    const bool exemplary = form == MetricForm::openmetrics;
    if (!row.by.empty())
      append_labelled(out, row, state_->named[index]);
    else if (row.kind == histogram)
      append_histogram(
          out, row, series,
          exemplary ? std::span<const Exemplar>(state_->exemplars[index]) : std::span<const Exemplar>());
    else
      append_sample(out, row, "", "", series.value.load(std::memory_order_relaxed));
  };
  for (const MetricRow& first : rows) {
    if (std::ranges::find(rows, first.name, &MetricRow::name) != &first)
      continue;  // written with the first row of that name
    const std::string_view family = family_of(first.name, form);
    out.append("# HELP ").append(family).append(" ").append(first.help).append("\n");
    out.append("# TYPE ").append(family).append(" ").append(kind_name(first.kind)).append("\n");
    for (const MetricRow& row : rows)
      if (row.name == first.name) append_row(row);
  }
  if (form == MetricForm::openmetrics) out += openmetrics_end;
  return out;
}

}  // namespace troupe
