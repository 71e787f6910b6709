#include "runtime/actor/metrics.h"

#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <set>
#include <sstream>
#include <thread>
#include <vector>

using namespace troupe;

namespace {

bool has_line(const std::string& text, const std::string& line) {
  return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

}  // namespace

TEST_CASE("metrics: names follow their kinds, and rows with one name differ only in their labels") {
  std::map<std::string_view, const MetricRow*> first;
  std::set<std::pair<std::string_view, std::string_view>> series;
  for (const MetricRow& row : metric_table()) {
    CAPTURE(row.name);
    CHECK((row.name.starts_with("troupe_") || row.name.starts_with("process_")));
    CHECK((row.kind == MetricKind::counter) == row.name.ends_with("_total"));
    CHECK(row.help.ends_with('.'));
    CHECK(series.emplace(row.name, row.labels).second);
    const MetricRow& other = *first.emplace(row.name, &row).first->second;
    CHECK(other.kind == row.kind);
    CHECK(other.help == row.help);
  }
}

TEST_CASE("metrics: counters add, gauges keep the last value, histograms count observations") {
  MetricRegistry registry;
  registry.record(Metric::tokens_reused, 3);
  registry.record(Metric::tokens_reused, 4);
  registry.record(Metric::queue_depth, 3);
  registry.record(Metric::queue_depth, 1);
  registry.record(Metric::request_seconds, 0.2);
  registry.record(Metric::request_seconds, 200);
  CHECK(registry.value(Metric::tokens_reused) == 7);
  CHECK(registry.value(Metric::queue_depth) == 1);
  CHECK(registry.value(Metric::request_seconds) == 2);
  CHECK(registry.value(Metric::tokens_total) == 0);
}

TEST_CASE(
    "metrics: NaN and infinities are written as Prometheus reads them, and whole numbers without an "
    "exponent") {
  const std::pair<double, const char*> texts[] = {
      {std::nan(""), "NaN"},      {INFINITY, "+Inf"}, {-INFINITY, "-Inf"}, {0, "0"}, {-3, "-3"},
      {1e15, "1000000000000000"}, {0.25, "0.25"},     {1e300, "1e+300"}};
  for (const auto& [value, text] : texts) {
    CAPTURE(text);
    MetricRegistry registry;
    registry.record(Metric::user_pages, value);
    CHECK(has_line(registry.render(), std::string("troupe_pages{kind=\"user\"} ") + text));
  }
}

TEST_CASE("metrics: the text has help and type once per name, and every labelled sample") {
  MetricRegistry registry;
  registry.record(Metric::user_pages, 7);
  registry.record(Metric::item_pages, 1e9);
  registry.record(Metric::plans_recompute, 1);
  const std::string text = registry.render();
  CHECK(has_line(text, "troupe_pages{kind=\"item\"} 1000000000\ntroupe_pages{kind=\"user\"} 7"));
  CHECK(has_line(text, "troupe_plans_total{kind=\"recompute\"} 1"));
  CHECK(has_line(text, "# TYPE troupe_pages gauge"));
  CHECK(has_line(text, "troupe_tokens_total 0"));
  std::set<std::string> seen;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("# ")) CHECK(seen.insert(line.substr(0, line.find(' ', 7))).second);
  }
  CHECK(text.ends_with("\n"));
}

TEST_CASE("metrics: a metric by tenant has a sample for each of the first tenants and one for all others") {
  MetricRegistry registry;
  registry.record(Metric::tenant_requests, 2, "a\"b");
  registry.record(Metric::tenant_requests, 3, "a\"b");
  registry.record(Metric::tenant_waiting, 5, "");
  registry.record(Metric::tenant_waiting, 4, "");
  CHECK(registry.value(Metric::tenant_requests, "a\"b") == 5);
  CHECK(has_line(registry.render(), "troupe_tenant_requests_total{tenant=\"a\\\"b\"} 5"));
  CHECK(has_line(registry.render(), "troupe_tenant_waiting{tenant=\"\"} 4"));
  for (std::size_t i = 0; i < 10 * label_values_max; ++i)
    registry.record(Metric::tenant_requests, 1, "invented " + std::to_string(i));
  const std::string text = registry.render();
  std::size_t samples = 0;
  for (std::size_t at = 0; (at = text.find("\ntroupe_tenant_requests_total{", at)) != text.npos; ++at)
    ++samples;
  CHECK(samples == label_values_max);
  CHECK(registry.value(Metric::tenant_requests, "(others)") ==
        10 * label_values_max - (label_values_max - 2));
}

TEST_CASE("metrics: line breaks in a tenant's name are replaced") {
  MetricRegistry registry;
  registry.record(Metric::tenant_requests, 1, "a\nb\\c");
  CHECK(has_line(registry.render(), "troupe_tenant_requests_total{tenant=\"a b\\\\c\"} 1"));
}

TEST_CASE("metrics: histogram buckets include their bound and are cumulative") {
  MetricRegistry registry;
  for (double amount : {1.0, 2.0, 2.5, 256.0, 257.0}) registry.record(Metric::batch_requests, amount);
  const std::string text = registry.render();
  CHECK(has_line(text, "troupe_batch_requests_bucket{le=\"1\"} 1"));
  CHECK(has_line(text, "troupe_batch_requests_bucket{le=\"2\"} 2"));
  CHECK(has_line(text, "troupe_batch_requests_bucket{le=\"4\"} 3"));
  CHECK(has_line(text, "troupe_batch_requests_bucket{le=\"256\"} 4"));
  CHECK(has_line(text, "troupe_batch_requests_bucket{le=\"+Inf\"} 5"));
  CHECK(has_line(text, "troupe_batch_requests_sum 518.5"));
  CHECK(has_line(text, "troupe_batch_requests_count 5"));
}

TEST_CASE("metrics: records from several threads are all counted") {
  MetricRegistry registry;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 5000; ++i) {
        registry.record(Metric::http_requests, 1);
        registry.record(Metric::batch_tokens, 100);
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(registry.value(Metric::http_requests) == 20000);
  CHECK(registry.value(Metric::batch_tokens) == 20000);
  CHECK(has_line(registry.render(), "troupe_batch_tokens_sum 2000000"));
}

TEST_CASE("metrics: a metric by several labels has a sample per pair, and their sum is its value") {
  MetricRegistry registry;
  registry.record(Metric::http_responses, 2, "/v1/rank\t200");
  registry.record(Metric::http_responses, 1, "/v1/\"rank\t404");
  CHECK(has_line(registry.render(), "troupe_http_responses_total{route=\"/v1/rank\",status=\"200\"} 2"));
  CHECK(has_line(registry.render(), "troupe_http_responses_total{route=\"/v1/\\\"rank\",status=\"404\"} 1"));
  CHECK(registry.value(Metric::http_responses) == 3);
}

TEST_CASE(
    "metrics: OpenMetrics omits _total from counter families, adds exemplars to buckets and ends with EOF") {
  MetricRegistry registry;
  const TraceContext sampled{0x4bf92f3577b34da6, 0xa3ce929d0e0e4736, 7, true};
  registry.record(Metric::stage_queue, 0.00015, "", sampled);
  registry.record(Metric::stage_queue, 3, "", TraceContext{1, 2, 3, false});
  const std::string text = registry.render(MetricForm::openmetrics), plain = registry.render();
  CHECK(has_line(text, "# TYPE troupe_tokens counter"));
  CHECK(has_line(text, "troupe_tokens_total 0"));
  CHECK(text.ends_with("\n# EOF\n"));
  const std::string bucket = "troupe_stage_seconds_bucket{stage=\"queue\",le=\"2e-04\"} 1";
  CHECK(
      text.find(bucket +
                " # {trace_id=\"4bf92f3577b34da6a3ce929d0e0e4736\",span_id=\"0000000000000007\"} 0.00015 ") !=
      text.npos);
  CHECK(has_line(text, "troupe_stage_seconds_bucket{stage=\"queue\",le=\"5\"} 2"));
  CHECK(has_line(plain, bucket));
  CHECK(plain.find('#', plain.find(bucket)) == plain.find("# HELP", plain.find(bucket)));
}
