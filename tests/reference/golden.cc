#include "tests/reference/golden.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace troupe::reference {
namespace {

using kernels::Plan;
using kernels::SegmentKind;
using kernels::Token;
using nlohmann::json;

constexpr Token kFirstGoldenRow = 4, kFirstIdentifier = 1044;

json read(const std::filesystem::path& file) {
  std::ifstream in(file);
  if (!in) throw std::runtime_error(file.string() + ": cannot be read; expected a golden file");
  return json::parse(in);
}

SegmentKind kind(const std::string& name) {
  if (name == "system") return SegmentKind::system;
  if (name == "user") return SegmentKind::user;
  if (name == "item") return SegmentKind::item;
  return name.starts_with("instr") ? SegmentKind::instruction : SegmentKind::discriminant;
}

// The rows of the candidates: named outright, or by the items' numbers.
std::vector<Token> identifier_rows(const json& request) {
  if (request.contains("identifiers")) return request.at("identifiers");
  std::vector<Token> rows = request.at("candidates");
  for (Token& row : rows) row += kFirstIdentifier;
  return rows;
}

Plan ranker_plan(const json& segments, const std::vector<Token>& rows) {
  Plan plan;
  for (const json& segment : segments)
    plan.segments.push_back(
        {kind(segment.at("kind")), segment.at("tokens").get<std::vector<Token>>(), segment.at("start"),
         kernels::Sees(segment.at("sees").get<std::vector<std::uint32_t>>())});
  kernels::Readout readout;
  readout.segment = static_cast<std::uint32_t>(plan.segments.size() - 1);
  readout.offset = static_cast<std::uint32_t>(plan.segments.back().tokens.size() - 1);
  readout.rows = rows;
  plan.readouts.push_back(readout);
  return plan;
}

Plan generator_plan(const std::vector<Token>& prompt, std::uint32_t vocabulary) {
  Plan plan;
  plan.segments.push_back({SegmentKind::user, prompt, 0, {}});
  plan.readouts.push_back({0, static_cast<std::uint32_t>(prompt.size() - 1), {}});
  for (Token i = 0; i < static_cast<Token>(vocabulary); ++i)
    plan.readouts[0].rows.push_back((i + kFirstGoldenRow) % static_cast<Token>(vocabulary));
  return plan;
}

}  // namespace

GoldenModel golden_model(const std::string& name) {
  const std::filesystem::path root = TROUPE_ROOT_DIR;
  if (name == "demo") return {root / "deploy/demo/model", root / "deploy/demo/golden.json"};
  const std::filesystem::path folder = root / "../shared/models" / name;
  if (!std::filesystem::exists(folder / "golden.json")) return {};
  return {folder, folder / "golden.json"};
}

std::vector<GoldenCase> generator_cases(const std::filesystem::path& golden, std::uint32_t vocabulary) {
  std::vector<GoldenCase> cases;
  const json document = read(golden);
  for (const json& one : document.at("cases"))
    cases.push_back({"case " + std::to_string(cases.size()), generator_plan(one.at("prompt"), vocabulary),
                     one.at("last_logits_first16"), one.at("logsumexp")});
  return cases;
}

std::vector<GoldenCase> ranker_cases(const std::filesystem::path& golden) {
  std::vector<GoldenCase> cases;
  const json document = read(golden);
  for (const json& request : document.at("requests"))
    for (const auto& [name, table] : request.at("plans").items())
      cases.push_back({name + " of user " + request.at(request.contains("user") ? "user" : "user_id").dump(),
                       ranker_plan(table.at("segments"), identifier_rows(request)), table.at("logits"), 0});
  return cases;
}

}  // namespace troupe::reference
