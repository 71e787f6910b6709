// The trained generators' golden beams, which an independent program searched: the same paths in the same order, with
// the prompt computed and with all of it cached, in one batch and one by one.
#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "deploy/box/prompt_file.h"
#include "deploy/data/dataset.h"
#include "kernels/decoder/decoder.h"
#include "tests/reference/golden.h"

namespace troupe::reference {
namespace {

using kernels::Beam;
using kernels::Token;

constexpr double log_tolerance = 1e-4;

struct GoldenBeams {
  kernels::Plan plan;
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

// Empty, or where they are not the same.
std::string difference(const std::vector<Beam>& found, const std::vector<Beam>& expected) {
  if (found.size() != expected.size()) return std::to_string(found.size()) + " beams";
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i].path != expected[i].path) return "another path at " + std::to_string(i);
    if (std::abs(found[i].log_probability - expected[i].log_probability) > log_tolerance)
      return "log-probability " + std::to_string(found[i].log_probability) + " at " + std::to_string(i);
  }
  return "";
}

TEST_CASE("the golden beams of the trained generators, in their order") {
  for (const auto& [name, catalog] : {std::pair{"tiny-onerec", "amazon-industrial"},
                                      std::pair{"tiny-onerec-beauty", "amazon-beauty"}}) {
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
    for (const GoldenBeams& one : cases) requests.push_back({.plan = &one.plan, .kv = {{}}, .assets = assets});
    const std::vector<kernels::Reply> together = decoder->run(requests);
    for (std::size_t i = 0; i < cases.size(); ++i) {
      CAPTURE(i);
      CHECK(difference(together[i].beams, cases[i].beams) == "");
      CHECK(difference(decoder->run({&requests[i], 1})[0].beams, cases[i].beams) == "");
    }
  }
}

}  // namespace
}  // namespace troupe::reference
