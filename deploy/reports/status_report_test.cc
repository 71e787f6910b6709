#include "deploy/reports/status_report.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <sstream>
#include <string>

namespace troupe::deploy {
namespace status_report_test {

using nlohmann::json;

json actor(int node, const std::string& role, const std::vector<std::pair<std::string, std::string>>& fields,
           bool ready = true) {
  json document{{"node", node}, {"role", role}, {"ready", ready}, {"fields", json::array()}};
  for (const auto& [name, value] : fields) document["fields"].push_back({{"name", name}, {"value", value}});
  return document;
}

json router(int node, std::vector<std::pair<std::string, std::string>> more = {}) {
  std::vector<std::pair<std::string, std::string>> fields{{"model_version", "0123456789abcdef"},
                                                          {"model_serves", "rank, score"},
                                                          {"catalog_version", "c7"},
                                                          {"next_model", ""},
                                                          {"versions_epoch", "4"},
                                                          {"requests_answered", "1483"},
                                                          {"requests_in_flight", "3"},
                                                          {"precompute", "done"},
                                                          {"placement", "hash"}};
  fields.insert(fields.end(), more.begin(), more.end());
  return actor(node, "router", fields);
}

json cluster() {
  return {{"actors",
           {router(1, {{"worker", "2: alive, heard 4 ms ago"}, {"worker", "3: alive, heard 9 ms ago"}}),
            actor(1, "cache_meta", {{"leader", "yes"}}),
            actor(2, "inference_worker", {{"lanes", "2"}, {"lanes_busy", "1"}, {"plans_waiting", "5"}}),
            actor(2, "kv_worker",
                  {{"item_pages", "100"},
                   {"item_pages_used", "25"},
                   {"item_hits", "3"},
                   {"item_misses", "1"},
                   {"user_pages", "100"},
                   {"user_pages_used", "25"}}),
            actor(3, "inference_worker", {{"lanes", "2"}, {"lanes_busy", "0"}})}},
          {"names", {{"1", "front"}, {"2", "worker-1"}, {"3", "worker-2"}}},
          {"silent", json::array()}};
}

std::string summary(const json& cluster) {
  std::ostringstream out;
  print_status_summary(cluster, out);
  return out.str();
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST_CASE("status: a small healthy cluster takes ten lines at most, with nodes by their names") {
  const std::string text = summary(cluster());
  CAPTURE(text);
  CHECK(std::ranges::count(text, '\n') <= 10);
  CHECK(text.starts_with("3 of 3 nodes are ready, 0 warnings\n"));
  CHECK(has(text, "model 0123456789a… (rank, score), catalog c7; precompute done, placement hash\n"));
  CHECK(has(text, "requests: 1483 answered, 0 refused, 3 in flight, 0 waiting; 0 plans sent again\n"));
  CHECK(has(text, "front     router, cache_meta (leads)  yes    3 in flight"));
  CHECK(has(text, "worker-1  worker                      yes    1 of 2 executors busy, 5 waiting"));
  CHECK(has(text, "75.0 %"));  // item hits
  CHECK(has(text, "25.0 %"));  // pages used
}

TEST_CASE("status: versions of a model have the names of their directories before them") {
  json named = cluster();
  named["actors"][0] = router(
      1, {{"model_version_name", "spring"}, {"next_model_name", "summer, stable"}, {"next_share", "0.1"}});
  named["actors"][0]["fields"][3]["value"] = "fedcba9876543210";  // next_model
  CHECK(has(summary(named),
            "model spring 0123456789a… (rank, score), catalog c7, next summer, stable "
            "fedcba98765… for 0.1 of the users; precompute"));
}

TEST_CASE("status: what is wrong is a warning that names the node") {
  json sick = cluster();
  sick["actors"][0] = router(1, {{"worker", "2: lost, heard 900 ms ago"},
                                 {"worker", "3: slow, heard 9 ms ago"},
                                 {"leaving_workers", "3"},
                                 {"handed_on", "no"},
                                 {"item_blocks_to_copy", "37"},
                                 {"items_looked_up", "512"},
                                 {"awaited_workers", "2 9"}});
  sick["silent"].push_back({{"node", 2}, {"role", "kv_worker"}});
  sick["actors"].push_back(actor(3, "kv_worker", {{"not_ready", "it loads blocks"}}, false));
  const std::string text = summary(sick);
  CAPTURE(text);
  CHECK(text.starts_with("1 of 3 nodes are ready, 5 warnings\n"));
  for (const char* warning :
       {"! worker-1 does not answer (kv_worker)\n", "! worker-1 is lost for front\n",
        "! worker-2 is slow for front\n", "! worker-2 is not ready (kv_worker): it loads blocks\n",
        "! worker-2 leaves: front has 37 item blocks to copy, 512 items looked up, awaits worker-1, 9\n"})
    CHECK(has(text, warning));
}

TEST_CASE("status: each reason for which an actor is degraded is a warning, once") {
  json sick = cluster();
  const std::string filling = "the disk of /data fills",
                    failed = "blocks are not saved, since the disk failed";
  sick["actors"].push_back(actor(
      3, "kv_worker", {{"store", "resting after a failure"}, {"degraded", failed}, {"degraded", filling}}));
  const std::string text = summary(sick);
  CAPTURE(text);
  CHECK(text.starts_with("3 of 3 nodes are ready, 2 warnings\n"));
  CHECK(has(text, "! worker-2: " + filling + "\n"));
  CHECK(has(text, "! worker-2: " + failed + "\n"));
}

TEST_CASE("status: control characters of names and reasons do not reach the terminal") {
  json sick = cluster();
  sick["actors"][0] = router(1, {{"degraded", "catalog \x1b[2J"}});
  sick["actors"][0]["fields"][2]["value"] = "c\x1b]0;x";  // catalog_version
  const std::string text = summary(sick);
  CAPTURE(text);
  CHECK(has(text, "! front: catalog \\u001b[2J\n"));
  CHECK(has(text, "catalog c\\u001b]0;x; precompute"));
  CHECK_FALSE(has(text, "\x1b"));
}

TEST_CASE("status: routers that disagree are told apart") {
  json two = cluster();
  two["actors"].push_back(router(4, {}));
  two["actors"].back()["fields"][4]["value"] = "5";        // versions_epoch
  two["actors"].back()["fields"][7]["value"] = "running";  // precompute
  const std::string text = summary(two);
  CAPTURE(text);
  CHECK(has(text, "precompute done (front), running (4), placement hash"));
  CHECK(has(text, "! the routers follow different versions"));
  CHECK(has(text, "requests: 2966 answered"));
}

TEST_CASE("status: of many nodes those with a problem come first, and the rest is counted") {
  json many;
  for (int node = 1; node <= 40; ++node)
    many["actors"].push_back(actor(node, "inference_worker", {{"lanes", "1"}}, node != 33));
  const std::string text = summary(many);
  CAPTURE(text);
  CHECK(text.starts_with("39 of 40 nodes are ready, 1 warning\n"));
  CHECK(has(text, "\n33    worker"));
  CHECK(has(text, "and 28 more nodes (--all)\n"));
}

TEST_CASE("status: the long form has every field, and nodes by their names") {
  std::ostringstream out;
  print_status_fields(cluster(), out);
  const std::string text = out.str();
  CHECK(has(text, "worker-1  inference_worker  yes    lanes"));
  CHECK(has(text, "model_version"));
  CHECK_FALSE(has(text, "Time saved"));
}

}  // namespace status_report_test
}  // namespace troupe::deploy
