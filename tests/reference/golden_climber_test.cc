// Tests the trained Climber model against its golden file and its metrics, which independent programs
// computed: the float64 reference, the executor, and the areas under the curves of both tasks over all
// test users.

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "deploy/data/text_file.h"
#include "kernels/climber/climber_reference.h"
#include "tests/reference/golden.h"

namespace troupe::reference {
namespace {
namespace golden_climber_test {

using kernels::ClimberAnswer;
using kernels::ClimberConfig;
using kernels::ClimberModel;
using kernels::ClimberRequest;
using kernels::Token;

constexpr double reference_tolerance = 1e-9;  // both are float64
constexpr double logit_tolerance = 1e-5;      // the training program's float32 differs by 2.6e-6

nlohmann::json read_json(const std::filesystem::path& file) {
  std::ifstream in(file);
  return nlohmann::json::parse(in);
}

bool there(const GoldenModel& model) {
  if (model.folder.empty()) MESSAGE("skipped: the data is not beside the checkout");
  return !model.folder.empty();
}

ClimberRequest request_of(const nlohmann::json& one) {
  return {one.at("item_ids").get<std::vector<Token>>(), one.at("actions").get<std::vector<std::int64_t>>(),
          one.at("scenario"), one.at("candidate_ids").get<std::vector<Token>>()};
}

double difference(const std::vector<double>& got, const nlohmann::json& want) {
  double worst = 0;
  for (std::size_t i = 0; i < want.size(); ++i)
    worst = std::max(worst, std::abs(got.at(i) - want[i].get<double>()));
  return worst;
}

// [task][candidate]
std::vector<std::vector<double>> logits_of(const kernels::Reply& reply, std::size_t tasks) {
  std::vector<std::vector<double>> logits(tasks);
  for (std::size_t i = 0; i < reply.readouts.size(); ++i)
    logits[i % tasks].push_back(reply.readouts[i].at(0));
  return logits;
}

kernels::Request computed(const kernels::Plan& plan) {
  return {&plan, std::vector<kernels::SegmentKv>(plan.segments.size())};
}

void check_insides(const ClimberAnswer& answer, const nlohmann::json& one) {
  CHECK(nlohmann::json(answer.lengths) == one.at("subsequence_lengths"));
  for (std::size_t k = 0; k < answer.ends.size(); ++k)
    CHECK(difference(answer.ends[k][0], one.at("candidate0_block_outputs_first8")[k]) < reference_tolerance);
  CHECK(difference(answer.gates[0], one.at("candidate0_gate_first8")) < reference_tolerance);
  CHECK(difference(answer.fused[0], one.at("candidate0_fused_first8")) < reference_tolerance);
  if (!one.contains("layers")) return;
  for (std::size_t k = 0; k < answer.rows.size(); ++k)
    for (std::size_t l = 0; l < answer.rows[k].size(); ++l) {
      const nlohmann::json& layer = one.at("layers")[k][l];
      CHECK(difference(answer.rows[k][l][0], layer.at("position_0_first8")) < reference_tolerance);
      CHECK(difference(answer.rows[k][l][answer.lengths[k]], layer.at("candidate_0_first8")) <
            reference_tolerance);
    }
}

// Returns the probability that a true element of `ranked` (score, truth) is above a false one; ties count
// half.
double area_under_curve(std::vector<std::pair<double, bool>> ranked) {
  std::ranges::sort(ranked);
  double below = 0, area = 0, all_true = 0;
  for (std::size_t i = 0, end = 0; i < ranked.size(); i = end) {
    double tied_false = 0, tied_true = 0;
    for (end = i; end < ranked.size() && ranked[end].first == ranked[i].first; ++end)
      ++(ranked[end].second ? tied_true : tied_false);
    area += tied_true * (below + tied_false / 2);
    below += tied_false;
    all_true += tied_true;
  }
  return area / (below * all_true);
}

std::vector<std::int64_t> numbers_of(std::string_view text) {
  std::vector<std::int64_t> numbers;
  if (text.empty()) return numbers;
  for (const std::string_view field : deploy::split(text, ' '))
    numbers.push_back(std::stol(std::string(field)));
  return numbers;
}

TEST_CASE("golden Climber: temperatures, towers, gates and logits match") {
  const GoldenModel golden = golden_model("tiny-climber");
  if (!there(golden)) return;
  const ClimberModel model = kernels::read_climber(golden.folder);
  const ClimberConfig& c = model.config;
  const nlohmann::json document = read_json(golden.golden);
  const std::vector<double> temperatures = kernels::climber_temperatures(c, model.weights);
  for (std::size_t k = 0, at = 0; k < c.towers.size(); ++k)
    for (std::size_t r = 0; r < c.scenarios; ++r)
      for (std::size_t l = 0; l < c.layers; ++l, at += c.heads)
        CHECK(difference({temperatures.begin() + std::ptrdiff_t(at), temperatures.end()},
                         document.at("temperature").at(std::to_string(r))[k][l]) < reference_tolerance);

  const auto executor =
      make_cpu_climber(kernels::read_climber(golden.folder), {.page_tokens = 16, .cores = 2});
  const nlohmann::json& cases = document.at("cases");
  REQUIRE(cases.size() == 20);
  std::vector<kernels::Plan> plans;
  std::vector<kernels::Request> batch;
  for (const nlohmann::json& one : cases) plans.push_back(climber_plan(c, request_of(one)));
  for (const kernels::Plan& plan : plans) batch.push_back(computed(plan));
  const std::vector<kernels::Reply> together = executor->run(batch);
  double worst = 0;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    CAPTURE(i);
    const ClimberAnswer answer = compute_climber(model, request_of(cases[i]));
    check_insides(answer, cases[i]);
    const auto alone = logits_of(executor->run({&batch[i], 1})[0], c.tasks.size());
    const auto beside = logits_of(together[i], c.tasks.size());
    for (std::size_t t = 0; t < c.tasks.size(); ++t) {
      const nlohmann::json& want = cases[i].at("logits").at(c.tasks[t]);
      REQUIRE(alone[t].size() == want.size());
      CHECK(difference(answer.logits[t], want) < reference_tolerance);
      worst = std::max({worst, difference(alone[t], want), difference(beside[t], want)});
    }
  }
  CAPTURE(worst);
  CHECK(worst < logit_tolerance);
}

struct Areas {
  double click = 0, like = 0;
  std::size_t users = 0;
};
Areas areas_of(const GoldenModel& golden, kernels::WeightFormat weights) {
  const auto executor = make_cpu_climber(kernels::read_climber(golden.folder),
                                         {.page_tokens = 16, .weights = weights, .cores = 2});
  const ClimberConfig config = kernels::read_climber_config(golden.folder);
  deploy::TsvFile file(golden.folder / "eval.tsv.gz");
  std::vector<std::pair<double, bool>> likes;
  Areas areas;
  for (std::vector<std::string_view> fields; file.next(fields); ++areas.users) {
    const auto field = [&](const char* name) { return fields[file.column(name)]; };
    const auto items = numbers_of(field("items")), candidates = numbers_of(field("candidates"));
    const kernels::Plan plan = climber_plan(config, {.items = {items.begin(), items.end()},
                                                     .actions = numbers_of(field("actions")),
                                                     .scenario = numbers_of(field("scenario"))[0],
                                                     .candidates = {candidates.begin(), candidates.end()}});
    const kernels::Request request = computed(plan);
    const auto logits = logits_of(executor->run({&request, 1})[0], config.tasks.size());
    const auto right = static_cast<std::size_t>(numbers_of(field("true_index"))[0]);
    std::vector<std::pair<double, bool>> ranked;
    for (std::size_t i = 0; i < candidates.size(); ++i) ranked.push_back({logits[0][i], i == right});
    areas.click += area_under_curve(ranked);
    likes.push_back({logits[1][right], numbers_of(field("like"))[0] == 1});
  }
  areas.click /= double(areas.users);
  areas.like = area_under_curve(likes);
  return areas;
}

TEST_CASE(
    "golden Climber: areas under the curves over all test users match metrics.json, int8 and bf16 nearly") {
  const GoldenModel golden = golden_model("tiny-climber");
  if (!there(golden)) return;
  const nlohmann::json metrics = read_json(golden.folder / "metrics.json").at("model");
  const double click = metrics.at("click_auc"), like = metrics.at("like_auc");
  const Areas areas = areas_of(golden, kernels::WeightFormat::f32);
  CHECK(areas.users == metrics.at("n"));
  constexpr double printed = 5.001e-5;  // the file has four digits
  CHECK(std::abs(areas.click - click) < printed);
  CHECK(std::abs(areas.like - like) < printed);
  for (const kernels::WeightFormat weights : {kernels::WeightFormat::int8, kernels::WeightFormat::bf16}) {
    const Areas rounded = areas_of(golden, weights);
    CAPTURE(rounded.click);
    CAPTURE(rounded.like);
    CHECK(std::abs(rounded.click - click) < 0.001);
    CHECK(std::abs(rounded.like - like) < 0.001);
  }
}

}  // namespace golden_climber_test
}  // namespace
}  // namespace troupe::reference
