// Reads the config.json of a Climber model and gives the text of one. Such a model ranks for
// several tasks. A field that asks for other mathematics is refused by name.
#include "kernels/climber/climber_config.h"

#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "kernels/checkpoint/config_members.h"
#include "kernels/checkpoint/hf_config.h"
#include "kernels/checkpoint/json_file.h"

namespace troupe::kernels {
namespace {

// Limits far above any model of this kind, and small enough that a product of two of them does not
// overflow.
constexpr std::uint64_t kLayersMax = 1024, kHeadsMax = 1024, kHeadDimMax = 256, kTowersMax = 64;
constexpr std::uint64_t kWidthMax = std::uint64_t{1} << 16, kItemsMax = (std::uint64_t{1} << 26) - 1;
constexpr std::uint64_t kPositionsMax = std::uint64_t{1} << 20, kSmallMax = 4096;
constexpr std::uint64_t kConfigBytesMax = std::uint64_t{1} << 20;

constexpr std::array<std::pair<ClimberStrategy, const char*>, 2> kStrategies{
    {{ClimberStrategy::recent, "recent"}, {ClimberStrategy::liked, "liked"}}};

// Checks a field whose value is fixed here; it may be absent from the file.
void expect(const JsonFields& fields, std::string_view key, const std::string& text) {
  if (fields.has(key) && fields.maybe_text(key) != text)
    fields.fault(key, "\"" + text + "\", the only value supported");
}

ClimberStrategy read_strategy(const JsonFields& fields) {
  const auto name = fields.maybe_text("strategy");
  for (const auto& [strategy, known] : kStrategies)
    if (name == known) return strategy;
  fields.fault("strategy", "one of \"recent\", \"liked\"");
}

void read_towers(const std::filesystem::path& file, const JsonFields& fields, ClimberConfig& config) {
  const std::uint32_t towers = count_member(fields, "num_blocks", kTowersMax);
  const nlohmann::json* const blocks = fields.find("blocks");
  if (blocks == nullptr || !blocks->is_array() || blocks->size() != towers)
    fields.fault("blocks", "an array of num_blocks, " + std::to_string(towers));
  for (std::size_t k = 0; k < towers; ++k) {
    const std::string where = "blocks[" + std::to_string(k) + "]";
    if (!(*blocks)[k].is_object()) fields.fault("blocks", "an array of objects");
    const JsonFields block(file, (*blocks)[k], where);
    config.towers.push_back(
        {read_strategy(block), count_member(block, "max_sequence_length", kPositionsMax)});
    block.refuse_others();
  }
}

void read_tasks(const JsonFields& fields, ClimberConfig& config) {
  const nlohmann::json* const tasks = fields.find("tasks");
  const char* const expected = "an array of up to 64 different names";
  if (tasks == nullptr || !tasks->is_array() || tasks->empty() || tasks->size() > kTowersMax)
    fields.fault("tasks", expected);
  std::set<std::string> names;
  for (const nlohmann::json& task : *tasks) {
    if (!task.is_string() || !names.insert(task.get<std::string>()).second) fields.fault("tasks", expected);
    config.tasks.push_back(task.get<std::string>());
  }
}

void read_temperature(const std::filesystem::path& file, const JsonFields& fields, ClimberConfig& config) {
  const nlohmann::json* const object = fields.find("temperature");
  if (object == nullptr || !object->is_object())
    fields.fault("temperature", "an object with embedding_dim and hidden");
  const JsonFields temperature(file, *object, "temperature");
  config.temperature_embedding = count_member(temperature, "embedding_dim", kSmallMax);
  config.temperature_hidden = count_member(temperature, "hidden", kSmallMax);
  expect(temperature, "activation", "tanh");
  expect(temperature, "form", "sqrt(head_dim) * exp(mlp)");
  temperature.refuse_others();
}

void read_width(const JsonFields& fields, ClimberConfig& config) {
  config.hidden = count_member(fields, "hidden_size", kWidthMax);
  config.heads = count_member(fields, "num_attention_heads", kHeadsMax);
  if (config.hidden % config.heads != 0)
    fields.fault("num_attention_heads", "a divisor of hidden_size, " + std::to_string(config.hidden));
  if (config.head_dim() > kHeadDimMax)
    fields.fault("hidden_size", "at most " + std::to_string(kHeadDimMax) + " for each head");
}

}  // namespace

ClimberConfig read_climber_config(const std::filesystem::path& directory) {
  const std::filesystem::path file = directory / kConfigFile;
  const nlohmann::json document = read_json_file(file, kConfigBytesMax);
  const JsonFields fields(file, document);
  if (fields.maybe_text("model_type") != "climber") fields.fault("model_type", "\"climber\"");
  ClimberConfig config;
  config.items = count_member(fields, "num_items", kItemsMax);
  config.actions = count_member(fields, "num_actions", kSmallMax);
  config.scenarios = count_member(fields, "num_scenarios", kSmallMax);
  read_width(fields, config);
  config.layers = count_member(fields, "num_hidden_layers", kLayersMax);
  config.intermediate = count_member(fields, "intermediate_size", kWidthMax);
  config.norm_epsilon = fields.maybe_number("layer_norm_eps", 1e-12, 1e-1).value_or(config.norm_epsilon);
  read_towers(file, fields, config);
  read_temperature(file, fields, config);
  config.experts = count_member(fields, "num_experts", kSmallMax);
  config.expert_size = count_member(fields, "expert_size", kWidthMax);
  config.head_size = count_member(fields, "tower_size", kWidthMax);
  read_tasks(fields, config);
  expect(fields, "hidden_activation", "silu");
  expect(fields, "attention_mask", "causal_history_independent_candidates");
  expect(fields, "fusion", "elementwise_sigmoid_gate");
  if (fields.maybe_integer("pad_item_id", 0, kItemsMax).value_or(0) != 0) fields.fault("pad_item_id", "0");
  refuse_other_members(fields);
  return config;
}

std::string config_text(const ClimberConfig& config) {
  nlohmann::ordered_json blocks = nlohmann::ordered_json::array();
  for (const ClimberTower& tower : config.towers)
    blocks.push_back({{"strategy", kStrategies[static_cast<std::size_t>(tower.strategy)].second},
                      {"max_sequence_length", tower.positions}});
  const nlohmann::ordered_json document{{"model_type", "climber"},
                                        {"num_items", config.items},
                                        {"pad_item_id", 0},
                                        {"num_actions", config.actions},
                                        {"num_scenarios", config.scenarios},
                                        {"hidden_size", config.hidden},
                                        {"num_attention_heads", config.heads},
                                        {"num_blocks", config.towers.size()},
                                        {"num_hidden_layers", config.layers},
                                        {"intermediate_size", config.intermediate},
                                        {"hidden_activation", "silu"},
                                        {"layer_norm_eps", config.norm_epsilon},
                                        {"blocks", blocks},
                                        {"attention_mask", "causal_history_independent_candidates"},
                                        {"temperature",
                                         {{"embedding_dim", config.temperature_embedding},
                                          {"hidden", config.temperature_hidden},
                                          {"activation", "tanh"},
                                          {"form", "sqrt(head_dim) * exp(mlp)"}}},
                                        {"fusion", "elementwise_sigmoid_gate"},
                                        {"num_experts", config.experts},
                                        {"expert_size", config.expert_size},
                                        {"tower_size", config.head_size},
                                        {"tasks", config.tasks},
                                        {"torch_dtype", "float32"}};
  return document.dump(1) + "\n";
}

}  // namespace troupe::kernels
