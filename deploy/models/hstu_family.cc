// Makes the table entry of HSTU models, whose tokens are items with times: recognises their
// folders, describes them, and loads them onto a CPU or GPU.
#include "deploy/models/hstu_family.h"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "deploy/models/cost_shape.h"
#include "deploy/models/device_engine.h"
#include "deploy/models/request_numbers.h"
#include "kernels/checkpoint/json_file.h"
#include "kernels/hstu/hstu.h"
#include "kernels/hstu/hstu_plan.h"

namespace troupe::deploy {
namespace {

// Seconds since 1970; JSON readers represent integers up to this bound exactly.
constexpr std::int64_t times_max = std::int64_t{1} << 53;

// Approximates HSTU by a decoder with as many heads, whose layers have four matrices of hidden × width and
// three of hidden × intermediate: together as many numbers as the projections of this layer. A model that
// reads an event as two tokens has twice the layers.
placement::ModelShape cost_of(const kernels::HstuConfig& config, const kernels::DecoderOptions& options) {
  const WeightCost linear = weight_cost(options.weights);
  const std::uint32_t head_dim = (config.head_dim + config.numbers_of_value() + 1) / 2;
  const std::uint32_t numbers = config.projected() + config.mixed(), of_heads = 4 * config.heads * head_dim;
  return {.layers = config.layers * config.event_tokens(),
          .hidden = config.hidden,
          .heads = config.heads,
          .kv_heads = config.heads,
          .head_dim = head_dim,
          .intermediate = std::max(1u, (numbers - std::min(numbers, of_heads)) / 3),
          .rows_read = 1,
          .weight_bytes = linear.bytes,
          .kv_bytes = static_cast<double>(kernels::value_bytes(options.kv)),
          .linear = linear.precision,
          .attention = attention_precision(options.weights, options.kv)};
}

kernels::DecoderOptions options_of(const Config& config) {
  kernels::DecoderOptions options = decoder_options(config);
  if (options.weights == kernels::WeightFormat::int8)
    throw ConfigError("model.weights is " + std::string(word_of(config.model.weights)) +
                      "; expected f32, bf16 or auto for the model family hstu");
  return options;
}

// Refuses what requests cannot give the model, and tables that it cannot have apart.
void reject_if_not_served(const std::filesystem::path& directory, const kernels::HstuConfig& model,
                          const Config& config) {
  if (model.contexts() > 0)
    kernels::throw_load_error(
        directory / "config.json", "context_vocabulary has " + std::to_string(model.contexts()) + " tables",
        "none, because requests carry no contextual features (`troupe logits` takes them)");
  if (items_of(config.model) == kernels::ItemRows::apart && model.actions > 0)
    throw ConfigError("model.tables is " + std::string(word_of(config.model.tables)) +
                      "; expected memory for a model that reads actions");
}

std::vector<EventFeature> event_features_of(const kernels::HstuConfig& model) {
  std::vector<EventFeature> features;
  if (model.biased())
    features.push_back({.name = "timestamps", .ascending = true, .least = -times_max, .most = times_max});
  if (model.actions > 0) features.push_back({.name = "actions", .least = 0, .most = model.actions - 1});
  return features;
}

ModelFacts describe_hstu(const std::filesystem::path& directory, const Config& config) {
  const kernels::HstuConfig model = kernels::read_hstu_config(directory);
  const kernels::DecoderOptions options = options_of(config);
  const kernels::HstuPassMemory memory = pass_memory(model, options);
  reject_if_not_served(directory, model, config);
  ModelFacts facts{plan_limits(model), page_layout(model, options), cost_of(model, options)};
  if (device_choice(config.model).on_cpu())
    facts.pass_tokens_max = memory.tokens_max, facts.token_bytes = memory.row_bytes;
  facts.arrangement = Arrangement::history;
  if (items_of(config.model) == kernels::ItemRows::apart) facts.table_columns = model.hidden;
  for (std::uint32_t task = 0; model.tasks > 1 && task < model.tasks; ++task)
    facts.tasks.push_back("task_" + std::to_string(task));
  facts.next_items = model.tasks == 0;
  if (facts.next_items) facts.temperature = model.temperature;
  if (facts.next_items && device_choice(config.model).on_cpu())
    facts.limits = plan_limits(model, items_of(config.model));
  if (facts.limits.item_searches) facts.shape.rows_searched = model.vocabulary;
  facts.whole_history = model.whole_history();
  facts.event_features = event_features_of(model);
  return facts;
}

OpenedModel open_hstu(const std::filesystem::path& directory, const Config& config) {
  auto model = std::make_shared<kernels::HstuModel>(kernels::read_hstu(directory, items_of(config.model)));
  const kernels::DecoderOptions options = options_of(config);
  std::string version = model->version;
  return {std::move(version),
          [model, options, config](const WrapTable& wrap) {
            if (const DeviceChoice choice = device_choice(config.model); !choice.on_cpu())
              return open_device_engine(choice, config, std::move(*model));
            if (model->items && wrap) model->items = wrap(model->items);
            return Engine{kernels::make_cpu_hstu(std::move(*model), options), arena_pages(config.pool)};
          },
          {}};
}

std::vector<kernels::Token> items_of(const nlohmann::json& request, const char* key,
                                     const kernels::HstuConfig& config) {
  const auto numbers = request_integers(request, key, {1, config.vocabulary - 1});
  return {numbers.begin(), numbers.end()};
}

// Reads one time per event and the request's time. Times must not decrease.
void read_times(const nlohmann::json& request, kernels::HstuRequest& read) {
  read.times = request_integers(request, "timestamps", {-times_max, times_max});
  if (read.times.size() != read.items.size())
    throw std::invalid_argument("timestamps has " + std::to_string(read.times.size()) +
                                " entries; expected " + std::to_string(read.items.size()) +
                                ", as many as item_ids");
  for (std::size_t i = 1; i < read.times.size(); ++i)
    if (read.times[i] < read.times[i - 1])
      throw std::invalid_argument("timestamps[" + std::to_string(i) + "] is " +
                                  std::to_string(read.times[i]) + "; expected at least the previous one, " +
                                  std::to_string(read.times[i - 1]));
  read.now = request_integer(request, "request_timestamp", {read.times.back(), times_max});
}

void keep_newest(std::vector<std::int64_t>& values, std::size_t most) {
  if (values.size() > most) values.erase(values.begin(), values.end() - static_cast<std::ptrdiff_t>(most));
}

void read_actions(const nlohmann::json& request, const kernels::HstuConfig& config,
                  kernels::HstuRequest& read) {
  read.actions = request_integers(request, "actions", {0, config.actions - 1});
  if (read.actions.size() != read.items.size())
    throw std::invalid_argument("actions has " + std::to_string(read.actions.size()) + " numbers; expected " +
                                std::to_string(read.items.size()) + ", as many as item_ids");
}

void read_contexts(const nlohmann::json& request, const kernels::HstuConfig& config,
                   kernels::HstuRequest& read) {
  const std::vector<std::int64_t> rows = request_integers(request, "context", {0, UINT32_MAX});
  if (rows.size() != config.contexts())
    throw std::invalid_argument("context has " + std::to_string(rows.size()) + " numbers; expected " +
                                std::to_string(config.contexts()) + ", one for each contextual feature");
  for (std::size_t k = 0; k < rows.size(); ++k) {
    if (rows[k] >= config.context_rows[k])
      throw std::invalid_argument("context[" + std::to_string(k) + "] is " + std::to_string(rows[k]) +
                                  "; expected 0 to " + std::to_string(config.context_rows[k] - 1));
    read.contexts.push_back(static_cast<std::uint32_t>(rows[k]));
  }
}

// Uses the newest events if the history is too long.
kernels::HstuRequest request_of(const nlohmann::json& request, const kernels::HstuConfig& config) {
  kernels::HstuRequest read{items_of(request, "item_ids", config), {}, 0, {}};
  if (config.biased()) read_times(request, read);
  if (config.actions > 0) read_actions(request, config, read);
  if (config.contexts() > 0) read_contexts(request, config, read);
  read.candidates = items_of(request, "candidate_ids", config);
  const std::size_t most = config.history();
  if (read.items.size() > most)
    read.items.erase(read.items.begin(), read.items.end() - static_cast<std::ptrdiff_t>(most));
  keep_newest(read.times, most);
  keep_newest(read.actions, most);
  return read;
}

// Computes the outputs for {"item_ids": […], "candidate_ids": […]}, with "timestamps": […] and
// "request_timestamp": … for models with a pair bias, "actions": […] for models that read actions, and
// "context": […] for contextual features.
nlohmann::json hstu_logits(const std::filesystem::path& directory, const nlohmann::json& request) {
  const kernels::HstuConfig config = kernels::read_hstu_config(directory);
  const kernels::HstuRequest read = request_of(request, config);
  kernels::HstuModel model = kernels::read_hstu(directory);
  nlohmann::json answer{{"model_version", model.version}};
  const kernels::Plan plan = hstu_plan(config, read);
  const kernels::Request asked{&plan, std::vector<kernels::SegmentKv>(plan.segments.size())};
  const auto executor = kernels::make_cpu_hstu(std::move(model), {.page_tokens = 16});
  const auto readouts = executor->run({&asked, 1}).at(0).readouts;
  std::size_t next = 0;
  if (reads_next_items(config)) {
    for (const float logit : readouts.at(next))
      if (config.tasks == 0) answer["similarities"].push_back(logit * config.temperature);
    answer["next_item_logits"] = readouts.at(next++);
  }
  const std::uint32_t tasks = config.nvidia() ? config.tasks : std::min(config.tasks, 1u);
  for (std::size_t i = 0; tasks > 0 && i < read.candidates.size(); ++i) {
    nlohmann::json own;
    for (std::uint32_t task = 0; task < tasks; ++task) own.push_back(readouts.at(next++).front());
    answer["task_logits"].push_back(tasks == 1 ? own.front() : own);
  }
  return answer;
}

}  // namespace

ModelFamily hstu_family() { return {"hstu", {"hstu"}, describe_hstu, open_hstu, hstu_logits}; }

}  // namespace troupe::deploy
