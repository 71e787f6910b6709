#include "tests/reference/golden.h"

#include <algorithm>
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

// Returns the rows of the candidates: named explicitly, or by the items' numbers.
std::vector<Token> identifier_rows(const json& request) {
  if (request.contains("identifiers")) return request.at("identifiers");
  std::vector<Token> rows = request.at("candidates");
  for (Token& row : rows) row += kFirstIdentifier;
  return rows;
}

Plan ranker_plan(const json& segments, const std::vector<Token>& rows) {
  Plan plan;
  for (const json& segment : segments)
    plan.segments.push_back({kind(segment.at("kind")), segment.at("tokens").get<std::vector<Token>>(),
                             segment.at("start"),
                             kernels::VisibleSegments(segment.at("sees").get<std::vector<std::uint32_t>>())});
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

namespace {

constexpr std::size_t kInstruction = 8;
constexpr Token kYes = 7, kNo = 8;

// Builds a plan of the instruction, the reused blocks (each after the instruction, alone), then the
// prompt: spans that reuse blocks, blocks that are not reused, and the candidates' <score> tokens, each
// read.
struct TitlesPlan {
  TitlesPlan(const json& request, const std::string& reused) {
    const std::vector<Token> tokens = request.at("tokens");
    add(tokens, 0, kInstruction, 0);
    for (const json& block : request.at("blocks"))
      if (is_reused(block, reused)) {
        add(tokens, block.at(2), block.at(3), kInstruction);
        plan.segments.back().sees = {0};
      }
    const std::uint32_t blocks = end();
    for (const json& block : request.at("blocks")) {
      const std::size_t first = block.at(2), length = block.at(3);
      add(tokens, first, length, static_cast<std::int32_t>(first));
      see_before(blocks);
      if (is_reused(block, reused)) {
        plan.repair.reused_spans.push_back(
            {end() - 1, static_cast<std::uint32_t>(plan.repair.reused_spans.size()) + 1, 0});
        for (std::size_t t = first; t < first + length; ++t)
          reused_tokens.push_back(static_cast<std::uint32_t>(t));
      }
      if (block.at(0) == "h") continue;
      add(tokens, first + length, 1, static_cast<std::int32_t>(first + length));
      see_before(blocks);
      plan.readouts.push_back({end() - 1, 0, {kYes, kNo}});
    }
    if (!plan.repair.reused_spans.empty()) plan.repair.budgets = {0};
  }

  static bool is_reused(const json& block, const std::string& reused) {
    return reused == "all" || (reused == "candidates" && block.at(0) == "c");
  }
  std::uint32_t end() const { return static_cast<std::uint32_t>(plan.segments.size()); }
  void add(const std::vector<Token>& tokens, std::size_t first, std::size_t length, std::int32_t start) {
    const auto begin = tokens.begin() + static_cast<std::ptrdiff_t>(first);
    plan.segments.push_back({SegmentKind::item,
                             std::vector<Token>(begin, begin + static_cast<std::ptrdiff_t>(length)),
                             start,
                             {}});
  }
  void see_before(std::uint32_t blocks) {
    plan.segments.back().sees.add(0);
    plan.segments.back().sees.add({blocks, end() - 1});
  }

  Plan plan;
  std::vector<std::uint32_t> reused_tokens;  // tokens of the prompt that are reused, by the repair's numbers
};

}  // namespace

std::vector<GoldenTitles> title_cases(const std::filesystem::path& golden) {
  std::vector<GoldenTitles> cases;
  const json document = read(golden);
  for (const json& request : document.at("requests")) {
    const auto add = [&](const std::string& name, const std::string& reused, const json& result) {
      TitlesPlan made(request, reused);
      GoldenTitles& one = cases.emplace_back(name + " of user " + request.at("user_id").dump(),
                                             std::move(made.plan), result.at("scores"));
      if (!result.contains("recomputed")) return;
      const std::vector<std::uint32_t> recomputed = result.at("recomputed");
      for (std::uint32_t n = 0; n < made.reused_tokens.size(); ++n)
        if (std::ranges::find(recomputed, made.reused_tokens[n]) != recomputed.end()) one.chosen.push_back(n);
      one.plan.repair.attention = 1;
      one.plan.repair.budgets = {static_cast<std::uint32_t>(0.3 * double(made.reused_tokens.size()) + 0.5)};
    };
    add("full", "none", request);
    add("reuse_candidates", "candidates", request.at("reuse_candidates"));
    add("reuse_all", "all", request.at("reuse_all"));
    add("reuse_all_repair_30", "all", request.at("reuse_all_repair_30"));
  }
  return cases;
}

}  // namespace troupe::reference
