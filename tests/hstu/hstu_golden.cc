#include "tests/hstu/hstu_golden.h"

#include <fstream>
#include <nlohmann/json.hpp>

namespace troupe::hstu {
namespace {

nlohmann::json read(const std::filesystem::path& file) { return nlohmann::json::parse(std::ifstream(file)); }

}  // namespace

std::optional<std::filesystem::path> shared_model(const std::string& name) {
  const std::filesystem::path folder = std::filesystem::path(TROUPE_ROOT_DIR) / "../shared/models" / name;
  if (!std::filesystem::exists(folder / "golden.json")) return std::nullopt;
  return folder;
}

std::vector<GoldenCase> golden_cases(const std::filesystem::path& file) {
  std::vector<GoldenCase> cases;
  const nlohmann::json document = read(file);
  for (const nlohmann::json& one : document.at("cases"))
    cases.push_back(
        {{one.at("item_ids"), one.at("timestamps"), one.at("request_timestamp"), one.at("candidate_ids")},
         one.at("next_item_logits"),
         one.at("target_aware").at("task_logits"),
         one.at("last_state_first8")});
  return cases;
}

std::vector<GoldenCase> golden_stu_cases(const std::filesystem::path& folder) {
  const std::vector<GoldenCase> inputs = golden_cases(folder / "golden.json");
  std::vector<GoldenCase> cases;
  const nlohmann::json document = read(folder / "golden-stu.json");
  for (const nlohmann::json& one : document.at("cases")) {
    GoldenCase& added = cases.emplace_back(inputs.at(one.at("inputs_of_case")));
    added.next_items.clear();
    added.tasks = one.at("task_logits").get<std::vector<double>>();
    added.state_first8 = one.at("last_state_first8").get<std::vector<double>>();
    added.context_tokens = one.at("contextual_sequence_length");
    added.window = one.at("max_attention_length");
  }
  return cases;
}

}  // namespace troupe::hstu
