#include "runtime/actor/metrics.h"

#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <random>
#include <set>
#include <sstream>
#include <thread>
#include <vector>

#include "runtime/actor/utf8.h"

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

TEST_CASE("metrics: names of tenants that nobody answered take no samples from tenants that are served") {
  MetricRegistry registry;
  registry.record(Metric::tenant_requests, 0, "listed");
  for (std::size_t i = 0; i < 10 * label_values_max; ++i)
    registry.record(Metric::tenant_refused, 1, "invented " + std::to_string(i));
  CHECK(registry.value(Metric::tenant_refused, "(others)") == 10 * label_values_max);
  registry.record(Metric::tenant_refused, 1, "listed");
  CHECK(registry.value(Metric::tenant_refused, "listed") == 1);
  registry.record(Metric::tenant_answered, 1, "served");
  registry.record(Metric::tenant_refused, 2, "served");
  CHECK(registry.value(Metric::tenant_refused, "served") == 2);
}

TEST_CASE("metrics: tenants that are answered lately have samples, and the sum over all never falls") {
  MetricRegistry registry;
  for (std::size_t i = 0; i < 10 * label_values_max; ++i) {
    registry.record(Metric::tenant_answered, 1, "busy");
    registry.record(Metric::tenant_answered, 1, "once " + std::to_string(i));
    CHECK(registry.value(Metric::tenant_answered) == 2 * (i + 1));
  }
  CHECK(registry.value(Metric::tenant_answered, "busy") == 10 * label_values_max);
  CHECK(registry.value(Metric::tenant_answered, "once " + std::to_string(10 * label_values_max - 1)) == 1);
  CHECK(registry.value(Metric::tenant_answered, "once 0") == 0);
  registry.record(Metric::tenant_answered, 1, "");
  const std::string text = registry.render();
  std::size_t samples = 0;
  for (std::size_t at = 0; (at = text.find("\ntroupe_tenant_answered_total{", at)) != text.npos; ++at)
    ++samples;
  CHECK(samples == label_values_max);
}

// Checks what a Prometheus scraper checks of a sample line: "name{label=\"value\",…} number", valid
// UTF-8, and only the escapes \\ \" \n.
bool is_sample(std::string_view line) {
  for (std::string_view rest = line; !rest.empty();) {
    const std::size_t length = utf8_length(rest);
    if (length == 0 || is_control(rest.substr(0, length))) return false;
    rest.remove_prefix(length);
  }
  std::size_t at = line.find_first_of("{ ");
  if (at == 0 || at == line.npos) return false;
  if (line[at] == '{') {
    for (++at; at < line.size() && line[at] != '}';) {
      at = line.find("=\"", at);
      if (at == line.npos) return false;
      for (at += 2; at < line.size() && line[at] != '"'; ++at)
        if (line[at] == '\\' &&
            (++at == line.size() || std::string_view("\\\"n").find(line[at]) == line.npos))
          return false;
      if (at++ >= line.size()) return false;
      if (at < line.size() && line[at] == ',') ++at;
    }
    if (++at >= line.size()) return false;
  }
  std::string_view number = line.substr(at + 1);
  number = number.substr(0, number.find(' '));
  return line[at] == ' ' && !number.empty() && number.find_first_not_of("0123456789.e+-InfNa") == number.npos;
}

TEST_CASE("metrics: whatever bytes label values have, each line is a sample in valid UTF-8") {
  const unsigned seed = 13;
  CAPTURE(seed);
  std::mt19937 random(seed);
  for (int run = 0; run < 100; ++run) {
    MetricRegistry registry;
    for (int i = 0; i < 40; ++i) {
      std::string value(random() % 12, '\0');
      for (char& c : value)
        c = static_cast<char>(random() % 2 == 0 ? random() : "\\\"\n\t}{, \xc3\xa9"[random() % 10]);
      registry.record(Metric::tenant_answered, 1, value);
      registry.record(Metric::http_refused, 1, value);
      registry.record(Metric::http_responses, 1, value + "\t" + value);
    }
    for (const MetricForm form : {MetricForm::prometheus, MetricForm::openmetrics}) {
      std::istringstream lines(registry.render(form));
      for (std::string line; std::getline(lines, line);) {
        if (line.starts_with("# ")) continue;
        CAPTURE(line);
        REQUIRE(is_sample(line));
      }
    }
  }
}

TEST_CASE("metrics: a metric by tenant has a sample for each of the first tenants and one for all others") {
  MetricRegistry registry;
  for (const char* tenant : {"a\"b", ""}) registry.record(Metric::tenant_answered, 1, tenant);
  registry.record(Metric::tenant_requests, 2, "a\"b");
  registry.record(Metric::tenant_requests, 3, "a\"b");
  registry.record(Metric::tenant_waiting, 5, "");
  registry.record(Metric::tenant_waiting, 4, "");
  CHECK(registry.value(Metric::tenant_requests, "a\"b") == 5);
  CHECK(has_line(registry.render(), "troupe_tenant_requests_total{tenant=\"a\\\"b\"} 5"));
  CHECK(has_line(registry.render(), "troupe_tenant_waiting{tenant=\"\"} 4"));
  for (std::size_t i = 0; i < 10 * label_values_max; ++i)
    registry.record(Metric::http_refused, 1, "code " + std::to_string(i));
  const std::string text = registry.render();
  std::size_t samples = 0;
  for (std::size_t at = 0; (at = text.find("\ntroupe_http_refused_total{", at)) != text.npos; ++at) ++samples;
  CHECK(samples == label_values_max);
  CHECK(registry.value(Metric::http_refused, "(others)") == 10 * label_values_max - (label_values_max - 1));
}

TEST_CASE("metrics: line breaks and bytes that are no UTF-8 in a tenant's name are replaced") {
  MetricRegistry registry;
  registry.record(Metric::tenant_answered, 1, "caf\xe9 caf\xc3\xa9");
  CHECK(
      has_line(registry.render(), "troupe_tenant_answered_total{tenant=\"caf\xef\xbf\xbd caf\xc3\xa9\"} 1"));
  registry.record(Metric::tenant_requests, 0, "a\nb\\c");
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
