// Makes the table entry of HSTU models, whose tokens are items with times: recognises their
// folders, describes them, and loads them onto a CPU or GPU.
#include "deploy/models/hstu_family.h"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "deploy/models/device_engine.h"
#include "deploy/models/request_numbers.h"
#include "kernels/checkpoint/json_file.h"
#include "kernels/hstu/hstu.h"
#include "kernels/hstu/hstu_plan.h"

namespace troupe::deploy {
namespace {

// Seconds since 1970; JSON readers represent integers up to this bound exactly.
constexpr std::int64_t times_max = std::int64_t{1} << 53;

// Approximates HSTU by a decoder. A layer has five matrices of hidden × width in the research layer
// and seven in the production layer. A decoder with as many heads has four, plus three of hidden ×
// intermediate.
placement::ModelShape cost_of(const kernels::HstuConfig& config, kernels::KvFormat kv) {
  return {.layers = config.layers,
          .hidden = config.hidden,
          .heads = config.heads,
          .kv_heads = config.heads,
          .head_dim = config.head_dim,
          .intermediate = config.production() ? config.width() : std::max(1u, config.width() / 3),
          .rows_read = 1,
          .weight_bytes = 4,
          .kv_bytes = static_cast<double>(kernels::value_bytes(kv)),
          .linear = placement::Precision::f32,
          .attention = placement::Precision::f32};
}

kernels::DecoderOptions options_of(const Config& config) {
  kernels::DecoderOptions options = decoder_options(config);
  if (options.weights != kernels::WeightFormat::f32)
    throw ConfigError("model.weights is " + std::string(word_of(config.model.weights)) +
                      "; expected f32 for the model family hstu");
  return options;
}

ModelFacts describe_hstu(const std::filesystem::path& directory, const Config& config) {
  const kernels::HstuConfig model = kernels::read_hstu_config(directory);
  const kernels::DecoderOptions options = options_of(config);
  const kernels::HstuPassMemory memory = pass_memory(model, options);
  if (model.tasks == 0)
    kernels::throw_load_error(directory / "config.json", "task_head is missing",
                              "a task head, because requests read its tasks");
  ModelFacts facts{plan_limits(model), page_layout(kv_layout(model, options.page_tokens, options.kv)),
                   cost_of(model, options.kv)};
  if (device_choice(config.model).on_cpu())
    facts.pass_tokens_max = memory.tokens_max, facts.token_bytes = memory.row_bytes;
  facts.arrangement = Arrangement::history;
  if (items_of(config.model) == kernels::ItemRows::apart) facts.table_columns = model.hidden;
  for (std::uint32_t task = 0; model.tasks > 1 && task < model.tasks; ++task)
    facts.tasks.push_back("task_" + std::to_string(task));
  if (model.features() > 0)
    facts.event_features = {
        {.name = "timestamps", .ascending = true, .least = -times_max, .most = times_max}};
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

// Computes the logits of {"item_ids": […], "timestamps": […], "request_timestamp": …,
// "candidate_ids": […]}. Uses the newest events if the history is too long.
nlohmann::json hstu_logits(const std::filesystem::path& directory, const nlohmann::json& request) {
  const kernels::HstuConfig config = kernels::read_hstu_config(directory);
  kernels::HstuRequest read{items_of(request, "item_ids", config), {}, 0, {}};
  if (config.features() > 0) read_times(request, read);
  read.candidates = items_of(request, "candidate_ids", config);
  if (const std::size_t most = config.positions - 1; read.items.size() > most) {
    read.items.erase(read.items.begin(), read.items.end() - static_cast<std::ptrdiff_t>(most));
    if (!read.times.empty())
      read.times.erase(read.times.begin(), read.times.end() - static_cast<std::ptrdiff_t>(most));
  }
  kernels::HstuModel model = kernels::read_hstu(directory);
  nlohmann::json answer{{"model_version", model.version}};
  const kernels::Plan plan = hstu_plan(config, read);
  const kernels::Request asked{&plan, std::vector<kernels::SegmentKv>(plan.segments.size())};
  const auto executor = kernels::make_cpu_hstu(std::move(model), {.page_tokens = 16});
  const auto readouts = executor->run({&asked, 1}).at(0).readouts;
  std::size_t next = 0;
  if (!config.production()) answer["next_item_logits"] = readouts[next++];
  for (std::size_t i = 0; config.tasks > 0 && i < read.candidates.size(); ++i)
    answer["task_logits"].push_back(readouts[next++].front());
  return answer;
}

}  // namespace

ModelFamily hstu_family() { return {"hstu", {"hstu"}, describe_hstu, open_hstu, hstu_logits}; }

}  // namespace troupe::deploy
