#include "kernels/hstu/hstu_config.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "kernels/hstu/hstu_model.h"
#include "kernels/hstu/time_steps.h"
#include "kernels/testing/small_hstu_test.h"
#include "kernels/testing/takes_test.h"
#include "kernels/testing/test_folder.h"

using namespace troupe::kernels;

namespace {

std::string error_with(const std::string& pointer, const nlohmann::json& value) {
  nlohmann::json document = nlohmann::json::parse(small_hstu());
  document[nlohmann::json::json_pointer(pointer)] = value;
  return load_error_of([&] { hstu_config_of("config.json", document); });
}

const char taken_of_research[] =
    R"takes(/attention_activation takes; "silu" or "softmax"; a string
/attention_alpha takes 1 2 5 0.5; a number from 9.9999999999999995e-07 to 1000000
/attention_dim takes 1 2 5 1 256; an integer from 1 to 256
/attention_normalizer takes 1 2 5; a number from 1 to 1000000000
/concat_ua takes true false; true or false
/hidden_size takes 1 2 5 1 65536; an integer from 1 to 65536
/input_scale takes; "sqrt(hidden_size)"; a string
/l2_norm_eps takes 1 0.5; a number from 1.0000000000000001e-30 to 1
/layer_norm_affine takes false; false; true or false
/layer_norm_eps takes 0 1 0.5; a number from 0 to 1
/linear_activation takes; "silu" or "none"; a string
/linear_dim takes 1 2 5 1 256; an integer from 1 to 256
/max_sequence_length takes; an integer from 1 to 1048576; an integer from 1048577 to 1048577; )takes"
    R"takes(an integer from 2 to 2; an integer from 3 to 3; an integer from 4 to 4; )takes"
    R"takes(an integer from 5 to 5; an integer from 6 to 6; an integer from 7 to 7; )takes"
    R"takes(an integer from 8 to 8
/model_type takes; "hstu"; a string
/num_attention_heads takes 1 2 5 1 1024; an integer from 1 to 1024
/num_hidden_layers takes 1 2 5 1 1024; an integer from 1 to 1024
/num_items takes 1 2 5 1 67108864; an integer from 1 to 67108864
/pad_item_id takes null 0 0 0 0 nothing; an integer from 0 to 0
/position_embedding takes; "absolute"; a string
/relative_attention_bias/max_positions takes 11 11; an integer from 11 to 11
/relative_attention_bias/num_time_buckets takes 1 2 5 1; an integer from 1 to 1024; )takes"
    R"takes(at most 43 divided by time_bucket_divisor
/relative_attention_bias/per_layer takes true; true; true or false
/relative_attention_bias/shared_by_heads takes true; true; true or false
/relative_attention_bias/time_bucket_divisor takes; a number from 0.001 to 100; )takes"
    R"takes(at most 43 divided by time_bucket_divisor
/relative_attention_bias/time_bucket_function takes; "log"; a string
/relative_attention_bias/time_reference takes; "next"; a string
/relative_attention_bias/type takes; "bucketed_time_and_position"; a string
/task_head/activation takes; "silu"; a string
/task_head/hidden takes 1 2 5 1 65536; an integer from 1 to 65536
/task_head/num_tasks takes 1 2 5 1 1024; an integer from 1 to 1024
/temperature takes 1 2 5 0.5; a number from 9.9999999999999995e-07 to 1000000
)takes";
const char taken_of_production[] =
    R"takes(/attention_activation takes; "silu"; a string
/attention_alpha takes 1 2 5 0.5; a number from 9.9999999999999995e-07 to 1000000
/attention_dim takes; an integer from 1 to 256; attention_dim, 1, in this layer; )takes"
    R"takes(attention_dim, 2, in this layer; )takes"
    R"takes(attention_dim, 256, in this layer; attention_dim, 5, in this layer
/attention_normalizer takes 1 2 5; a number from 1 to 1000000000
/concat_ua takes true; true; true or false
/contextual_sequence_length takes null 0 1 2 5 0 0 10 nothing; an integer from 0 to 10
/hidden_size takes 1 2 5 1 65536; an integer from 1 to 65536
/input_scale takes; "sqrt(hidden_size)"; a string
/l2_norm_eps takes 1 0.5; a number from 1.0000000000000001e-30 to 1
/layer takes; "silu" or "none"; "stu" or "nvidia"; a string
/layer_norm_affine takes true; true; true or false
/layer_norm_eps takes 0 1 0.5; a number from 0 to 1
/linear_activation takes; "silu_u_only"; a string
/linear_dim takes; an integer from 1 to 256; attention_dim, 4, in this layer
/max_attention_length takes null 0 1 2 5 0 0 1048576 nothing; an integer from 0 to 1048576
/max_sequence_length takes 2 5 2 1048576; an integer from 0 to 1; an integer from 1 to 1048576
/model_type takes; "hstu"; a string
/num_attention_heads takes 1 2 5 1 1024; an integer from 1 to 1024
/num_hidden_layers takes 1 2 5 1 1024; an integer from 1 to 1024
/num_items takes 1 2 5 1 67108864; an integer from 1 to 67108864
/pad_item_id takes null 0 0 0 0 nothing; an integer from 0 to 0
/position_embedding takes; "absolute"; a string
/task_head/activation takes; "silu"; a string
/task_head/hidden takes 1 2 5 1 65536; an integer from 1 to 65536
/task_head/num_tasks takes 1 2 5 1 1024; an integer from 1 to 1024
/temperature takes 1 2 5 0.5; a number from 9.9999999999999995e-07 to 1000000
)takes";
const char taken_of_published[] =
    R"takes(/action_embedding/dim takes 1 2 5 1; an integer from 1 to 65536; less than hidden_size
/action_embedding/num_actions takes 1 2 5 1 67108864; an integer from 1 to 67108864
/attention_activation takes; "silu" or "softmax"; a string
/attention_alpha takes 1 2 5 0.5; a number from 9.9999999999999995e-07 to 1000000
/attention_dim takes 1 2 5 1 65536; an integer from 1 to 65536
/attention_normalizer takes 1; 1, with a softmax; a number from 1 to 1000000000
/concat_ua takes true false; true or false
/hidden_size takes 5 65536; an integer from 1 to 65536; less than hidden_size
/input_scale takes; "sqrt(hidden_size)"; a string
/item_norm takes null nothing; "l2" or "none"; a string
/l2_norm_eps takes 1 0.5; a number from 1.0000000000000001e-30 to 1
/layer_norm_affine takes false; false; true or false
/layer_norm_eps takes 0 1 0.5; a number from 0 to 1
/linear_activation takes; "silu" or "none"; a string
/linear_dim takes 1 2 5 1 65536; an integer from 1 to 65536
/max_output_length takes 11 11 11; an integer from 1 to 1048576; )takes"
    R"takes(an integer from 1048586 to 1048586; an integer from 11 to 11; )takes"
    R"takes(an integer from 12 to 12; an integer from 15 to 15; an integer from 20 to 20; )takes"
    R"takes(an integer from 22 to 22; an integer from 23 to 23; an integer from 24 to 24; )takes"
    R"takes(an integer from 25 to 25; an integer from 26 to 26
/max_sequence_length takes; an integer from 1 to 1048576; )takes"
    R"takes(an integer from 1048587 to 1048587; an integer from 12 to 12; )takes"
    R"takes(an integer from 13 to 13; an integer from 16 to 16; an integer from 22 to 22; )takes"
    R"takes(an integer from 23 to 23; an integer from 24 to 24; an integer from 25 to 25; )takes"
    R"takes(an integer from 26 to 26; an integer from 27 to 27; an integer from 28 to 28
/model_type takes; "hstu"; a string
/num_attention_heads takes 1 1; 1, as the published softmax joins the heads; )takes"
    R"takes(an integer from 1 to 1024
/num_hidden_layers takes 1 2 5 1 1024; an integer from 1 to 1024
/num_items takes 1 2 5 1 67108864; an integer from 1 to 67108864
/output_norm takes null nothing; "l2" or "layer_norm"; a string
/output_norm_eps takes null 1 0.5 nothing; a number from 1.0000000000000001e-30 to 1
/pad_item_id takes null 0 0 0 0 nothing; an integer from 0 to 0
/position_embedding takes; "absolute"; a string
/relative_attention_bias/max_positions takes 21 21; an integer from 21 to 21
/relative_attention_bias/num_time_buckets takes 1 2 5 1; )takes"
    R"takes(an integer from 1 to 1024; at most 43 divided by time_bucket_divisor
/relative_attention_bias/per_layer takes true; true; true or false
/relative_attention_bias/shared_by_heads takes true; true; true or false
/relative_attention_bias/time_bucket_divisor takes; a number from 0.001 to 100; )takes"
    R"takes(at most 43 divided by time_bucket_divisor
/relative_attention_bias/time_bucket_function takes; "log"; a string
/relative_attention_bias/time_reference takes; "next"; a string
/relative_attention_bias/type takes; "bucketed_time_and_position"; a string
/similarity takes null nothing; "dot_product"; a string
/temperature takes 1 2 5 0.5; a number from 9.9999999999999995e-07 to 1000000
)takes";
const char taken_of_nvidia[] =
    R"takes(/attention_activation takes; "silu"; a string
/attention_alpha takes 1 2 5 0.5; a number from 9.9999999999999995e-07 to 1000000
/attention_dim takes; an integer from 1 to 256; )takes"
    R"takes(attention_dim, 1, in this layer; attention_dim, 2, in this layer; )takes"
    R"takes(attention_dim, 256, in this layer; attention_dim, 5, in this layer
/attention_normalizer takes 1 2 5; a number from 1 to 1000000000
/concat_ua takes false; false; true or false
/context_sees_history takes null true false nothing; true or false
/context_vocabulary/0 takes 1 2 5; a list of 0 to 64 integers from 1 to 67108864
/context_vocabulary/1 takes 1 2 5; a list of 0 to 64 integers from 1 to 67108864
/event_tokens takes; "item" or "item_action"; 0, or no such member, )takes"
    R"takes(without event_tokens item_action; a string
/hidden_size takes 1 2 5 1 65536; an integer from 1 to 65536
/input_norm_affine takes null true false nothing; true or false
/input_scale takes; "sqrt(hidden_size)" or "none"; a string
/layer takes; "stu" or "nvidia"; a string; an integer from 1 to 65536
/layer_norm_eps takes 0 1 0.5; a number from 0 to 1
/linear_activation takes; "silu"; a string
/linear_dim takes; an integer from 1 to 256; attention_dim, 4, in this layer
/max_sequence_length takes 1 2 5 1 1048576; an integer from 1 to 1048576
/model_type takes; "hstu"; a string
/num_actions takes 1 2 5 1 67108864; an integer from 1 to 67108864
/num_attention_heads takes 1 2 5 1 1024; an integer from 1 to 1024
/num_hidden_layers takes 1 2 5 1 1024; an integer from 1 to 1024
/num_items takes 1 2 5 1 67108864; an integer from 1 to 67108864
/num_positions takes 1 2 5 1 1048576; an integer from 1 to 1048576
/output_norm_affine takes null true false nothing; true or false
/position_embedding takes; "absolute" or "none"; a string
/residual takes null true false nothing; true or false
/task_head/activation takes; "relu" or "gelu"; a string
/task_head/bias takes null true false nothing; true or false
/task_head/input_norm takes; "l2"; a string
/task_head/input_norm_eps takes null 1 0.5 nothing; a number from 1.0000000000000001e-30 to 1
/task_head/layers/0 takes 1 2 5; a list of 1 to 64 integers from 1 to 65536
/task_head/layers/1 takes 1 2 5; a list of 1 to 64 integers from 1 to 65536
/uvqk_bias takes null true false nothing; true or false
)takes";

}  // namespace

TEST_SUITE("configuration of hstu") {
  TEST_CASE("hstu config: a field that would change the mathematics is refused by name") {
    CHECK(error_with("/hidden_size", 8u).empty());
    CHECK(error_with("/linear_dim", 5u).empty());
    CHECK(error_with("/linear_dim", 257u) ==
          "config.json: linear_dim is 257; expected an integer from 1 to 256");
    CHECK(error_with("/num_items", 0) ==
          "config.json: num_items is 0; expected an integer from 1 to 67108864");
    CHECK(error_with("/attention_activation", "softmax") ==
          "config.json: num_attention_heads is 2; expected 1, as the published softmax joins the heads");
    CHECK(error_with("/attention_activation", "relu") ==
          "config.json: attention_activation is \"relu\"; expected \"silu\" or \"softmax\"");
    CHECK(error_with("/relative_attention_bias", nullptr) ==
          "config.json: relative_attention_bias is null; expected an object");
    CHECK(error_with("/similarity", "mol") == "config.json: similarity is \"mol\"; expected \"dot_product\"");
    CHECK(error_with("/action_embedding", {{"num_actions", 6}, {"dim", 2}}) ==
          "config.json: action_embedding is an object; expected nothing beside a task_head");
    CHECK(error_with("/layer_norm_affine", true) == "config.json: layer_norm_affine is true; expected false");
    CHECK(error_with("/layer", "sut") == "config.json: layer is \"sut\"; expected \"stu\" or \"nvidia\"");
    CHECK(error_with("/relative_attention_bias/time_reference", "own") ==
          "config.json: relative_attention_bias.time_reference is \"own\"; expected \"next\"");
    CHECK(error_with("/relative_attention_bias/max_positions", 12) ==
          "config.json: relative_attention_bias.max_positions is 12; expected an integer from 11 to 11");
    CHECK(error_with("/task_head/hidden", "six") ==
          "config.json: task_head.hidden is \"six\"; expected an integer from 1 to 65536");
    const std::string others =
        "; expected only members that are read or known to be harmless, as another one may change what the "
        "model computes; remove it if it does not";
    CHECK(error_with("/converted_from", "meta-research").empty());  // as troupe convert writes it
    CHECK(error_with("/rotary", true) == "config.json: \"rotary\" is true" + others);
    CHECK(error_with("/max_attention_length", 7) ==  // of the production layer alone
          "config.json: \"max_attention_length\" is 7" + others);
    CHECK(error_with("/task_head/gate", "tanh") == "config.json: task_head.\"gate\" is \"tanh\"" + others);
    CHECK(error_with("/relative_attention_bias/window", 4) ==
          "config.json: relative_attention_bias.\"window\" is 4" + others);
    CHECK(error_with("/relative_attention_bias/num_position_buckets", 21u).empty());
    CHECK(
        error_with("/relative_attention_bias/num_position_buckets", 20u) ==
        "config.json: relative_attention_bias.num_position_buckets is 20; expected an integer from 21 to 21");
    CHECK(error_with("/transformers_version", "4.1").empty());
    CHECK(error_with("/temperature", nullptr) ==
          "config.json: temperature is null; expected a number from 9.9999999999999995e-07 to 1000000");
  }

  TEST_CASE("hstu config: each field accepts values within its limits, and its error names them") {
    nlohmann::json document = nlohmann::json::parse(small_hstu());
    const auto read = [](const nlohmann::json& changed) {
      return load_error_of([&] { hstu_config_of("c", changed); });
    };
    CHECK(takes(document, read) == taken_of_research);
    document.erase("relative_attention_bias");
    document.update({{"layer", "stu"},
                     {"linear_activation", "silu_u_only"},
                     {"layer_norm_affine", true},
                     {"concat_ua", true},
                     {"contextual_sequence_length", 2},
                     {"max_attention_length", 7}});
    CHECK(takes(document, read) == taken_of_production);
  }

  TEST_CASE("hstu config: members of published models are read, and each of their errors names the limits") {
    const auto read = [](const nlohmann::json& changed) {
      return load_error_of([&] { hstu_config_of("c", changed); });
    };
    nlohmann::json document = nlohmann::json::parse(small_hstu());
    document.erase("task_head");
    document.update({{"num_attention_heads", 1},
                     {"attention_dim", 300},
                     {"linear_dim", 400},
                     {"attention_activation", "softmax"},
                     {"attention_normalizer", 1},
                     {"linear_activation", "none"},
                     {"concat_ua", true},
                     {"max_output_length", 11},
                     {"output_norm", "layer_norm"},
                     {"output_norm_eps", 1e-3},
                     {"item_norm", "none"},
                     {"similarity", "dot_product"},
                     {"action_embedding", {{"num_actions", 6}, {"dim", 2}}}});
    document["relative_attention_bias"]["max_positions"] = 21;
    document = nlohmann::json::parse(document.dump());
    const HstuConfig config = hstu_config_of("c", document);
    CHECK(config.softmax);
    CHECK(config.concat);
    CHECK(!config.projections_silu);
    CHECK(!config.item_l2);
    CHECK(config.positions == 21);
    CHECK(config.history() == 10);
    CHECK(config.numbers_of_value() == 400);
    CHECK(config.item_columns() == 6);
    CHECK(config.features() == 3);
    CHECK(takes(document, read) == taken_of_published);
    document["relative_attention_bias"] = nullptr;
    CHECK(hstu_config_of("c", document).features() == 1);
  }

  TEST_CASE("hstu config: members of NVIDIA's layer are read, and each of their errors names the limits") {
    const auto read = [](const nlohmann::json& changed) {
      return load_error_of([&] { hstu_config_of("c", changed); });
    };
    const nlohmann::json document = nlohmann::json::parse(small_nvidia_hstu());
    const HstuConfig config = hstu_config_of("c", document);
    CHECK(config.event_tokens() == 2);
    CHECK(config.context_vocabulary() == 7);
    CHECK(config.context_tokens == 2);
    CHECK(config.tasks == 5);
    CHECK(takes(document, read) == taken_of_nvidia);
    nlohmann::json further = document;
    further["max_output_length"] = 11u;
    CHECK(read(further) ==
          "c: max_output_length is 11; expected nothing in this layer, whose rows are num_positions");
  }

  TEST_CASE(
      "hstu weights: generated weights depend on name and index, and the version on the configuration") {
    HstuConfig config = hstu_config_of("config.json", nlohmann::json::parse(small_hstu()));
    const HstuModel model = generated_hstu(config);
    CHECK(model.weights.items.values[0] ==
          -71.0f / 2048);  // random-hstu-512's generator.json: first integers
    CHECK(model.weights.items.values[3] == 49.0f / 2048);
    CHECK(model.weights.layers[0].position_weight[0] == 106.0f / 128);
    CHECK(model.weights.layers[0].output.columns == 8);
    config.vocabulary = 30;
    const HstuModel longer = generated_hstu(config);
    CHECK(std::equal(model.weights.items.values.begin(), model.weights.items.values.end(),
                     longer.weights.items.values.begin()));
    CHECK(longer.version != model.version);
    config.kind = HstuLayerKind::stu, config.time_buckets = 0;
    CHECK(generated_hstu(config).weights.layers[0].output.columns == 24);
  }

  TEST_CASE(
      "hstu model: a directory has a generator or a weights file, and a generator must describe the "
      "generated values") {
    const TestFolder folder;
    folder.write("config.json", small_hstu());
    CHECK(load_error_of([&] { read_hstu(folder.path()); }).find("model.safetensors") != std::string::npos);
    folder.write("generator.json", R"({"task_head.fc2.bias":{"shape":[1],"log2_scale":-3}})");
    CHECK(load_error_of([&] { read_hstu(folder.path()); }) ==
          (folder.path() / "generator.json").string() +
              ": task_head.fc2.bias.log2_scale is -3; expected -2, the generated value");
    folder.write("generator.json", "{}");
    CHECK(read_hstu(folder.path()).version.size() == 64);
    folder.write("model.safetensors", "");
    CHECK(load_error_of([&] { read_hstu(folder.path()); }).find("has both") != std::string::npos);
  }

  TEST_CASE(
      "hstu time buckets: a boundary is the first whole second of its bucket, and steps equal the buckets "
      "per key") {
    const TimeBuckets buckets(0.301, 128);
    CHECK(buckets.bucket(0) == 0);
    CHECK(buckets.bucket(1) == 0);
    CHECK(buckets.bucket(2) == 2);  // e^0.301 and e^0.602 are both below 2
    CHECK(buckets.bucket(4643597) == 50);
    CHECK(buckets.bucket(4643598) == 51);
    CHECK(buckets.bucket(UINT64_MAX) == 128);
    const std::vector<std::int64_t> sorted{INT64_MIN, -5, 3, 3, 90, 100, 5000, 5001},
        mixed{7, 100, -3, 100, 100, 6000};
    for (const auto& keys : {sorted, mixed})
      for (const std::int64_t row :
           {std::int64_t{-100}, std::int64_t{3}, std::int64_t{101}, std::int64_t{5001}, INT64_MAX}) {
        std::vector<BucketStep> steps;
        append_steps(buckets, row, keys, keys == sorted, steps);
        REQUIRE(steps.front().key == 0);
        std::size_t step = 0;
        for (std::uint32_t key = 0; key < keys.size(); ++key) {
          while (step + 1 < steps.size() && steps[step + 1].key <= key) ++step;
          CHECK(steps[step].bucket == buckets.bucket(seconds_between(row, keys[key])));
        }
        for (std::size_t s = 1; s < steps.size(); ++s) CHECK(steps[s].bucket != steps[s - 1].bucket);
      }
  }
}
