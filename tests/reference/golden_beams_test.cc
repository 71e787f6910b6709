// Tests the trained generators' golden beams, which an independent program searched: the same paths in
// the same order, with the prompt computed and with all of it cached, in one batch and one by one.
#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "deploy/data/dataset.h"
#include "deploy/node/prompt_file.h"
#include "kernels/decoder/decoder.h"
#include "tests/reference/golden.h"

namespace troupe::reference {
namespace {

using kernels::Beam;
using kernels::Token;

constexpr double log_tolerance = 1e-4;

constexpr std::size_t first_code = 4;  // other tokens of the vocabulary come before

struct GoldenBeams {
  kernels::Plan plan;
  std::vector<double> first_logs;  // log-probabilities after the prompt, of tokens from first_code on
  std::vector<Beam> beams;
};

std::vector<GoldenBeams> read_beams(const std::filesystem::path& golden) {
  std::ifstream in(golden);
  const nlohmann::json document = nlohmann::json::parse(in);
  std::vector<GoldenBeams> cases;
  for (const nlohmann::json& one : document.at("cases")) {
    GoldenBeams& made = cases.emplace_back();
    made.plan.segments = {{kernels::SegmentKind::user, one.at("prompt").get<std::vector<Token>>(), 0, {}}};
    made.plan.search.width = document.at("beam_width");
    made.plan.search.results = made.plan.search.width;
    made.plan.search.by_token = true;
    for (const double logit : one.at("last_logits_first16").get<std::vector<double>>())
      made.first_logs.push_back(logit - one.at("logsumexp").get<double>());
    for (const nlohmann::json& beam : one.at("beams"))
      made.beams.push_back({beam.at("tokens").get<std::vector<Token>>(), beam.at("logprob")});
  }
  return cases;
}

std::shared_ptr<const kernels::PathIndex> read_index(const std::filesystem::path& data,
                                                     const kernels::Vocabulary& vocabulary) {
  std::vector<std::vector<Token>> paths;
  for (const PutItem& item : deploy::read_items(data, vocabulary)) paths.push_back(item.tokens);
  const std::vector<std::span<const Token>> views(paths.begin(), paths.end());
  return std::make_shared<const kernels::PathIndex>(views);
}

// Returns log-probabilities of all tokens after the plan's prompt and some tokens of a path, which are
// computed as part of the prompt.
std::vector<double> logs_behind(kernels::Executor& decoder, kernels::Plan plan, std::span<const Token> path) {
  std::vector<Token> tokens = plan.segments[0].tokens.copy();
  tokens.insert(tokens.end(), path.begin(), path.end());
  plan.readouts = {{0, static_cast<std::uint32_t>(tokens.size() - 1), {}, kernels::Readout::What::all_rows}};
  plan.segments[0].tokens = kernels::Tokens(std::move(tokens));
  plan.search = {};
  const kernels::Request request{.plan = &plan, .kv = {{}}};
  const std::vector<float> logits = decoder.run({&request, 1})[0].readouts[0];
  double sum = 0;
  for (const float logit : logits) sum += std::exp(double{logit});
  std::vector<double> logs;
  for (const float logit : logits) logs.push_back(logit - std::log(sum));
  return logs;
}

// Returns the token whose log-probability differs from that of a prompt which ends before it, or "". The
// golden file has the sums, and logits of the first codes after the prompt; those are compared with a
// prompt's.
std::string by_token_difference(kernels::Executor& decoder, const GoldenBeams& golden,
                                const std::vector<Beam>& found) {
  const std::vector<double> first = logs_behind(decoder, golden.plan, {});
  for (std::size_t t = 0; t < golden.first_logs.size(); ++t)
    if (std::abs(first[first_code + t] - golden.first_logs[t]) > log_tolerance)
      return "logits behind the prompt";
  for (const Beam& beam : found) {
    if (beam.by_token.size() != beam.path.size()) return "not one for each token";
    for (std::size_t t = 0; t < beam.path.size(); ++t) {
      const std::vector<double> logs =
          t == 0 ? first : logs_behind(decoder, golden.plan, {beam.path.data(), t});
      if (std::abs(beam.by_token[t] - logs[static_cast<std::size_t>(beam.path[t])]) > log_tolerance)
        return "token " + std::to_string(t) + " of a path has " + std::to_string(beam.by_token[t]);
    }
  }
  return "";
}

// Returns where the beams differ, or "".
std::string difference(const std::vector<Beam>& found, const std::vector<Beam>& expected) {
  if (found.size() != expected.size()) return std::to_string(found.size()) + " beams";
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i].path != expected[i].path) return "another path at " + std::to_string(i);
    if (std::abs(found[i].log_probability - expected[i].log_probability) > log_tolerance)
      return "log-probability " + std::to_string(found[i].log_probability) + " at " + std::to_string(i);
  }
  return "";
}

TEST_CASE("golden beams: the trained generators find them in order") {
  for (const auto& [name, catalog] :
       {std::pair{"tiny-onerec", "amazon-industrial"}, std::pair{"tiny-onerec-beauty", "amazon-beauty"}}) {
    CAPTURE(name);
    const GoldenModel model = golden_model(name);
    const std::filesystem::path data = std::filesystem::path(TROUPE_ROOT_DIR) / "../shared/data" / catalog;
    if (model.folder.empty() || !std::filesystem::exists(data)) {
      MESSAGE("skipped: the data is not beside the checkout");
      continue;
    }
    const auto decoder = make_cpu_decoder(kernels::read_decoder(model.folder), {});
    const auto index = read_index(data, deploy::read_vocabulary_if_any(model.folder, decoder->limits()));
    const std::vector<GoldenBeams> cases = read_beams(model.golden);
    CHECK(cases.size() == 20);
    std::vector<kernels::Request> requests;
    const auto assets = std::make_shared<kernels::PathAssets>(index);
    for (const GoldenBeams& one : cases)
      requests.push_back({.plan = &one.plan, .kv = {{}}, .assets = assets});
    const std::vector<kernels::Reply> together = decoder->run(requests);
    for (std::size_t i = 0; i < cases.size(); ++i) {
      CAPTURE(i);
      CHECK(difference(together[i].beams, cases[i].beams) == "");
      CHECK(by_token_difference(*decoder, cases[i], together[i].beams) == "");
      CHECK(difference(decoder->run({&requests[i], 1})[0].beams, cases[i].beams) == "");
    }
  }
}

}  // namespace
}  // namespace troupe::reference
