// Reads golden scores and compares them with computed ones.
#include "deploy/verify/golden_file.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "deploy/data/json_row.h"
#include "deploy/data/text_file.h"
#include "kernels/base/check.h"

namespace troupe::deploy {
namespace {

using nlohmann::json;

constexpr const char* expected_line =
    "{\"user\" or \"history\", \"candidates\", \"scores\"} or {\"tokens\", \"logits\"}";

// Returns an id, which may be written as a text or a whole number.
std::string golden_id(const TextFile& file, const json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_integer()) return value.dump();
  file.fail("an id is " + value.dump().substr(0, 60), "a text or a whole number");
}

std::vector<std::string> golden_ids(const TextFile& file, const json& list) {
  std::vector<std::string> ids;
  for (const json& value : list.get_ref<const json::array_t&>()) ids.push_back(golden_id(file, value));
  return ids;
}

// Returns a whole number from `least` to `most`; nothing is rounded or wrapped.
std::int64_t golden_number(const TextFile& file, const json& value, const std::string& name,
                           std::int64_t least, std::int64_t most) {
  const bool fits = value.is_number_unsigned()
                        ? value.get<std::uint64_t>() <= static_cast<std::uint64_t>(most) &&
                              (least <= 0 || value.get<std::uint64_t>() >= static_cast<std::uint64_t>(least))
                        : value.is_number_integer() && value.get<std::int64_t>() >= least &&
                              value.get<std::int64_t>() <= most;
  if (!fits)
    file.fail(name + " has " + value.dump().substr(0, 60),
              "whole numbers from " + std::to_string(least) + " to " + std::to_string(most));
  return value.get<std::int64_t>();
}

std::vector<Token> golden_tokens(const TextFile& file, const json& line, const char* name) {
  std::vector<Token> tokens;
  for (const json& value : line.at(name).get_ref<const json::array_t&>())
    tokens.push_back(
        static_cast<Token>(golden_number(file, value, name, 0, std::numeric_limits<Token>::max())));
  return tokens;
}

double golden_score(const TextFile& file, const json& value) {
  if (!value.is_number()) file.fail("a score is " + value.dump().substr(0, 60), "a number");
  return value.get<double>();
}

// Reads one number per candidate, or one list of numbers per candidate, of as many tasks.
std::vector<double> golden_scores(const TextFile& file, const json& list, std::size_t tasks) {
  std::vector<double> scores;
  for (const json& entry : list.get_ref<const json::array_t&>()) {
    std::vector<double> own;
    if (entry.is_array())
      for (const json& score : entry) own.push_back(golden_score(file, score));
    else
      own.push_back(golden_score(file, entry));
    if (own.size() != tasks)
      file.fail("an entry of scores has " + std::to_string(own.size()) + " numbers",
                std::to_string(tasks) + ", one for each task of the model");
    scores.insert(scores.end(), own.begin(), own.end());
  }
  return scores;
}

void check_golden_keys(const TextFile& file, const json& line, const std::set<std::string>& known) {
  for (const auto& [key, value] : line.items())
    if (!known.contains(key)) {
      std::string names;
      for (const std::string& name : known) names += (names.empty() ? "" : ", ") + name;
      file.fail("unknown member " + key.substr(0, 60), names);
    }
}

void require_members(const TextFile& file, const json& line, std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (!line.contains(name)) file.fail(std::string(name) + " is missing", expected_line);
}

void read_prompt(const TextFile& file, const json& line, GoldenLine& golden) {
  check_golden_keys(file, line, {"tokens", "read_at", "rows", "logits", "arrangement"});
  require_members(file, line, {"logits"});
  golden.tokens = golden_tokens(file, line, "tokens");
  if (golden.tokens.empty()) file.fail("tokens is empty", "at least one token");
  golden.read_at = golden.tokens.size() - 1;
  if (line.contains("read_at"))
    golden.read_at = static_cast<std::size_t>(
        golden_number(file, line["read_at"], "read_at", 0, static_cast<std::int64_t>(golden.read_at)));
  if (line.contains("rows")) golden.rows = golden_tokens(file, line, "rows");
  golden.scores = golden_scores(file, line.at("logits"), 1);
  if (!golden.rows.empty() && golden.scores.size() != golden.rows.size())
    file.fail("logits has " + std::to_string(golden.scores.size()) + " numbers",
              std::to_string(golden.rows.size()) + ", as many as rows");
  if (golden.arrangement != Arrangement::unnamed && golden.arrangement != Arrangement::causal)
    file.fail("arrangement is " + std::string(word_of(golden.arrangement)),
              "causal, because tokens are a plain causal prompt");
}

void read_golden_request(const TextFile& file, const json& line, std::span<const std::string> features,
                         std::size_t tasks, GoldenLine& golden) {
  std::set<std::string> known{"user",        "history",           "candidates", "scores",
                              "arrangement", "request_timestamp", "scenario"};
  known.insert(features.begin(), features.end());
  check_golden_keys(file, line, known);
  if (line.contains("user") == line.contains("history"))
    file.fail(line.contains("user") ? "both user and history are given" : "user and history are missing",
              expected_line);
  require_members(file, line, {"candidates", "scores"});
  if (line.contains("user")) golden.user = golden_id(file, line["user"]);
  if (line.contains("history")) golden.history = golden_ids(file, line["history"]);
  for (const std::string& feature : features)
    if (line.contains(feature)) {
      std::vector<std::int64_t>& values = golden.features.emplace_back(Feature{feature, {}}).values;
      for (const json& value : line[feature].get_ref<const json::array_t&>())
        values.push_back(golden_number(file, value, feature, INT64_MIN, INT64_MAX));
    }
  golden.candidates = golden_ids(file, line.at("candidates"));
  if (golden.candidates.empty()) file.fail("candidates is empty", "at least one item id");
  for (auto [name, number] :
       {std::pair("request_timestamp", &golden.request_timestamp), std::pair("scenario", &golden.scenario)})
    if (line.contains(name)) *number = golden_number(file, line[name], name, INT64_MIN, INT64_MAX);
  golden.scores = golden_scores(file, line.at("scores"), tasks);
  if (golden.scores.size() != golden.candidates.size() * tasks)
    file.fail("scores has " + std::to_string(golden.scores.size() / tasks) + " entries",
              std::to_string(golden.candidates.size()) + ", as many as candidates");
}

}  // namespace

std::string GoldenLine::name_of(std::size_t score) const {
  if (is_tokens()) return "row " + std::to_string(rows.empty() ? static_cast<Token>(score) : rows.at(score));
  const std::size_t tasks = scores.size() / candidates.size();
  const std::string name = "candidate " + candidates.at(score / tasks);
  return tasks == 1 ? name : name + ", task " + std::to_string(score % tasks);
}

std::vector<GoldenLine> read_golden(const std::filesystem::path& path, std::span<const std::string> features,
                                    std::size_t tasks) {
  TextFile file(path);
  std::vector<GoldenLine> lines;
  std::string text;
  while (file.next(text)) {
    if (text.empty()) continue;
    try {
      const json line = parse_row(file, text);
      if (!line.is_object()) file.fail("the line is not an object", expected_line);
      GoldenLine& golden = lines.emplace_back();
      golden.where = path.filename().string() + ":" + std::to_string(file.line_number());
      if (const auto wrong = read_word(line.value("arrangement", ""), golden.arrangement))
        file.fail(wrong->what, wrong->expected);
      if (line.contains("tokens"))
        read_prompt(file, line, golden);
      else
        read_golden_request(file, line, features, tasks, golden);
    } catch (const json::exception& error) {
      fail_row(file, error, expected_line);
    }
  }
  if (lines.empty())
    throw ImportError(path.string() + ": has no lines; expected golden scores, one JSON object a line");
  return lines;
}

GoldenDifference compare(std::span<const double> expected, std::span<const float> computed, double relative) {
  TROUPE_CHECK(expected.size() == computed.size(), "as many computed scores as expected ones");
  double scale = 1;
  for (const double score : expected) scale = std::max(scale, std::abs(score));
  GoldenDifference difference{.bound = relative * scale};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    double own = std::abs(static_cast<double>(computed[i]) - expected[i]);
    if (!std::isfinite(own)) own = std::numeric_limits<double>::infinity();
    difference.largest = std::max(difference.largest, own);
    if (own > difference.bound && !difference.beyond) difference.beyond = i;
  }
  return difference;
}

}  // namespace troupe::deploy
