// Checks that dashboard and alerts use existing metrics.
#include <doctest/doctest.h>

#include <cctype>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>

#include "runtime/actor/metrics.h"

using namespace troupe;

namespace {

std::string text_of(const std::string& file) {
  std::ifstream in(TROUPE_ROOT_DIR "/deploy/monitoring/" + file);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::set<std::string> metrics_in(const std::string& text) {
  std::set<std::string> found;
  for (const std::string prefix : {"troupe_", "process_"})
    for (std::size_t at = text.find(prefix); at != text.npos; at = text.find(prefix, at + 1)) {
      if (at > 0 && (std::isalnum(static_cast<unsigned char>(text[at - 1])) || text[at - 1] == '_')) continue;
      std::size_t end = at;
      while (std::isalnum(static_cast<unsigned char>(text[end])) || text[end] == '_') ++end;
      found.insert(text.substr(at, end - at));
    }
  return found;
}

bool is_metric(std::string name) {
  for (const std::string suffix : {"", "_bucket", "_sum", "_count"}) {
    if (!name.ends_with(suffix)) continue;
    const std::string base = name.substr(0, name.size() - suffix.size());
    for (const MetricRow& row : metric_table())
      if (row.name == base && (suffix.empty() || row.kind == MetricKind::histogram)) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("monitoring: dashboard and alerts use existing metrics") {
  for (const char* file : {"dashboard.json", "alerts.yaml"}) {
    const auto names = metrics_in(text_of(file));
    CHECK(names.size() > 10);
    for (const std::string& name : names) CHECK_MESSAGE(is_metric(name), file << ": " << name);
  }
  CHECK_FALSE(is_metric("troupe_no_such"));
  CHECK_FALSE(is_metric("troupe_tokens_total_bucket"));
  CHECK(nlohmann::json::parse(text_of("dashboard.json"))["panels"].size() > 20);
}
