#include "deploy/models/model_families.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "kernels/checkpoint/hf_config.h"
#include "kernels/climber/climber_config.h"
#include "kernels/testing/small_climber_test.h"
#include "kernels/testing/small_hstu_test.h"
#include "kernels/testing/small_sasrec_test.h"
#include "kernels/testing/test_folder.h"

using namespace troupe;
using namespace troupe::deploy;

namespace {

std::string error_of(const std::string& config) {
  const kernels::TestFolder folder;
  folder.write("config.json", config);
  return kernels::load_error_of([&] { family_of(all_families(), folder.path()); });
}

// Formats the facts that are known of a model before its weights are read.
std::string facts_of(const std::string& model, const Config& config) {
  const kernels::TestFolder folder;
  folder.write("config.json", model);
  const ModelFacts f = family_of(all_families(), folder.path()).describe(folder.path(), config);
  const placement::ModelShape& s = f.shape;
  std::string text;
  const auto add = [&](const char* name, auto value) {
    text += std::string(" ") + name + " " + nlohmann::json(value).dump();
  };
  add("tokens", f.limits.vocabulary), add("positions", f.limits.positions_max),
      add("features", f.limits.features);
  add("heads", f.limits.heads), add("width", f.limits.width_max), add("state", f.limits.state),
      add("moves", f.limits.moves);
  add("repairs", f.limits.repairs), add("page", f.layout.bytes), add("of", f.layout.page_tokens);
  text += ";";
  add("layers", s.layers), add("hidden", s.hidden), add("heads", s.heads), add("kv_heads", s.kv_heads),
      add("head_dim", s.head_dim);
  add("intermediate", s.intermediate), add("rows", s.rows_read), add("weight", s.weight_bytes),
      add("kv", s.kv_bytes);
  add("linear", static_cast<int>(s.linear)), add("attention", static_cast<int>(s.attention));
  text += ";";
  add("tasks", f.tasks), add("scenarios", f.scenarios),
      add("arrangement", std::string(word_of(f.arrangement))), add("columns", f.table_columns);
  add("needs_memory", f.token_bytes > 0);
  for (const EventFeature& feature : f.event_features)
    text += "; " + feature.name + (feature.ascending ? " ascending " : " ") + std::to_string(feature.least) +
            ".." + std::to_string(feature.most);
  for (const Tower& tower : f.towers)
    text += "; tower " + std::to_string(tower.events_max) + " " + std::to_string(tower.action_min);
  if (f.next_items) text += "; next items at " + nlohmann::json(f.temperature).dump();
  if (f.limits.item_searches) text += "; " + std::to_string(s.rows_searched) + " rows are searched";
  if (f.whole_history) text += "; whole history";
  return text;
}

kernels::DecoderConfig small_decoder() {
  kernels::DecoderConfig config;
  config.layers = 3, config.hidden = 32, config.heads = 4, config.kv_heads = 2, config.head_dim = 8,
  config.intermediate = 40;
  config.vocabulary = 50, config.positions_max = 64;
  return config;
}

}  // namespace

TEST_SUITE("model families") {
  TEST_CASE("model facts: follow from the configuration and the formats, without weights") {
    const std::string decoder = kernels::config_text(small_decoder(), kernels::StoredAs::f32);
    const std::string climber = kernels::config_text(kernels::small_climber_config());
    Config floats, bytes;
    floats.set("pool.page_tokens", "8");
    bytes.set("pool.page_tokens", "4");
    bytes.set("model.weights", "int8");
    bytes.set("pool.kv_format", "f16");
    CHECK(facts_of(decoder, floats) ==
          " tokens 50 positions 64 features 0 heads 0 width 512 state 32 moves true repairs true page 3072 "
          "of 8;"
          " layers 3 hidden 32 heads 4 kv_heads 2 head_dim 8 intermediate 40 rows 1 weight 4.0 kv 4.0 linear "
          "0 attention 0;"
          " tasks [] scenarios 1 arrangement \"\" columns 0 needs_memory true");
    CHECK(
        facts_of(decoder, bytes) ==
        " tokens 50 positions 64 features 0 heads 0 width 512 state 32 moves true repairs true page 768 of 4;"
        " layers 3 hidden 32 heads 4 kv_heads 2 head_dim 8 intermediate 40 rows 1 weight 1.0 kv 2.0 linear 2 "
        "attention 0;"
        " tasks [] scenarios 1 arrangement \"\" columns 0 needs_memory true");
    CHECK(
        facts_of(climber, floats) ==
        " tokens 51 positions 13 features 3 heads 2 width 0 state 0 moves false repairs false page 4608 of 8;"
        " layers 3 hidden 24 heads 3 kv_heads 3 head_dim 8 intermediate 26 rows 1 weight 4.0 kv 4.0 linear 0 "
        "attention 0;"
        " tasks [\"click\",\"like\"] scenarios 2 arrangement \"towers\" columns 0 needs_memory true;"
        " actions 0..5;"
        " tower 12 -9223372036854775808;"
        " tower 7 4");
    CHECK(
        facts_of(climber, bytes) ==
        " tokens 51 positions 13 features 3 heads 2 width 0 state 0 moves false repairs false page 1152 of 4;"
        " layers 3 hidden 24 heads 3 kv_heads 3 head_dim 8 intermediate 26 rows 1 weight 1.0 kv 2.0 linear 2 "
        "attention 0;"
        " tasks [\"click\",\"like\"] scenarios 2 arrangement \"towers\" columns 0 needs_memory true;"
        " actions 0..5;"
        " tower 12 -9223372036854775808;"
        " tower 7 4");
    CHECK(
        facts_of(kernels::small_hstu(2), floats) ==
        " tokens 10 positions 11 features 2 heads 2 width 0 state 8 moves false repairs false page 512 of 8;"
        " layers 1 hidden 8 heads 2 kv_heads 2 head_dim 4 intermediate 2 rows 1 weight 4.0 kv 4.0 linear 0 "
        "attention 0;"
        " tasks [\"task_0\",\"task_1\"] scenarios 1 arrangement \"history\" columns 0 needs_memory true;"
        " timestamps ascending -9007199254740992..9007199254740992");
    for (const char* tables : {"mapped", "sharded"}) {
      floats.set("model.tables", tables);
      CHECK(facts_of(kernels::small_hstu(2), floats).find(" columns 8 ") != std::string::npos);
      CHECK(facts_of(climber, floats).find(" columns 24 ") != std::string::npos);
      CHECK(facts_of(decoder, floats).find(" columns 0 ") != std::string::npos);
      Config device = floats;
      device.set("model.device", "cuda");
      for (const std::string& family : {climber, std::string(kernels::small_hstu(2))})
        CHECK_THROWS_WITH_AS(facts_of(family, device),
                             doctest::Contains("expected memory, or model.device cpu"), ConfigError);
    }
    CHECK_THROWS_AS(facts_of(kernels::small_hstu(2), bytes), ConfigError);
  }

  TEST_CASE("model families: what is no model directory is refused, and the error says what it is") {
    const kernels::TestFolder folder;
    folder.write("model.gguf", "GGUF\x03");
    folder.write("notes", "a text");
    const auto fault = [&](const std::string& name) {
      const std::string said =
          kernels::load_error_of([&] { family_of(all_families(), folder.path() / name); });
      return said.substr(0, said.find("; expected")).substr(folder.path().string().size());
    };
    CHECK(fault("model.gguf") == "/model.gguf: a file, a GGUF file of llama.cpp");
    CHECK(fault("notes") == "/notes: a file");
    CHECK(fault("notes/below") == "/notes/below: cannot be looked up: Not a directory");
    CHECK(fault("nothing") == "/nothing: no such folder");
    folder.write("config.json", "<!doctype html>\n<title>Access denied</title>");
    CHECK(fault("") ==
          "/config.json: no valid JSON at byte 1 (it is an HTML page, as a download without access "
          "gives it)");
  }

  TEST_CASE("model facts: HSTU as published is served without a task head, and by events of two tokens") {
    Config config;
    config.set("pool.page_tokens", "8");
    nlohmann::json model = nlohmann::json::parse(kernels::small_hstu());
    model.erase("task_head");
    model["linear_dim"] = 6u, model["max_output_length"] = 11u;
    model["relative_attention_bias"]["max_positions"] = 21u;
    model["action_embedding"] = {{"num_actions", 6u}, {"dim", 2u}};
    CHECK(
        facts_of(model.dump(), config) ==
        " tokens 10 positions 11 features 3 heads 0 width 512 state 8 moves false repairs false page 640 of "
        "8;"
        " layers 1 hidden 8 heads 2 kv_heads 2 head_dim 5 intermediate 4 rows 1 weight 4.0 kv 4.0 linear 0 "
        "attention 0;"
        " tasks [] scenarios 1 arrangement \"history\" columns 0 needs_memory true;"
        " timestamps ascending -9007199254740992..9007199254740992;"
        " actions 0..5;"
        " next items at 0.05; 10 rows are searched");
    config.set("model.tables", "mapped");
    CHECK_THROWS_WITH_AS(facts_of(model.dump(), config),
                         "model.tables is mapped; expected memory for a model that reads actions",
                         ConfigError);
    config.set("model.tables", "memory");
    model["num_attention_heads"] = 1u, model["attention_normalizer"] = 1u;
    model["attention_activation"] = "softmax";
    CHECK(facts_of(model.dump(), config)
              .ends_with("; next items at 0.05; 10 rows are searched; whole history"));

    nlohmann::json nvidia = nlohmann::json::parse(kernels::small_nvidia_hstu());
    CHECK(
        kernels::load_error_of([&] { facts_of(nvidia.dump(), config); })
            .ends_with("config.json: context_vocabulary has 2 tables; expected none, because requests carry "
                       "no contextual features (`troupe logits` takes them)"));
    nvidia["context_vocabulary"] = nlohmann::json::array();
    CHECK(facts_of(nvidia.dump(), config) ==
          " tokens 10 positions 11 features 1 heads 5 width 0 state 8 moves false repairs false page 1024 of "
          "8;"
          " layers 2 hidden 8 heads 2 kv_heads 2 head_dim 4 intermediate 2 rows 1 weight 4.0 kv 4.0 linear 0 "
          "attention 0;"
          " tasks [\"task_0\",\"task_1\",\"task_2\",\"task_3\",\"task_4\"] scenarios 1 arrangement "
          "\"history\" columns 0 needs_memory true;"
          " actions 0..5");
  }

  TEST_CASE("model facts: SASRec searches its items if they are in memory, and needs float32 on a CPU") {
    Config config;
    config.set("pool.page_tokens", "8");
    CHECK(
        facts_of(kernels::small_sasrec(), config) ==
        " tokens 31 positions 21 features 0 heads 0 width 512 state 8 moves false repairs false page 1024 of "
        "8;"
        " layers 2 hidden 8 heads 2 kv_heads 2 head_dim 4 intermediate 8 rows 1 weight 4.0 kv 4.0 linear 0 "
        "attention 0;"
        " tasks [] scenarios 1 arrangement \"history\" columns 0 needs_memory true;"
        " next items at 0.05; 31 rows are searched");
    config.set("model.tables", "mapped");
    const std::string apart = facts_of(kernels::small_sasrec(), config);
    CHECK(apart.find(" width 0 ") != std::string::npos);
    CHECK(apart.ends_with(" columns 8 needs_memory true; next items at 0.05"));
    config.set("model.tables", "memory");
    config.set("model.device", "cuda");
    CHECK_THROWS_WITH_AS(facts_of(kernels::small_sasrec(), config),
                         "model.device is cuda; expected cpu for the model family sasrec", ConfigError);
    config.set("model.device", "cpu");
    config.set("model.weights", "int8");
    CHECK_THROWS_WITH_AS(facts_of(kernels::small_sasrec(), config),
                         "model.weights is int8; expected f32, bf16 or auto for the model family sasrec",
                         ConfigError);
  }

  TEST_CASE("model families: chosen by model_type; a missing or unknown one is refused with the known ones") {
    CHECK(error_of(R"({"model_type":"llama"})").empty());
    for (const char* config : {R"({})", R"({"model_type":"bert"})"}) {
      const std::string error = error_of(config);
      CHECK(error.find("model_type") != std::string::npos);
      CHECK(error.find("expected one of \"qwen2\", ") != std::string::npos);
    }
  }
}
