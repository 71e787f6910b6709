// Makes the table entry of SASRec models, which score the next item of a history: recognises their
// folders, describes them, and loads them onto the CPU.
#include "deploy/models/sasrec_family.h"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "deploy/models/cost_shape.h"
#include "deploy/models/request_numbers.h"
#include "kernels/checkpoint/json_file.h"
#include "kernels/sasrec/sasrec.h"

namespace troupe::deploy {
namespace {

// Describes SASRec as a decoder with as many heads. Its feed-forward part has two matrices of hidden ×
// intermediate where a decoder's has three.
placement::ModelShape sasrec_cost(const kernels::SasrecConfig& config, const kernels::DecoderOptions& options,
                                  const kernels::PlanLimits& limits) {
  const WeightCost linear = weight_cost(options.weights);
  return {.layers = config.layers,
          .hidden = config.hidden,
          .heads = config.heads,
          .kv_heads = config.heads,
          .head_dim = config.head_dim(),
          .intermediate = std::max(1u, 2 * config.intermediate / 3),
          .rows_read = 1,
          .weight_bytes = linear.bytes,
          .kv_bytes = static_cast<double>(kernels::value_bytes(options.kv)),
          .linear = linear.precision,
          .attention = attention_precision(options.weights, options.kv),
          .rows_searched = limits.item_searches ? config.vocabulary : 0};
}

kernels::DecoderOptions sasrec_options(const Config& config) {
  kernels::DecoderOptions options = decoder_options(config);
  if (options.weights == kernels::WeightFormat::int8)
    throw ConfigError("model.weights is " + std::string(word_of(config.model.weights)) +
                      "; expected f32, bf16 or auto for the model family sasrec");
  if (!device_choice(config.model).on_cpu())
    throw ConfigError("model.device is " + config.model.device +
                      "; expected cpu for the model family sasrec");
  return options;
}

ModelFacts describe_sasrec(const std::filesystem::path& directory, const Config& config) {
  const kernels::SasrecConfig model = kernels::read_sasrec_config(directory);
  const kernels::DecoderOptions options = sasrec_options(config);
  const kernels::RowMemory memory = pass_memory(model, options);
  const kernels::PlanLimits limits = plan_limits(model, items_of(config.model));
  ModelFacts facts{limits, page_layout(kv_layout(model, options.page_tokens, options.kv)),
                   sasrec_cost(model, options, limits)};
  facts.pass_tokens_max = memory.tokens_max, facts.token_bytes = memory.row_bytes;
  facts.arrangement = Arrangement::history;
  if (items_of(config.model) == kernels::ItemRows::apart) facts.table_columns = model.hidden;
  facts.next_items = true;
  facts.temperature = model.temperature;
  return facts;
}

OpenedModel open_sasrec(const std::filesystem::path& directory, const Config& config) {
  auto model =
      std::make_shared<kernels::SasrecModel>(kernels::read_sasrec(directory, items_of(config.model)));
  const kernels::DecoderOptions options = sasrec_options(config);
  std::string version = model->version;
  return {std::move(version),
          [model, options, config](const WrapTable& wrap) {
            if (model->items && wrap) model->items = wrap(model->items);
            return Engine{kernels::make_cpu_sasrec(std::move(*model), options), arena_pages(config.pool)};
          },
          {}};
}

std::vector<kernels::Token> sasrec_items(const nlohmann::json& request, const char* key,
                                         const kernels::SasrecConfig& config) {
  const auto numbers = request_integers(request, key, {1, config.vocabulary - 1});
  return {numbers.begin(), numbers.end()};
}

// Computes the similarities and next-item logits of {"item_ids": […], "candidate_ids": […]}. Uses the
// newest events if the history is too long.
nlohmann::json sasrec_logits(const std::filesystem::path& directory, const nlohmann::json& request) {
  const kernels::SasrecConfig config = kernels::read_sasrec_config(directory);
  std::vector<kernels::Token> history = sasrec_items(request, "item_ids", config);
  if (history.size() > config.history_max)
    history.erase(history.begin(), history.end() - static_cast<std::ptrdiff_t>(config.history_max));
  const kernels::Plan plan = kernels::sasrec_plan(history, sasrec_items(request, "candidate_ids", config));
  kernels::SasrecModel model = kernels::read_sasrec(directory);
  nlohmann::json answer{{"model_version", model.version}};
  const kernels::Request asked{&plan, std::vector<kernels::SegmentKv>(plan.segments.size())};
  const auto executor = kernels::make_cpu_sasrec(std::move(model), {.page_tokens = 16});
  const std::vector<float> logits = executor->run({&asked, 1}).at(0).readouts.at(0);
  for (const float logit : logits) answer["similarities"].push_back(logit * config.temperature);
  answer["next_item_logits"] = logits;
  return answer;
}

}  // namespace

ModelFamily sasrec_family() { return {"sasrec", {"sasrec"}, describe_sasrec, open_sasrec, sasrec_logits}; }

}  // namespace troupe::deploy
