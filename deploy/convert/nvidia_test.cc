#include "deploy/convert/nvidia.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>

#include "deploy/convert/state_dict.h"
#include "deploy/testing/conversion_test.h"
#include "deploy/testing/torch_archive_test.h"
#include "kernels/testing/test_folder.h"

using namespace troupe;
using namespace troupe::deploy;

namespace nvidia_test {

namespace fs = std::filesystem;
using Tensors = std::vector<TestTensor>;

constexpr std::int64_t hidden = 3, heads = 2, channels = 2, width = heads * channels;
const std::string layer = "_hstu_block._attention_layers.0.";
const std::string flat = "_embedding_collection._data_parallel_embedding_collection.embeddings.";
const std::string sparse =
    "dynamicemb_module/model._embedding_collection._model_parallel_embedding_collection/";

const std::string network =
    "NetworkArgs.num_layers = 1\n"
    "NetworkArgs.hidden_size = 3\n"
    "NetworkArgs.num_attention_heads = 2\n"
    "NetworkArgs.kv_channels = 2\n"
    "NetworkArgs.num_position_buckets = 7\n";
// Tables described by the file: items by key, and two tables in one parameter.
const std::string described =
    "item_table/DynamicEmbeddingArgs.feature_names = ['item']\n"
    "item_table/DynamicEmbeddingArgs.table_name = 'items'\n"
    "item_table/DynamicEmbeddingArgs.item_vocab_size_or_capacity = 1000\n"
    "action_table/EmbeddingArgs.feature_names = ['action']\n"
    "action_table/EmbeddingArgs.table_name = 'actions'\n"
    "action_table/EmbeddingArgs.item_vocab_size_or_capacity = 4\n"
    "sex_table/EmbeddingArgs.feature_names = ['sex']\n"
    "sex_table/EmbeddingArgs.table_name = 'sex'\n"
    "sex_table/EmbeddingArgs.item_vocab_size_or_capacity = 2\n"
    "events/FeatureArgs.feature_names = ['item', 'action']\n"
    "events/FeatureArgs.max_sequence_length = 12\n"
    "BenchmarkDatasetArgs.feature_args = [@events/FeatureArgs()]\n"
    "BenchmarkDatasetArgs.embedding_args = [@item_table/DynamicEmbeddingArgs(), "
    "@action_table/EmbeddingArgs(),\n"
    "                                       @sex_table/EmbeddingArgs()]\n"
    "BenchmarkDatasetArgs.item_feature_name = 'item'\n"
    "BenchmarkDatasetArgs.contextual_feature_names = ['sex']\n"
    "BenchmarkDatasetArgs.action_feature_name = 'action'\n"
    "BenchmarkDatasetArgs.max_num_candidates = 2\n";
const std::string head = "RankingArgs.prediction_head_arch = [5, 2]\nRankingArgs.num_tasks = 2\n";

// Value of the projection from an input to channel c of part p (U, V, Q, K) of head h; input `hidden` is the
// bias.
float uvqk(std::int64_t input, std::int64_t p, std::int64_t h, std::int64_t c) {
  return static_cast<float>(1000 * input + 100 * p + 10 * h + c);
}

struct Checkpoint : kernels::TestFolder {
  Checkpoint() { fs::create_directories(path() / sparse); }

  void write(const std::string& name, const std::string& bytes) const {
    fs::create_directories((path() / name).parent_path());
    std::ofstream(path() / name, std::ios::binary) << bytes;
  }
  void write_table(const std::string& name, const std::vector<std::int64_t>& keys,
                   const std::vector<float>& rows, int rank = 0, int world = 1) const {
    const std::string end = ".rank_" + std::to_string(rank) + ".world_size_" + std::to_string(world);
    write(sparse + name + "_emb_keys" + end, bytes_of_numbers(keys));
    write(sparse + name + "_emb_values" + end, bytes_of_numbers(rows));
  }
  void write_model(const Tensors& tensors, int rank = 0) const {
    write("torch_module/model." + std::to_string(rank) + ".pth", torch_archive(tensors));
  }
};

Tensors shared_tensors(bool ranking) {
  Tensors tensors{float_tensor(flat + "actions/sex_weights", {6 * hidden}, counted(6 * hidden, 100)),
                  float_tensor("_hstu_block._preprocessor._positional_encoder._position_embeddings_weight",
                               {7, hidden}, counted(7 * hidden, 200)),
                  float_tensor(layer + "_input_layernorm_weight", {hidden}, counted(hidden, 300)),
                  float_tensor(layer + "_input_layernorm_bias", {hidden}, counted(hidden, 310))};
  if (!ranking) return tensors;
  tensors.push_back(float_tensor("_mlp._mlp.0.weight", {5, hidden}, counted(5 * hidden, 400)));
  tensors.push_back(float_tensor("_mlp._mlp.0.bias", {5}, counted(5, 430)));
  tensors.push_back(float_tensor("_mlp._mlp.2.weight", {2, 5}, counted(10, 440)));
  tensors.push_back(float_tensor("_mlp._mlp.2.bias", {2}, counted(2, 460)));
  return tensors;
}

// Columns of the fused layer: parts, inside each heads.
Tensors fused_tensors() {
  std::vector<float> weight, bias, projection;
  for (std::int64_t input = 0; input <= hidden; ++input)
    for (std::int64_t p = 0; p < 4; ++p)
      for (std::int64_t h = 0; h < heads; ++h)
        for (std::int64_t c = 0; c < channels; ++c)
          (input < hidden ? weight : bias).push_back(uvqk(input, p, h, c));
  for (std::int64_t i = 0; i < width; ++i)
    for (std::int64_t o = 0; o < hidden; ++o) projection.push_back(static_cast<float>(100 * o + i));
  return {float_tensor(layer + "_linear_uvqk_weight", {hidden, 4 * width}, weight),
          float_tensor(layer + "_linear_uvqk_bias", {4 * width}, bias),
          float_tensor(layer + "_output_layernorm_weight", {width}, counted(width, 500)),
          float_tensor(layer + "_output_layernorm_bias", {width}, counted(width, 510)),
          float_tensor(layer + "_linear_proj_weight", {width, hidden}, projection)};
}

// Rows of the native layer: heads, inside each parts. `rank` of `world` has its share of the heads.
Tensors native_tensors(std::int64_t rank, std::int64_t world) {
  std::vector<float> weight, bias, projection;
  const std::int64_t share = heads / world;
  for (std::int64_t h = rank * share; h < (rank + 1) * share; ++h)
    for (std::int64_t p = 0; p < 4; ++p)
      for (std::int64_t c = 0; c < channels; ++c) {
        for (std::int64_t input = 0; input < hidden; ++input) weight.push_back(uvqk(input, p, h, c));
        bias.push_back(uvqk(hidden, p, h, c));
      }
  for (std::int64_t o = 0; o < hidden; ++o)
    for (std::int64_t i = rank * share * channels; i < (rank + 1) * share * channels; ++i)
      projection.push_back(static_cast<float>(100 * o + i));
  return {float_tensor(layer + "_linear_uvqk.weight", {4 * width / world, hidden}, weight),
          float_tensor(layer + "_linear_uvqk.bias", {4 * width / world}, bias),
          float_tensor(layer + "_output_ln_dropout_mul.weight", {width}, counted(width, 500)),
          float_tensor(layer + "_output_ln_dropout_mul.bias", {width}, counted(width, 510)),
          float_tensor(layer + "_linear_proj.weight", {hidden, width / world}, projection)};
}

Tensors joined(Tensors one, const Tensors& other) {
  one.insert(one.end(), other.begin(), other.end());
  return one;
}

void write_items(const Checkpoint& checkpoint) {
  checkpoint.write_table("items", {70, -5}, counted(2 * hidden, 10), 0, 2);
  checkpoint.write_table("items", {33}, counted(hidden, 20), 1, 2);
}

ConvertedModel convert(const Checkpoint& checkpoint, const std::string& bindings) {
  return convert_nvidia(checkpoint.path(), GinFile("x.gin", bindings));
}

std::string refused(const Checkpoint& checkpoint, const std::string& bindings) {
  return kernels::load_error_of([&] { convert(checkpoint, bindings); });
}

TEST_CASE("nvidia: fused, native and tensor-parallel layers give one model") {
  const Checkpoint fused, native, parallel;
  for (const Checkpoint* one : {&fused, &native, &parallel}) write_items(*one);
  fused.write_model(joined(shared_tensors(true), fused_tensors()));
  native.write_model(joined(shared_tensors(true), native_tensors(0, 1)));
  parallel.write_model(joined(shared_tensors(true), native_tensors(0, 2)));
  parallel.write_model(joined(shared_tensors(true), native_tensors(1, 2)), 1);
  const std::string bindings = network + described + head;
  const ConvertedModel one = convert(fused, bindings), two = convert(native, bindings),
                       three = convert(parallel,
                                       bindings + "TensorModelParallelArgs.tensor_model_parallel_size = 2\n");
  CHECK(one.config == two.config);
  CHECK(one.config == three.config);
  REQUIRE(one.tensors.size() == two.tensors.size());
  for (const ConvertedTensor& expected : one.tensors) {
    CAPTURE(expected.name);
    CHECK(tensor(two, expected.name).shape == expected.shape);
    CHECK(tensor(two, expected.name).values == expected.values);
    CHECK(tensor(three, expected.name).values == expected.values);
  }
  parallel.write_model(joined(native_tensors(1, 2), {float_tensor("_hstu_block.more", {1}, {1})}), 1);
  CHECK(has(refused(parallel, bindings + "TensorModelParallelArgs.tensor_model_parallel_size = 2\n"),
            "model.1.pth: has the tensor \"_hstu_block.more\"; expected the tensors of "));
  const ConvertedTensor& rows = tensor(one, "layers.0.uvqk_proj.weight");
  CHECK(rows.shape == TensorShape{4 * width, hidden});
  CHECK(rows.values[static_cast<std::size_t>((2 * width + channels) * hidden + 1)] == uvqk(1, 2, 1, 0));
  CHECK(tensor(one, "layers.0.uvqk_proj.bias").values[width + 1] == uvqk(hidden, 1, 0, 1));
  CHECK(tensor(one, "layers.0.output_proj.weight").values[width + 2] == 102);
}

TEST_CASE("nvidia: the shape, the tables by key and the tables in one parameter are written") {
  const Checkpoint checkpoint;
  write_items(checkpoint);
  checkpoint.write_model(joined(shared_tensors(true), fused_tensors()));
  const ConvertedModel model = convert(checkpoint, network + described + head);
  const auto& config = model.config;
  CHECK(config["layer"] == "nvidia");
  CHECK(config["event_tokens"] == "item_action");
  CHECK(config["max_sequence_length"] == 10);
  CHECK(config["num_actions"] == 4);
  CHECK(config["context_vocabulary"] == nlohmann::ordered_json::array({2}));
  CHECK(config["context_sees_history"] == true);
  CHECK(config["attention_normalizer"] == 25);  // 2 * (10 events + 2 candidates) + 1 contextual token
  CHECK(config["attention_alpha"].get<double>() == doctest::Approx(1 / std::sqrt(2.0)));
  CHECK(config["num_positions"] == 7);
  CHECK(config["input_norm_affine"] == true);
  CHECK(config["output_norm_affine"] == true);
  CHECK(config["uvqk_bias"] == true);
  CHECK(config["layer_norm_eps"] == 1e-5);
  CHECK(config["task_head"]["layers"] == nlohmann::ordered_json::array({5, 2}));
  CHECK(config["task_head"]["activation"] == "relu");
  // Items are rows in the order of their keys, behind row 0.
  REQUIRE(model.items.size() == 3);
  CHECK(model.items[0].id == "-5");
  CHECK(model.items[2].id == "70");
  CHECK(model.items[2].row == 3);
  CHECK(tensor(model, "item_embedding.weight").values ==
        std::vector<float>{0, 0, 0, 13, 14, 15, 20, 21, 22, 10, 11, 12});
  CHECK(tensor(model, "action_embedding.weight").values == counted(4 * hidden, 100));
  CHECK(tensor(model, "context_embedding.0.weight").values == counted(2 * hidden, 112));
  CHECK(says(model.report.assumed, "attention is divided by 25"));
  CHECK(says(model.report.assumed, "computed in bfloat16"));
}

TEST_CASE("nvidia: a model without a head retrieves items, with the constants of the code") {
  const Checkpoint checkpoint;
  write_items(checkpoint);
  checkpoint.write_model(joined(shared_tensors(false), fused_tensors()));
  const ConvertedModel model = convert(checkpoint, network + described + "NetworkArgs.scaling_seqlen = 40\n");
  CHECK_FALSE(model.config.contains("task_head"));
  CHECK(model.config["temperature"] == 0.05);
  CHECK(model.config["output_norm"] == "l2");
  CHECK(model.config["attention_normalizer"] == 40);
}

TEST_CASE("nvidia: the tables of its own data sets are known, and users' rows are made dense") {
  const Checkpoint checkpoint;
  checkpoint.write_table("movie_id", {4, 9}, counted(2 * hidden, 10));
  checkpoint.write_table("user_id", {0, 2}, counted(2 * hidden, 20));
  Tensors tensors = joined(shared_tensors(true), fused_tensors());
  tensors[0] = float_tensor(flat + "action_weights_weights", {11 * hidden}, counted(11 * hidden, 100));
  checkpoint.write_model(tensors);
  const std::string data =
      "DatasetArgs.dataset_name = 'ml-20m'\nDatasetArgs.max_history_seqlen = "
      "200\nDatasetArgs.max_num_candidates = 20\n";
  const ConvertedModel model = convert(checkpoint, network + data + head);
  CHECK(model.config["attention_normalizer"] == 441);
  CHECK(model.config["num_actions"] == 11);
  CHECK(model.config["context_vocabulary"] == nlohmann::ordered_json::array({3}));
  CHECK(tensor(model, "context_embedding.0.weight").values ==
        std::vector<float>{20, 21, 22, 0, 0, 0, 23, 24, 25});
  CHECK(says(model.report.assumed, "values of user_id without a row in the checkpoint (1) have zeros"));
  checkpoint.write_table("user_id", {0, 1'000'000}, counted(2 * hidden, 20));
  CHECK(has(refused(checkpoint, network + data + head),
            "the keys of the table \"user_id\" reach from 0 to 1000000"));
  CHECK(has(refused(checkpoint, network + "DatasetArgs.dataset_name = 'mine'\n"), "by BenchmarkDatasetArgs"));
  CHECK(has(refused(checkpoint, network), "does not say which table is the items'"));
}

TEST_CASE("nvidia: tables go through the perceptrons of the preprocessor") {
  const Checkpoint checkpoint;
  checkpoint.write_table("items", {1, 2}, {1, -1, 2, 0}, 0, 1);  // width 2
  Tensors tensors = joined(shared_tensors(true), fused_tensors());
  tensors[0] = float_tensor(flat + "actions/sex_weights", {12}, counted(12, 1));
  for (const std::string mlp : {"_item_mlp", "_contextual_mlp"}) {
    const std::string name = "_hstu_block._preprocessor." + mlp + "._mlp.";
    tensors.push_back(float_tensor(name + "0.weight", {3, 2}, {1, 0, 0, 1, 1, 1}));
    tensors.push_back(float_tensor(name + "0.bias", {3}, {0, 0, 1}));
    tensors.push_back(float_tensor(name + "2.weight", {3, 3}, {1, 0, 0, 0, 1, 0, 0, 0, 2}));
    tensors.push_back(float_tensor(name + "2.bias", {3}, {0, 10, 0}));
  }
  checkpoint.write_model(tensors);
  const std::string wide = "NetworkArgs.item_embedding_dim = 2\nNetworkArgs.contextual_embedding_dim = 2\n";
  const ConvertedModel model = convert(checkpoint, network + described + head + wide);
  CHECK(tensor(model, "item_embedding.weight").values == std::vector<float>{0, 0, 0, 1, 10, 2, 2, 10, 6});
  CHECK(tensor(model, "context_embedding.0.weight").values == std::vector<float>{9, 20, 40, 11, 22, 48});
  const ConvertedModel bare = convert(
      checkpoint, network + described + head + wide + "BenchmarkDatasetArgs.contextual_feature_names = []\n");
  CHECK(says(bare.report.dropped, "_contextual_mlp._mlp.0.weight: a perceptron that no token"));
  std::erase_if(tensors, [](const TestTensor& one) { return one.name.starts_with("_mlp."); });
  checkpoint.write_model(tensors);
  CHECK(has(refused(checkpoint, network + described + wide), "expected -1 in a retrieval model"));
}

TEST_CASE("nvidia: what cannot be computed is refused by name") {
  const Checkpoint checkpoint;
  write_items(checkpoint);
  Tensors tensors = joined(shared_tensors(true), fused_tensors());
  checkpoint.write_model(tensors);
  const std::string bindings = network + described + head;
  CHECK(has(refused(checkpoint, bindings + "NetworkArgs.is_causal = False\n"),
            "NetworkArgs.is_causal is \"False\""));
  CHECK(has(refused(checkpoint, bindings + "NetworkArgs.target_group_size = 2\n"),
            "NetworkArgs.target_group_size"));
  CHECK(has(refused(checkpoint, bindings + "NetworkArgs.kv_channels = 3\n"),
            "_output_layernorm_weight\" has the shape"));
  CHECK(
      has(refused(checkpoint, bindings + "NetworkArgs.num_position_buckets = 8\n"), "num_position_buckets"));
  CHECK(
      has(refused(checkpoint, bindings + "BenchmarkDatasetArgs.item_feature_name = 'other'\n"), "\"other\""));
  CHECK(has(refused(checkpoint, bindings + "sex_table/EmbeddingArgs.item_vocab_size_or_capacity = 3\n"),
            "actions/sex_weights\" has the shape [18]; expected [21]"));
  for (const std::string arguments : {"NetworkArgs", "RankingArgs"})
    CHECK(has(refused(checkpoint, bindings + arguments + ".gate = 3\n"),
              arguments + ".gate is \"3\"; expected a parameter of the published code"));
  checkpoint.write_model(joined(shared_tensors(false), fused_tensors()));
  CHECK(has(refused(checkpoint, bindings), "expected no such binding, because the checkpoint has no head"));
  tensors.push_back(float_tensor("_hstu_block._preprocessor._positional_encoder._timestamp_embeddings_weight",
                                 {2, hidden}, counted(2 * hidden, 0)));
  checkpoint.write_model(tensors);
  CHECK(has(refused(checkpoint, bindings), "_timestamp_embeddings_weight"));
}

TEST_CASE("nvidia: files of keys and rows must fit each other") {
  const std::string bindings = network + described + head;
  const auto said = [&](const std::function<void(const Checkpoint&)>& change) {
    const Checkpoint checkpoint;
    write_items(checkpoint);
    checkpoint.write_model(joined(shared_tensors(true), fused_tensors()));
    change(checkpoint);
    return refused(checkpoint, bindings);
  };
  CHECK(said([](const Checkpoint&) {}) == "");
  CHECK(has(said([](const Checkpoint& one) { one.write_table("items", {70}, counted(hidden, 0), 1, 2); }),
            "the key 70 occurs twice"));
  CHECK(has(said([](const Checkpoint& one) { one.write_table("items", {1}, counted(hidden + 1, 0), 1, 2); }),
            "16 bytes of values; expected 1 rows of 3 float32"));
  CHECK(has(said([](const Checkpoint& one) {
              one.write(sparse + "items_emb_keys.rank_0.world_size_2", "1234567");
            }),
            "7 bytes of keys"));
  CHECK(has(said([](const Checkpoint& one) {
              one.write_table("items", {1}, {1, 2, NAN}, 1, 2);
            }),
            "not finite"));
  CHECK(has(said([](const Checkpoint& one) { one.write_table("items", {1}, counted(hidden, 0), 0, 1); }),
            "is not one of 3 ranks"));
  CHECK(has(said([](const Checkpoint& one) {
              fs::remove(one.path() / sparse / "items_emb_keys.rank_1.world_size_2");
            }),
            "is not one of 1 ranks"));
  CHECK(has(said([](const Checkpoint& one) { fs::remove_all(one.path() / "dynamicemb_module"); }),
            "no folder has keys of the table \"items\""));
  CHECK(has(said([](const Checkpoint& one) {
              one.write("dynamicemb_module/model.other/items_emb_keys.rank_0.world_size_1", "");
            }),
            "two folders have keys"));
  CHECK(has(said([](const Checkpoint& one) { fs::remove_all(one.path() / "torch_module"); }), "model.0.pth"));
}

}  // namespace nvidia_test
