// Makes the table entry of Climber models, whose towers (sub-models) each read a part of the
// history. It recognises their folders, describes them, and loads them onto a CPU or GPU.
#include "deploy/models/climber_family.h"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "deploy/models/cost_shape.h"
#include "deploy/models/device_engine.h"
#include "deploy/models/request_numbers.h"
#include "kernels/climber/climber.h"

namespace troupe::deploy {
namespace {

// Approximates Climber by a decoder of one tower, in which a history event is one row. A decoder's
// feed-forward part has three matrices, Climber's has two.
placement::ModelShape climber_cost(const kernels::ClimberConfig& model,
                                   const kernels::DecoderOptions& options) {
  const WeightCost linear = weight_cost(options.weights);
  return {.name = "climber",
          .layers = model.layers,
          .hidden = model.hidden,
          .heads = model.heads,
          .kv_heads = model.heads,
          .head_dim = model.head_dim(),
          .intermediate = std::max(1u, model.intermediate * 2 / 3),
          .rows_read = 1,
          .weight_bytes = linear.bytes,
          .kv_bytes = static_cast<double>(kernels::value_bytes(options.kv)),
          .linear = linear.precision,
          .attention = attention_precision(options.weights, options.kv)};
}

ModelFacts describe_climber(const std::filesystem::path& directory, const Config& config) {
  const kernels::ClimberConfig model = kernels::read_climber_config(directory);
  const kernels::DecoderOptions options = decoder_options(config);
  const kernels::ClimberPassMemory memory = pass_memory(model, options);
  ModelFacts facts{plan_limits(model), page_layout(model, options), climber_cost(model, options)};
  if (device_choice(config.model).on_cpu())
    facts.pass_tokens_max = memory.tokens_max, facts.token_bytes = memory.token_bytes;
  facts.arrangement = Arrangement::towers;
  if (items_of(config.model) == kernels::ItemRows::apart) facts.table_columns = model.hidden;
  facts.event_features = {{.name = "actions", .least = 0, .most = model.actions - 1}};
  for (const kernels::ClimberTower& tower : model.towers)
    facts.towers.push_back({tower.positions, tower.strategy == kernels::ClimberStrategy::liked
                                                 ? kernels::liked_action_min
                                                 : INT64_MIN});
  facts.scenarios = model.scenarios;
  facts.tasks = model.tasks;
  return facts;
}

OpenedModel open_climber(const std::filesystem::path& directory, const Config& config) {
  auto model =
      std::make_shared<kernels::ClimberModel>(kernels::read_climber(directory, items_of(config.model)));
  std::string version = model->version;
  const auto engine = [model, config](const WrapTable& wrap) {
    if (const DeviceChoice choice = device_choice(config.model); !choice.on_cpu())
      return open_device_engine(choice, config, std::move(*model));
    if (model->items && wrap) model->items = wrap(model->items);
    return Engine{make_cpu_climber(std::move(*model), decoder_options(config)), arena_pages(config.pool)};
  };
  return {std::move(version), engine, {}};
}

kernels::ClimberRequest climber_request(const kernels::ClimberConfig& model, const nlohmann::json& request) {
  const auto items = request_integers(request, "item_ids", {0, model.items}, true);
  const auto candidates = request_integers(request, "candidate_ids", {0, model.items});
  kernels::ClimberRequest asked;
  asked.items.assign(items.begin(), items.end());
  asked.actions = request_integers(request, "actions", {0, model.actions - 1}, true);
  asked.scenario = request_integer(request, "scenario", {0, model.scenarios - 1});
  asked.candidates.assign(candidates.begin(), candidates.end());
  if (asked.actions.size() != asked.items.size())
    throw std::invalid_argument("actions has " + std::to_string(asked.actions.size()) +
                                " numbers; expected as many as item_ids, " +
                                std::to_string(asked.items.size()));
  return asked;
}

// Computes each task's logits, candidate by candidate. The request is {"item_ids": [...],
// "actions": [...], "scenario": 0, "candidate_ids": [...]}, oldest event first.
nlohmann::json climber_logits(const std::filesystem::path& directory, const nlohmann::json& request) {
  kernels::ClimberModel model = kernels::read_climber(directory);
  const kernels::ClimberConfig config = model.config;
  const std::string version = model.version;
  const kernels::Plan plan = climber_plan(config, climber_request(config, request));
  const auto executor = make_cpu_climber(std::move(model), {.page_tokens = 16});
  const kernels::Request asked{&plan, std::vector<kernels::SegmentKv>(plan.segments.size())};
  const kernels::Reply reply = executor->run({&asked, 1}).at(0);
  nlohmann::json logits;
  for (std::size_t i = 0; i < reply.readouts.size(); ++i)
    logits[config.tasks[i % config.tasks.size()]].push_back(reply.readouts[i].at(0));
  return {{"model_version", version}, {"logits", std::move(logits)}};
}

}  // namespace

ModelFamily climber_family() {
  return {"climber", {"climber"}, describe_climber, open_climber, climber_logits};
}

}  // namespace troupe::deploy
