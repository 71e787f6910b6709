#include "runtime/host/model_metrics.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace troupe;

namespace {

std::size_t times(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != text.npos; at += part.size()) ++count;
  return count;
}

}  // namespace

TEST_CASE("model metrics: each metric of several models is described once, with a sample per model") {
  MetricRegistry node, games, news;
  node.record(Metric::http_requests, 9);
  for (MetricRegistry* registry : {&node, &news}) registry->record(Metric::tenant_requests, 0, "ads");
  node.record(Metric::tenant_refused, 1, "ads");
  games.record(Metric::requests_rank, 3);
  games.record(Metric::request_seconds, 0.002);
  news.record(Metric::requests_generate, 4);
  news.record(Metric::tenant_requests, 2, "ads");
  const ModelMetrics models[] = {{"games", &games}, {"news", &news}};
  const std::string text = "\n" + render(node, models);
  for (const std::string& line : std::vector<std::string>{
           "troupe_http_requests_total 9", "troupe_requests_total{model=\"games\",kind=\"rank\"} 3",
           "troupe_requests_total{model=\"news\",kind=\"generate\"} 4",
           "troupe_requests_total{model=\"news\",kind=\"rank\"} 0",
           "troupe_request_seconds_count{model=\"games\"} 1",
           "troupe_tenant_requests_total{model=\"news\",tenant=\"ads\"} 2",
           "troupe_tenant_refused_total{tenant=\"ads\"} 1"}) {
    CAPTURE(line);
    CHECK(times(text, "\n" + line + "\n") == 1);
  }
  for (const MetricRow& row : metric_table())
    CHECK(times(text, "# TYPE " + std::string(row.name) + " ") == 1);
  // The node's own samples of model metrics would be counted twice; and models have no pool of
  // their own.
  CHECK(times(text, "\ntroupe_requests_total{kind=") == 0);
  CHECK(times(text, "troupe_pages{model=") == 0);
  CHECK(times(text, "troupe_http_requests_total{") == 0);
}

TEST_CASE("model metrics: without named models the text is that of the node's registry") {
  MetricRegistry node;
  node.record(Metric::requests_rank, 3);
  CHECK(render(node, {}) == node.render());
}
