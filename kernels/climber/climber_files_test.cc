#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "kernels/climber/climber.h"
#include "kernels/climber/climber_config.h"
#include "kernels/testing/small_climber_test.h"
#include "kernels/testing/takes_test.h"
#include "kernels/testing/test_folder.h"

namespace troupe::kernels {
namespace {
namespace climber_files_test {

TEST_CASE("climber files: a written model is read back with the same version") {
  const TestFolder folder;
  const ClimberModel model = random_climber(small_climber_config(), 7);
  write_climber(model, folder.path());
  const ClimberModel read = read_climber(folder.path());
  CHECK(read.config == model.config);
  CHECK(read.version == model.version);
  CHECK(read.version != random_climber(small_climber_config(), 8).version);
  CHECK(read.weights.towers[1].layers[2].fc2.bias == model.weights.towers[1].layers[2].fc2.bias);
}

TEST_CASE("climber files: the item embedding may stay in the file without changing the model's version") {
  const TestFolder folder;
  const ClimberModel model = random_climber(small_climber_config(), 7);
  write_climber(model, folder.path());
  const ClimberModel apart = read_climber(folder.path(), ItemRows::apart);
  CHECK(apart.version == model.version);
  CHECK(apart.weights.items.values.empty());
  CHECK(apart.weights.actions.values == model.weights.actions.values);
  REQUIRE(apart.items);
  CHECK(apart.items->rows() == model.config.items + 1);
  const Token rows[] = {50, 0, 17};
  std::vector<float> found(3 * model.config.hidden);
  apart.items->fetch(rows, found.data());
  for (std::size_t i = 0; i < 3; ++i)
    for (std::size_t c = 0; c < model.config.hidden; ++c)
      CHECK(found[i * model.config.hidden + c] ==
            model.weights.items.values[static_cast<std::size_t>(rows[i]) * model.config.hidden + c]);
}

TEST_CASE("climber config: an error names the bad value and what was expected") {
  const auto fault_of = [](auto&& change) {
    const TestFolder folder;
    auto document = nlohmann::json::parse(config_text(small_climber_config()));
    change(document);
    folder.write("config.json", document.dump());
    const std::string error = load_error_of([&] { read_climber_config(folder.path()); });
    const std::string file = (folder.path() / "config.json").string() + ": ";
    return error.starts_with(file) ? error.substr(file.size()) : error;
  };
  CHECK(fault_of([](auto&) {}) == "");
  CHECK(fault_of([](auto& d) { d["num_items"] = 0; }) ==
        "num_items is 0; expected an integer from 1 to 67108863");
  CHECK(fault_of([](auto& d) { d["num_attention_heads"] = 5; }) ==
        "num_attention_heads is 5; expected a divisor of hidden_size, 24");
  CHECK(fault_of([](auto& d) { d["num_blocks"] = 3; }).find("expected an array of num_blocks, 3") !=
        std::string::npos);
  CHECK(fault_of([](auto& d) { d["blocks"][1]["strategy"] = "hated"; }) ==
        "blocks[1].strategy is \"hated\"; expected one of \"recent\", \"liked\"");
  CHECK(fault_of([](auto& d) { d["fusion"] = "sum"; }) ==
        "fusion is \"sum\"; expected \"elementwise_sigmoid_gate\", the only value supported");
  CHECK(fault_of([](auto& d) {
          d["tasks"] = {"click", "click"};
        }).find("different names") != std::string::npos);
  CHECK(fault_of([](auto& d) { d["temperature"].erase("hidden"); }).find("temperature.hidden") !=
        std::string::npos);
  CHECK(fault_of([](auto& d) { d["hidden_activation"] = "gelu"; }) ==
        "hidden_activation is \"gelu\"; expected \"silu\", the only value supported");
  CHECK(
      fault_of([](auto& d) { d["gate_bias"] = 1; }).starts_with("\"gate_bias\" is 1; expected only members"));
  CHECK(fault_of([](auto& d) {
          d["blocks"][1]["shift"] = 3;
        }).starts_with("blocks[1].\"shift\" is 3; expected only members"));
  CHECK(fault_of([](auto& d) {
          d["temperature"]["floor"] = 1;
        }).starts_with("temperature.\"floor\" is 1; expected only members"));
  CHECK(fault_of([](auto& d) { d["model_type"] = "qwen2"; }) ==
        "model_type is \"qwen2\"; expected \"climber\"");
}

const char taken_of_climber[] =
    R"takes(/attention_mask takes null nothing; )takes"
    R"takes("causal_history_independent_candidates", the only value supported; a string
/blocks/0/max_sequence_length takes 1 2 5 1 1048576; an integer from 1 to 1048576
/blocks/0/strategy takes; a string; one of "recent", "liked"
/blocks/1/max_sequence_length takes 1 2 5 1 1048576; an integer from 1 to 1048576
/blocks/1/strategy takes; a string; one of "recent", "liked"
/expert_size takes 1 2 5 1 65536; an integer from 1 to 65536
/fusion takes null nothing; "elementwise_sigmoid_gate", the only value supported; a string
/hidden_activation takes null nothing; "silu", the only value supported; a string
/hidden_size takes; a divisor of hidden_size, 1; a divisor of hidden_size, 2; )takes"
    R"takes(a divisor of hidden_size, 5; a divisor of hidden_size, 65536; an integer from 1 to 65536
/intermediate_size takes 1 2 5 1 65536; an integer from 1 to 65536
/layer_norm_eps takes null nothing; a number from 9.9999999999999998e-13 to 0.10000000000000001
/model_type takes; "climber"; a string
/num_actions takes 1 2 5 1 4096; an integer from 1 to 4096
/num_attention_heads takes 1 2 1; a divisor of hidden_size, 24; an integer from 1 to 1024
/num_blocks takes 2; an array of num_blocks, 1; an array of num_blocks, 5; )takes"
    R"takes(an array of num_blocks, 64; an integer from 1 to 64
/num_experts takes 1 2 5 1 4096; an integer from 1 to 4096
/num_hidden_layers takes 1 2 5 1 1024; an integer from 1 to 1024
/num_items takes 1 2 5 1 67108863; an integer from 1 to 67108863
/num_scenarios takes 1 2 5 1 4096; an integer from 1 to 4096
/pad_item_id takes null 0 0 0 nothing; 0; an integer from 0 to 67108863
/tasks/0 takes "x"; an array of up to 64 different names
/tasks/1 takes "x"; an array of up to 64 different names
/temperature/activation takes null nothing; "tanh", the only value supported; a string
/temperature/embedding_dim takes 1 2 5 1 4096; an integer from 1 to 4096
/temperature/form takes null nothing; "sqrt(head_dim) * exp(mlp)", the only value supported; a string
/temperature/hidden takes 1 2 5 1 4096; an integer from 1 to 4096
/torch_dtype takes null -1 0 1 2 5 0.5 "x" true false nothing
/tower_size takes 1 2 5 1 65536; an integer from 1 to 65536
)takes";

TEST_CASE("climber config: each field accepts values within its limits, and its error names them") {
  const TestFolder folder;
  const auto read = [&](const nlohmann::json& document) {
    folder.write("config.json", document.dump());
    const std::string fault = load_error_of([&] { read_climber_config(folder.path()); });
    return fault.substr(std::min(fault.size(), fault.find("config.json")));
  };
  CHECK(takes(nlohmann::json::parse(config_text(small_climber_config())), read) == taken_of_climber);
}

TEST_CASE("climber files: tensors that are missing, of another shape or unknown are refused by name") {
  const TestFolder folder;
  ClimberModel model = random_climber(small_climber_config(), 7);
  write_climber(model, folder.path());
  const auto with = [&](auto&& change) {
    ClimberConfig config = model.config;
    change(config);
    folder.write("config.json", config_text(config));
    return load_error_of([&] { read_climber(folder.path()); });
  };
  CHECK(with([](auto& c) { c.layers = 2; }).find("has shape") != std::string::npos);
  CHECK(with([](auto& c) { c.tasks.push_back("share"); }).find("tensor \"tasks.2.gate.bias\" is missing") !=
        std::string::npos);
  CHECK(with([](auto& c) { c.tasks.pop_back(); }).find("unknown tensor \"tasks.1.gate.bias\"") !=
        std::string::npos);
  CHECK(with([](auto& c) { c.head_size = 6; }).find("has shape [5]; expected [6], by config.json") !=
        std::string::npos);
}

TEST_CASE("climber: temperatures depend on tower, scenario, layer and head") {
  const ClimberConfig c = small_climber_config();
  const std::vector<double> table = climber_temperatures(c, random_climber(c, 7).weights);
  REQUIRE(table.size() == 2 * 2 * 3 * 3);
  for (std::size_t i = 0; i < table.size(); ++i) {
    CHECK(table[i] > 0);
    for (std::size_t j = 0; j < i; ++j) CHECK(table[i] != table[j]);
  }
}

}  // namespace climber_files_test
}  // namespace
}  // namespace troupe::kernels
