#include "deploy/convert/meta_research.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "deploy/convert/state_dict.h"
#include "deploy/testing/conversion_test.h"
#include "deploy/testing/torch_archive_test.h"
#include "kernels/testing/test_folder.h"

using namespace troupe;
using namespace troupe::deploy;

namespace meta_research_test {

using Tensors = std::vector<TestTensor>;

// A checkpoint with 3 items of width 4, 5 positions, 2 heads with dqk 1 and dv 3.
const char* const hstu_bindings =
    "train_fn.main_module = 'HSTU'\n"
    "train_fn.max_sequence_length = 3\n"
    "train_fn.gr_output_length = 1\n"
    "train_fn.item_embedding_dim = 4\n"
    "train_fn.interaction_module_type = 'DotProduct'\n"
    "hstu_encoder.num_blocks = 1\n"
    "hstu_encoder.num_heads = 2\n"
    "hstu_encoder.dqk = 1\n"
    "hstu_encoder.dv = 3\n";
const std::string layer = "module._hstu._attention_layers.0.";

Tensors hstu_tensors() {
  return {{"module._attn_mask", {5, 5}, std::string(25, '\1'), "BoolStorage"},
          float_tensor("module._embedding_module._item_emb.weight", {4, 4}, counted(16, 100)),
          float_tensor("module._input_features_preproc._pos_emb.weight", {5, 4}, counted(20, 200)),
          float_tensor(layer + "_uvqk", {4, 16}, counted(64, 300)),
          float_tensor(layer + "_rel_attn_bias._ts_w", {129}, counted(129, 400)),
          float_tensor(layer + "_rel_attn_bias._pos_w", {9}, counted(9, 600)),
          float_tensor(layer + "_o.weight", {4, 6}, counted(24, 700)),
          float_tensor(layer + "_o.bias", {4}, counted(4, 800))};
}

const char* const sasrec_bindings =
    "train_fn.max_sequence_length = 3\n"
    "train_fn.gr_output_length = 1\n"
    "train_fn.item_embedding_dim = 4\n"
    "train_fn.interaction_module_type = 'DotProduct'\n"
    "train_fn.item_l2_norm = True\n"
    "sasrec_encoder.num_blocks = 1\n"
    "sasrec_encoder.num_heads = 2\n"
    "sasrec_encoder.ffn_hidden_dim = 3\n"
    "sasrec_encoder.ffn_activation_fn = 'gelu'\n";

Tensors sasrec_tensors() {
  return {float_tensor("_embedding_module._item_emb.weight", {4, 4}, counted(16, 100)),
          float_tensor("_input_features_preproc._pos_emb.weight", {5, 4}, counted(20, 200)),
          float_tensor("attention_layers.0.in_proj_weight", {12, 4}, counted(48, 300)),
          float_tensor("attention_layers.0.in_proj_bias", {12}, counted(12, 400)),
          float_tensor("attention_layers.0.out_proj.weight", {4, 4}, counted(16, 500)),
          float_tensor("attention_layers.0.out_proj.bias", {4}, counted(4, 600)),
          float_tensor("forward_layers.0._conv1d.0.weight", {3, 4, 1}, counted(12, 700)),
          float_tensor("forward_layers.0._conv1d.0.bias", {3}, counted(3, 800)),
          float_tensor("forward_layers.0._conv1d.3.weight", {4, 3, 1}, counted(12, 900)),
          float_tensor("forward_layers.0._conv1d.3.bias", {4}, counted(4, 1000))};
}

// `member`: steps of the pickle that add a member to the state dictionary.
ConvertedModel convert(const Tensors& tensors, const std::string& bindings, const std::string& member = "") {
  ZipFile file = torch_parts(tensors);
  const std::string begin = ")R(";  // of the members
  file.parts.front().data.insert(file.parts.front().data.find(begin) + begin.size(), member);
  const std::string bytes = file.bytes();
  return convert_meta_research(TorchBytes("x.pt", std::as_bytes(std::span(bytes))),
                               GinFile("x.gin", bindings));
}

std::string refused(const Tensors& tensors, const std::string& bindings, const std::string& member = "") {
  return kernels::load_error_of([&] { convert(tensors, bindings, member); });
}

Tensors without(Tensors tensors, const std::string& name) {
  std::erase_if(tensors, [&](const TestTensor& tensor) { return tensor.name == name; });
  return tensors;
}

TEST_CASE("meta research: HSTU is written with the published defaults, its projection transposed") {
  const ConvertedModel model = convert(hstu_tensors(), hstu_bindings);
  CHECK(model.num_items == 3);
  const auto& config = model.config;
  CHECK(config["model_type"] == "hstu");
  CHECK(config["num_items"] == 3);
  CHECK(config["max_sequence_length"] == 3);
  CHECK(config["max_output_length"] == 2);
  CHECK(config["attention_normalizer"] == 5);
  CHECK(config["attention_dim"] == 1);
  CHECK(config["linear_dim"] == 3);
  CHECK(config["attention_activation"] == "silu");
  CHECK(config["linear_activation"] == "silu");
  CHECK(config["concat_ua"] == false);
  CHECK(config["relative_attention_bias"]["max_positions"] == 5);
  CHECK(config["item_norm"] == "none");  // item_l2_norm is False unless a binding says otherwise
  CHECK(config["output_norm"] == "l2");
  CHECK(config["temperature"] == 0.05);
  const ConvertedTensor& uvqk = tensor(model, "layers.0.uvqk_proj.weight");
  CHECK(uvqk.shape == TensorShape{16, 4});
  CHECK(uvqk.values[1] == 316);  // row 0, column 1 was row 1, column 0
  CHECK(tensor(model, "layers.0.output_proj.weight").values == counted(24, 700));
  CHECK(tensor(model, "layers.0.relative_attention_bias.position_weight").values == counted(9, 600));
  CHECK(tensor(model, "layers.0.relative_attention_bias.time_weight").shape == TensorShape{129});
  CHECK(model.tensors.size() == 7);
  CHECK(says(model.report.assumed, "train_fn.temperature = 0.05"));
  CHECK(says(model.report.assumed, "hstu_encoder.normalization = \"rel_bias\""));
  CHECK(says(model.report.transposed, "layers.0.uvqk_proj.weight"));
  CHECK(says(model.report.dropped, "module._attn_mask"));
  CHECK(says(model.report.dropped, "epoch"));
}

TEST_CASE("meta research: what the published code can do otherwise is taken from its bindings") {
  const ConvertedModel model = convert(hstu_tensors(), std::string(hstu_bindings) +
                                                           "train_fn.user_embedding_norm = 'layer_norm'\n"
                                                           "train_fn.item_l2_norm = True\n"
                                                           "train_fn.temperature = 1.0\n"
                                                           "train_fn.l2_norm_eps = 1e-4\n"
                                                           "hstu_encoder.linear_activation = 'relu'\n"
                                                           "train_fn.tpyo = 3\n"
                                                           "hstu_encoder.max_sequence_length = 9\n"
                                                           "sasrec_encoder.tpyo = 3\n"
                                                           "train_fn.learning_rate = 1e-3\n");
  CHECK(model.config["output_norm"] == "layer_norm");
  CHECK(model.config["output_norm_eps"] == 1e-6);
  CHECK(model.config["item_norm"] == "l2");
  CHECK(model.config["l2_norm_eps"] == 1e-4);
  CHECK(model.config["temperature"] == 1.0);
  CHECK(model.config["linear_activation"] == "none");  // the code knows silu, and takes no other word
  CHECK(says(model.report.assumed, "linear_activation \"relu\" is no activation"));
  CHECK(model.report.unknown == std::vector<std::string>{"train_fn.tpyo"});
  CHECK(says(model.report.dropped, "train_fn.learning_rate"));
}

TEST_CASE("meta research: concatenation widens the output projection") {
  Tensors tensors = without(hstu_tensors(), layer + "_o.weight");
  tensors.push_back(float_tensor(layer + "_o.weight", {4, 18}, counted(72, 700)));
  const std::string bindings = std::string(hstu_bindings) + "hstu_encoder.concat_ua = True\n";
  CHECK(tensor(convert(tensors, bindings), "layers.0.output_proj.weight").shape == TensorShape{4, 18});
  CHECK(has(refused(hstu_tensors(), bindings),
            "_o.weight\" has the shape [4, 6]; expected [4, 18], which follows from num_heads * dv"));
}

TEST_CASE("meta research: softmax is one head over all, with or without a bias") {
  const std::string bindings =
      std::string(hstu_bindings) + "hstu_encoder.normalization = 'softmax_rel_bias'\n";
  const ConvertedModel model = convert(hstu_tensors(), bindings);
  CHECK(model.config["attention_activation"] == "softmax");
  CHECK(model.config["num_attention_heads"] == 1);
  CHECK(model.config["attention_dim"] == 2);
  CHECK(model.config["linear_dim"] == 6);
  CHECK(model.config["attention_alpha"] == 1.0);
  CHECK(model.config["attention_normalizer"] == 1);
  CHECK(says(model.report.assumed, "all 2 heads as one"));
  const Tensors bare =
      without(without(hstu_tensors(), layer + "_rel_attn_bias._ts_w"), layer + "_rel_attn_bias._pos_w");
  const std::string off = "hstu_encoder.enable_relative_attention_bias = False\n";
  CHECK(convert(bare, bindings + off).config["relative_attention_bias"].is_null());
  CHECK(has(refused(bare, hstu_bindings + off), "expected True, which the code demands"));
  CHECK(has(refused(bare, bindings), "_rel_attn_bias._pos_w\" is missing"));
}

TEST_CASE("meta research: what cannot be computed is refused by name") {
  const std::string bindings = hstu_bindings;
  const auto with = [&](const std::string& line) { return refused(hstu_tensors(), bindings + line + "\n"); };
  CHECK(has(with("train_fn.interaction_module_type = 'MoL'"), "the learned similarity MoL is not computed"));
  CHECK(has(with("train_fn.main_module = 'Other'"), "expected \"HSTU\" or \"SASRec\""));
  CHECK(has(with("hstu_encoder.normalization = 'other'"),
            "x.gin:10: hstu_encoder.normalization is \"'other'\""));
  CHECK(has(with("hstu_encoder.linear_config = 'other'"), "expected \"uvqk\""));
  CHECK(has(with("train_fn.user_embedding_norm = 'other'"), "expected \"l2_norm\" or \"layer_norm\""));
  CHECK(has(with("train_fn.embedding_module_type = 'other'"), "expected \"local\""));
  CHECK(has(with("hstu_encoder.num_blocks = 2"), "_attention_layers.1._uvqk\" is missing"));
  CHECK(has(with("hstu_encoder.dqk = 2"),
            "expected [4, 20], which follows from item_embedding_dim and num_heads"));
  CHECK(has(with("train_fn.max_sequence_length = 4"), "which follows from max_sequence_length"));
  CHECK(
      has(refused(hstu_tensors(), "train_fn.main_module = 'HSTU'\n"), "no train_fn.interaction_module_type"));
  Tensors more = hstu_tensors();
  more.push_back(float_tensor("module._ndp_module._gate.weight", {1}, {1}));
  CHECK(has(refused(more, bindings),
            "has tensors that are not of this model: module._ndp_module._gate.weight"));
}

TEST_CASE("meta research: members that are no tensors, and bindings that the encoder lacks, are refused") {
  const std::string opaque = pickled_name("torch", "device") + "(" + pickled("cpu") + "tR";
  CHECK(has(refused(hstu_tensors(), hstu_bindings, pickled("module.gate") + opaque),
            "has tensors that are not of this model: module.gate"));
  CHECK(has(refused(hstu_tensors(), hstu_bindings, pickled("module.a_extra_state") + "]"),
            "has tensors that are not of this model: module.a_extra_state"));
  CHECK(has(refused(hstu_tensors(), hstu_bindings, "K\7]"),
            "a member has the key 7; expected names of tensors"));
  const std::string bindings = hstu_bindings;
  CHECK(has(refused(hstu_tensors(), bindings + "hstu_encoder.gate = 3\n"),
            "x.gin:10: hstu_encoder.gate is \"3\"; expected a parameter of the published code"));
  CHECK(has(refused(hstu_tensors(), bindings + "get_sequential_encoder.gate = 3\n"), "x.gin:10: "));
  CHECK(has(refused(sasrec_tensors(), std::string(sasrec_bindings) + "sasrec_encoder.gate = 3\n"),
            "x.gin:10: "));
}

TEST_CASE("meta research: ratings that the encoder reads become an action table") {
  Tensors tensors = hstu_tensors();
  tensors[1] = float_tensor("module._embedding_module._item_emb.weight", {4, 3}, counted(12, 100));
  tensors.push_back(
      float_tensor("module._input_features_preproc._rating_emb.weight", {6, 1}, counted(6, 900)));
  std::string bindings = hstu_bindings;
  bindings += "train_fn.item_embedding_dim = 3\n";
  const ConvertedModel model = convert(tensors, bindings);
  CHECK(model.config["hidden_size"] == 4);
  CHECK(model.config["action_embedding"]["num_actions"] == 6);
  CHECK(model.config["action_embedding"]["dim"] == 1);
  CHECK(tensor(model, "action_embedding.weight").values == counted(6, 900));
  // The combined preprocessor gives ratings positions of their own.
  tensors = hstu_tensors();
  tensors.push_back(
      float_tensor("module._input_features_preproc._rating_emb.weight", {6, 4}, counted(24, 900)));
  CHECK(has(refused(tensors, hstu_bindings), "gives ratings positions of their own"));
}

TEST_CASE("meta research: categories of items are gathered") {
  Tensors tensors = hstu_tensors();
  const std::string name = "module._embedding_module._item_id_to_category_id";
  tensors.push_back({name, {5}, bytes_of_numbers<std::int64_t>({2, 0, 0, 1, 2}), "LongStorage"});
  const ConvertedModel model = convert(tensors, hstu_bindings);
  CHECK(model.num_items == 5);
  const auto& items = tensor(model, "item_embedding.weight");
  CHECK(items.shape == TensorShape{6, 4});
  CHECK(items.values[4] == 112);  // item 1 has category 2, row 3
  CHECK(items.values[8] == 104);
  tensors.back().data = bytes_of_numbers<std::int64_t>({2, 0, 3, 1, 2});
  CHECK(has(refused(tensors, hstu_bindings), "an item has the category 3"));
}

TEST_CASE("meta research: SASRec is the default encoder, its convolutions linear layers") {
  const ConvertedModel model = convert(sasrec_tensors(), sasrec_bindings);
  CHECK(model.config["model_type"] == "sasrec");
  CHECK(model.config["num_attention_heads"] == 2);
  CHECK(model.config["intermediate_size"] == 3);
  CHECK(model.config["hidden_activation"] == "gelu");
  CHECK(model.config["layer_norm_eps"] == 1e-8);
  CHECK(model.config["item_norm"] == "l2");
  CHECK(tensor(model, "layers.0.qkv_proj.weight").values == counted(48, 300));
  CHECK(tensor(model, "layers.0.ffn.fc1.weight").shape == TensorShape{3, 4});
  CHECK(tensor(model, "layers.0.ffn.fc2.weight").values == counted(12, 900));
  CHECK(model.tensors.size() == 10);
  CHECK(says(model.report.assumed, "train_fn.main_module = \"SASRec\""));
  const std::string bindings = sasrec_bindings;
  CHECK(has(refused(sasrec_tensors(), bindings + "sasrec_encoder.num_heads = 3\n"),
            "a divisor of item_embedding_dim"));
  CHECK(has(refused(sasrec_tensors(), bindings + "sasrec_encoder.ffn_activation_fn = 'silu'\n"),
            "expected \"relu\" or \"gelu\""));
  CHECK(has(refused(without(sasrec_tensors(), "attention_layers.0.in_proj_bias"), bindings),
            "in_proj_bias\" is missing"));
}

TEST_CASE("meta research: numbers of float64 are rounded, and the report says so") {
  Tensors tensors = hstu_tensors();
  tensors.back().data = bytes_of_numbers<double>({0.1, 1, 2, 3});
  tensors.back().storage_class = "DoubleStorage";
  const ConvertedModel model = convert(tensors, hstu_bindings);
  CHECK(tensor(model, "layers.0.output_proj.bias").values[0] == 0.1f);
  CHECK(says(model.report.assumed, "float32 is enough for 1 tensors of float64, which are rounded"));
  CHECK_FALSE(says(convert(hstu_tensors(), hstu_bindings).report.assumed, "float64"));
}

TEST_CASE("meta research: 16-bit checkpoints and those of a compiled module are read alike") {
  Tensors tensors = hstu_tensors();
  for (TestTensor& one : tensors) {
    one.name.insert(0, "_orig_mod.");
    if (one.storage_class != "FloatStorage") continue;
    std::vector<float> values(one.data.size() / 4);
    std::memcpy(values.data(), one.data.data(), one.data.size());
    one.data = half_bytes(values, true);
    one.storage_class = "BFloat16Storage";
  }
  const ConvertedModel model =
      convert(tensors, std::string(hstu_bindings) + "train_fn.main_module_bf16 = True\n");
  CHECK(tensor(model, "layers.0.output_proj.bias").values == std::vector<float>{800, 800, 800, 804});
  CHECK(says(model.report.assumed, "computed in bfloat16"));
}

}  // namespace meta_research_test
