// Writes and reads the JSON of `troupe-lab bench rank --json`, so that later commands can compare runs
// with it.
#include "deploy/lab/bench/bench_result.h"

#include <nlohmann/json.hpp>

#include "deploy/data/text_file.h"
#include "runtime/config/whole_file.h"
#include "runtime/wire/json_bounds.h"

namespace troupe::deploy {

namespace {

using Json = nlohmann::json;

constexpr std::size_t file_bytes_max = 4 << 20;
constexpr JsonBounds bounds{.values_max = 200'000, .depth_max = 8};
constexpr const char* expected_file = "a result of troupe-lab bench rank --json";

struct Count {
  const char* name;
  std::uint64_t BenchRankRun::*member;
};
constexpr Count counts[] = {{"requests", &BenchRankRun::requests},
                            {"errors", &BenchRankRun::errors},
                            {"users", &BenchRankRun::users},
                            {"tokens_total", &BenchRankRun::tokens_total},
                            {"tokens_computed", &BenchRankRun::tokens_computed},
                            {"tokens_reused", &BenchRankRun::tokens_reused},
                            {"plans_user", &BenchRankRun::plans_user},
                            {"plans_item", &BenchRankRun::plans_item},
                            {"judged", &BenchRankRun::judged},
                            {"user_blocks_hit", &BenchRankRun::user_blocks_hit},
                            {"user_blocks_computed", &BenchRankRun::user_blocks_computed},
                            {"item_blocks_hit", &BenchRankRun::item_blocks_hit},
                            {"item_blocks_computed", &BenchRankRun::item_blocks_computed}};
struct Number {
  const char* name;
  double BenchRankRun::*member;
};
constexpr Number numbers[] = {{"seconds", &BenchRankRun::seconds},
                              {"qps", &BenchRankRun::qps},
                              {"p50_ms", &BenchRankRun::p50_ms},
                              {"p99_ms", &BenchRankRun::p99_ms},
                              {"cpu_seconds", &BenchRankRun::cpu_seconds},
                              {"prediction_p10", &BenchRankRun::prediction_p10},
                              {"prediction_p50", &BenchRankRun::prediction_p50},
                              {"prediction_p90", &BenchRankRun::prediction_p90},
                              {"hit_rate", &BenchRankRun::hit_rate},
                              {"recall_at_10", &BenchRankRun::recall_at_10},
                              {"ndcg_at_10", &BenchRankRun::ndcg_at_10}};

Json run_json(const BenchRankRun& run) {
  Json json{{"policy", run.policy}, {"hit_rate_by_tenth", run.tenths}};
  for (const Count& count : counts) json[count.name] = run.*count.member;
  for (const Number& number : numbers) json[number.name] = run.*number.member;
  for (const CpuShare& share : run.profile) json["profile"][share.component] = share.seconds;
  return json;
}

class ResultReader {
 public:
  ResultReader(const Json& json, std::string where) : json_(json), where_(std::move(where)) {
    if (!json_.is_object()) fail("", std::string("an object: ") + expected_file);
  }

  void read(const char* name, double& to) const {
    const Json* value = find(name);
    if (!value) return;
    if (!value->is_number() || !(value->get<double>() >= 0 && value->get<double>() < 1e18))
      fail(name, "a number, 0 or more");
    to = value->get<double>();
  }
  template <class Whole>
  void read_count(const char* name, Whole& to, double most) const {
    double value = static_cast<double>(to);
    read(name, value);
    if (value > most) fail(name, "at most " + Json(most).dump());
    to = static_cast<Whole>(value);
  }
  void read(const char* name, std::string& to) const {
    const Json* value = find(name);
    if (!value) return;
    if (!value->is_string()) fail(name, "a text");
    to = value->get<std::string>();
  }
  const Json* list(const char* name) const {
    const Json* value = find(name);
    if (value && !value->is_array()) fail(name, "a list");
    return value;
  }
  const Json* find(const char* name) const {
    const auto at = json_.find(name);
    return at == json_.end() || at->is_null() ? nullptr : &*at;
  }
  [[noreturn]] void fail(const std::string& name, const std::string& expected) const {
    throw ImportError(where_ + (name.empty() ? "" : ": " + name) + ": expected " + expected);
  }

 private:
  const Json& json_;
  const std::string where_;
};

BenchRankRun read_run(const Json& json, const std::string& where) {
  const ResultReader reader(json, where);
  BenchRankRun run;
  reader.read("policy", run.policy);
  for (const Count& count : counts) reader.read_count(count.name, run.*count.member, 1e15);
  for (const Number& number : numbers) reader.read(number.name, run.*number.member);
  if (run.policy.empty() || run.requests == 0) reader.fail("", "a run with a policy and requests");
  const Json* profile = reader.find("profile");
  if (profile && !profile->is_object()) reader.fail("profile", "seconds by component");
  if (profile)
    for (const auto& [component, seconds] : profile->items()) {
      if (!seconds.is_number()) reader.fail("profile." + component.substr(0, 40), "seconds");
      run.profile.push_back({component, seconds.get<double>()});
    }
  return run;
}

std::string text_of(const std::filesystem::path& file) {
  try {
    return read_whole_file(file.string(), file_bytes_max, expected_file);
  } catch (const FileError& error) {
    throw ImportError(error.what());
  }
}

}  // namespace

Json to_json(const BenchResult& result) {
  Json json{{"runs", Json::array()},
            {"model", result.model},
            {"data", result.data},
            {"settings", result.settings},
            {"requests", result.requests_max},
            {"pool_bytes", result.pool_bytes},
            {"item_bytes", result.item_bytes},
            {"user_bytes", result.user_bytes},
            {"in_flight", result.in_flight},
            {"trace", result.trace},
            {"speed", result.speed}};
  for (const BenchRankRun& run : result.runs) json["runs"].push_back(run_json(run));
  return json;
}

BenchResult read_bench_result(const std::filesystem::path& file) {
  const std::string text = text_of(file), where = file.string();
  if (const std::string excess = exceeded_bound(text, bounds); !excess.empty())
    throw ImportError(where + ": has " + excess + "; expected " + expected_file);
  const Json json = Json::parse(text, nullptr, false);
  const ResultReader reader(json, where);
  BenchResult result;
  for (auto [name, to] :
       {std::pair("model", &result.model), {"data", &result.data}, {"trace", &result.trace}})
    reader.read(name, *to);
  if (const Json* settings = reader.list("settings"))
    for (const Json& setting : *settings) {
      if (!setting.is_string()) reader.fail("settings", "texts, name=value");
      result.settings.push_back(setting.get<std::string>());
    }
  reader.read_count("requests", result.requests_max, 1e8);
  reader.read_count("in_flight", result.in_flight, 1e5);
  reader.read("speed", result.speed);
  for (auto [name, to] : {std::pair("pool_bytes", &result.pool_bytes),
                          {"item_bytes", &result.item_bytes},
                          {"user_bytes", &result.user_bytes}})
    reader.read_count(name, *to, 1e15);
  const Json* runs = reader.list("runs");
  if (!runs || runs->empty()) reader.fail("runs", "at least one run");
  for (std::size_t i = 0; i < runs->size(); ++i)
    result.runs.push_back(read_run((*runs)[i], where + ": runs[" + std::to_string(i) + "]"));
  return result;
}

}  // namespace troupe::deploy
