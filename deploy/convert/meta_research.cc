// Maps tensors and bindings of Meta's research code. Names and defaults are those of
// research/trainer/train.py and research/modeling/sequential/*.py at db1bf8f2.
#include "deploy/convert/meta_research.h"

#include <array>
#include <cmath>

#include "deploy/convert/model_builder.h"
#include "kernels/checkpoint/json_file.h"

namespace troupe::deploy {
namespace {

constexpr std::uint64_t dimensions_most = 65536, lengths_most = 1 << 20, layers_most = 1024;
constexpr std::uint64_t item_rows_most = std::uint64_t{1} << 26;
constexpr std::string_view item_table = "_embedding_module._item_emb.weight";
constexpr std::string_view position_table = "_input_features_preproc._pos_emb.weight";
constexpr std::string_view rating_table = "_input_features_preproc._rating_emb.weight";
constexpr std::string_view category_buffer = "_embedding_module._item_id_to_category_id";

// Bindings that change training, evaluation or memory, and nothing of a served model, and those of arguments
// that the trainer gives itself.
constexpr std::array training_bindings{"train_fn.rank",
                                       "train_fn.world_size",
                                       "train_fn.master_port",
                                       "train_fn.dataset_name",
                                       "train_fn.positional_sampling_ratio",
                                       "train_fn.local_batch_size",
                                       "train_fn.eval_batch_size",
                                       "train_fn.eval_user_max_batch_size",
                                       "train_fn.dropout_rate",
                                       "train_fn.sampling_strategy",
                                       "train_fn.loss_module",
                                       "train_fn.loss_weights",
                                       "train_fn.num_negatives",
                                       "train_fn.loss_activation_checkpoint",
                                       "train_fn.num_epochs",
                                       "train_fn.learning_rate",
                                       "train_fn.num_warmup_steps",
                                       "train_fn.weight_decay",
                                       "train_fn.top_k_method",
                                       "train_fn.eval_interval",
                                       "train_fn.full_eval_every_n",
                                       "train_fn.save_ckpt_every_n",
                                       "train_fn.partial_eval_num_iters",
                                       "train_fn.enable_tf32",
                                       "train_fn.random_seed",
                                       "hstu_encoder.linear_dropout_rate",
                                       "hstu_encoder.attn_dropout_rate",
                                       "sasrec_encoder.ffn_dropout_rate",
                                       "sasrec_encoder.activation_checkpoint",
                                       "hstu_encoder.activation_checkpoint",
                                       "get_sequential_encoder.activation_checkpoint",
                                       "hstu_encoder.verbose",
                                       "sasrec_encoder.verbose",
                                       "get_sequential_encoder.verbose",
                                       "get_sequential_encoder.module_type",
                                       "get_sequential_encoder.max_sequence_length",
                                       "get_sequential_encoder.max_output_length",
                                       "hstu_encoder.max_sequence_length",
                                       "hstu_encoder.max_output_length",
                                       "sasrec_encoder.max_sequence_length",
                                       "sasrec_encoder.max_output_length",
                                       "create_data_loader.*",
                                       "get_weighted_loss.*",
                                       "get_similarity_function.*"};

// Common part of both encoders: the trainer's bindings, the tables, and how similarities are taken.
struct SharedPart {
  std::uint64_t item_dim = 0, hidden = 0, positions = 0, num_items = 0, actions = 0;
};

class MetaConversion {
 public:
  explicit MetaConversion(ModelBuilder& builder)
      : builder_(builder), settings_(builder.settings()), tensors_(builder.tensors()) {
    for (const char* const name : training_bindings) settings_.ignore(name);
  }

  ConvertedModel run() {
    const std::string encoder = settings_.text("train_fn.main_module", "SASRec");
    if (encoder != "HSTU" && encoder != "SASRec")
      settings_.fault("train_fn.main_module", "\"HSTU\" or \"SASRec\"");
    reject_other_mathematics();
    const SharedPart shared = read_shared(encoder);
    encoder == "HSTU" ? add_hstu(shared) : add_sasrec(shared);
    settings_.ignore(encoder == "HSTU" ? "sasrec_encoder.*" : "hstu_encoder.*");
    settings_.ignore("create_mol_interaction_module.*");
    settings_.reject_unknown(encoder == "HSTU" ? "hstu_encoder" : "sasrec_encoder");
    settings_.reject_unknown("get_sequential_encoder");
    builder_.drop("_attn_mask", "a constant, true above the diagonal");
    return builder_.finish("Meta's research code");
  }

 private:
  nlohmann::ordered_json& config() { return builder_.model().config; }

  void reject_other_mathematics() {
    const std::string similarity = settings_.text("train_fn.interaction_module_type", "");
    if (similarity != "DotProduct") {
      const std::string expected = "\"DotProduct\"; the learned similarity MoL is not computed here";
      if (settings_.has("train_fn.interaction_module_type"))
        settings_.fault("train_fn.interaction_module_type", expected);
      kernels::throw_load_error(settings_.path(), "there is no train_fn.interaction_module_type", expected);
    }
    if (settings_.text("train_fn.embedding_module_type", "local") != "local")
      settings_.fault("train_fn.embedding_module_type", "\"local\"");
    if (settings_.boolean("train_fn.main_module_bf16", false))
      builder_.report().assumed.push_back(
          "the trainer computed in bfloat16 (train_fn.main_module_bf16); here it is computed in float32");
  }

  SharedPart read_shared(const std::string& encoder) {
    SharedPart shared;
    const std::uint64_t events = settings_.integer("train_fn.max_sequence_length", 200, 1, lengths_most);
    const std::uint64_t outputs = settings_.integer("train_fn.gr_output_length", 10, 0, lengths_most) + 1;
    shared.item_dim = settings_.integer("train_fn.item_embedding_dim", 240, 1, dimensions_most);
    shared.positions = events + outputs;
    shared.hidden = shared.item_dim;
    config()["model_type"] = encoder == "HSTU" ? "hstu" : "sasrec";
    config()["converted_from"] = "meta-research";
    add_items(shared);
    add_actions(shared, encoder);
    config()["hidden_size"] = shared.hidden;
    config()["num_items"] = shared.num_items;
    config()["pad_item_id"] = 0;
    config()["max_sequence_length"] = events;
    config()["max_output_length"] = outputs;
    builder_.copy(position_table, "position_embedding.weight", {shared.positions, shared.hidden},
                  "max_sequence_length + gr_output_length + 1 and item_embedding_dim");
    add_similarity();
    return shared;
  }

  void add_items(SharedPart& shared) {
    const TensorShape& rows = tensors_.shape(item_table);
    if (rows.size() != 2 || rows[0] < 2 || rows[0] > item_rows_most)
      kernels::throw_load_error(tensors_.file().path(), "the item table has no rows or too many",
                                "2 to " + std::to_string(item_rows_most) + " rows");
    const TensorShape shape{rows[0], shared.item_dim};
    if (!tensors_.has(category_buffer)) {
      shared.num_items = rows[0] - 1;
      builder_.copy(item_table, "item_embedding.weight", shape, "item_embedding_dim");
    } else {
      add_categories(shared, shape);
    }
    builder_.model().num_items = shared.num_items;
  }

  // CategoricalEmbeddingModule: the row of item i is that of its category, which is gathered here.
  void add_categories(SharedPart& shared, const TensorShape& shape) {
    const std::vector<float> table = tensors_.take(item_table, shape, "item_embedding_dim");
    const std::vector<std::int64_t> categories = tensors_.take_integers(category_buffer);
    if (categories.empty() || categories.size() >= item_rows_most)
      kernels::throw_load_error(tensors_.file().path(), "the categories are of no items or too many",
                                "one of each item");
    shared.num_items = categories.size();
    const std::uint64_t columns = shape[1];
    std::vector<float> items(columns, 0.0f);
    items.reserve((shared.num_items + 1) * columns);
    for (const std::int64_t category : categories) {
      if (category < 0 || static_cast<std::uint64_t>(category) + 1 >= shape[0])
        kernels::throw_load_error(tensors_.file().path(),
                                  "an item has the category " + std::to_string(category),
                                  "categories from 0 to " + std::to_string(shape[0] - 2));
      const auto row =
          table.begin() + static_cast<std::ptrdiff_t>((category + 1) * static_cast<std::int64_t>(columns));
      items.insert(items.end(), row, row + static_cast<std::ptrdiff_t>(columns));
    }
    builder_.add("item_embedding.weight", {shared.num_items + 1, columns}, std::move(items),
                 "item_embedding.weight gathered by category from " + std::string(item_table));
  }

  // The preprocessors of research/modeling/sequential/input_features_preprocessors.py that read ratings.
  // Which one a checkpoint has is seen from its tensors: no binding chooses it.
  void add_actions(SharedPart& shared, const std::string& encoder) {
    if (!tensors_.has(rating_table)) return;
    const TensorShape& ratings = tensors_.shape(rating_table);
    const TensorShape& positions = tensors_.shape(position_table);
    if (ratings.size() != 2 || positions.size() != 2 || encoder != "HSTU" ||
        positions[1] != shared.item_dim + ratings[1])
      kernels::throw_load_error(
          tensors_.file().path(),
          "the tensor " + kernels::in_quotes(rating_table) +
              " belongs to a preprocessor "
              "that gives ratings positions of their own, or to another encoder than HSTU",
          "no ratings, or those of LearnablePositionalEmbeddingRatedInputFeaturesPreprocessor with HSTU");
    shared.actions = ratings[0];
    shared.hidden = shared.item_dim + ratings[1];
    config()["action_embedding"] = {{"num_actions", ratings[0]}, {"dim", ratings[1]}};
    builder_.copy(rating_table, "action_embedding.weight", TensorShape(ratings), "itself");
    builder_.report().assumed.push_back("ratings of events are read (rated preprocessor, by its tensor)");
  }

  void add_similarity() {
    config()["input_scale"] = "sqrt(hidden_size)";
    config()["position_embedding"] = "absolute";
    config()["similarity"] = "dot_product";
    const std::string norm = settings_.text("train_fn.user_embedding_norm", "l2_norm");
    if (norm != "l2_norm" && norm != "layer_norm")
      settings_.fault("train_fn.user_embedding_norm", "\"l2_norm\" or \"layer_norm\"");
    config()["output_norm"] = norm == "l2_norm" ? "l2" : "layer_norm";
    config()["output_norm_eps"] = 1e-6;  // train.py gives both kinds this one
    config()["item_norm"] = settings_.boolean("train_fn.item_l2_norm", false) ? "l2" : "none";
    config()["l2_norm_eps"] = settings_.number("train_fn.l2_norm_eps", 1e-6, 1e-30, 1);
    config()["temperature"] = settings_.number("train_fn.temperature", 0.05, 1e-6, 1e6);
  }

  // TensorShape of an HSTU layer, by the encoder's bindings.
  struct HstuShape {
    std::uint64_t layers = 0, heads = 0, dqk = 0, dv = 0;
    bool softmax = false, bias = false, concat = false;
  };

  HstuShape read_hstu_shape() {
    HstuShape shape;
    shape.layers = settings_.integer("hstu_encoder.num_blocks", 2, 1, layers_most);
    shape.heads = settings_.integer("hstu_encoder.num_heads", 1, 1, layers_most);
    shape.dqk = settings_.integer("hstu_encoder.dqk", 64, 1, dimensions_most);
    shape.dv = settings_.integer("hstu_encoder.dv", 64, 1, dimensions_most);
    const std::string normalization = settings_.text("hstu_encoder.normalization", "rel_bias");
    shape.softmax = normalization == "softmax_rel_bias";
    if (!shape.softmax && normalization != "rel_bias" && normalization != "hstu_rel_bias")
      settings_.fault("hstu_encoder.normalization",
                      "\"rel_bias\", \"hstu_rel_bias\" or \"softmax_rel_bias\"");
    if (settings_.text("hstu_encoder.linear_config", "uvqk") != "uvqk")
      settings_.fault("hstu_encoder.linear_config", "\"uvqk\"");
    shape.concat = settings_.boolean("hstu_encoder.concat_ua", false);
    shape.bias = settings_.boolean("hstu_encoder.enable_relative_attention_bias", true);
    if (!shape.bias && !shape.softmax)
      settings_.fault("hstu_encoder.enable_relative_attention_bias",
                      "True, which the code demands with this normalization");
    return shape;
  }

  void add_hstu(const SharedPart& shared) {
    const HstuShape shape = read_hstu_shape();
    describe_hstu_layers(shape, shared);
    for (std::uint64_t layer = 0; layer < shape.layers; ++layer) add_hstu_layer(layer, shape, shared);
  }

  // With softmax the published code has no axis of heads: all heads are one.
  void describe_hstu_layers(const HstuShape& shape, const SharedPart& shared) {
    const std::uint64_t join = shape.softmax ? shape.heads : 1;
    config()["num_hidden_layers"] = shape.layers;
    config()["num_attention_heads"] = shape.heads / join;
    config()["attention_dim"] = shape.dqk * join;
    config()["linear_dim"] = shape.dv * join;
    config()["attention_normalizer"] = shape.softmax ? 1 : shared.positions;
    config()["attention_alpha"] = shape.softmax ? 1 / std::sqrt(static_cast<double>(shape.dqk)) : 1.0;
    config()["attention_activation"] = shape.softmax ? "softmax" : "silu";
    config()["linear_activation"] = linear_activation();
    config()["concat_ua"] = shape.concat;
    config()["layer_norm_affine"] = false;
    config()["layer_norm_eps"] = 1e-6;
    if (shape.softmax && shape.heads > 1)
      builder_.report().assumed.push_back("softmax_rel_bias: the code computes all " +
                                          std::to_string(shape.heads) + " heads as one");
    if (!shape.bias) {
      config()["relative_attention_bias"] = nullptr;
      return;
    }
    config()["relative_attention_bias"] = {{"type", "bucketed_time_and_position"},
                                           {"time_bucket_function", "log"},
                                           {"time_bucket_divisor", 0.301},
                                           {"num_time_buckets", 128},
                                           {"max_positions", shared.positions},
                                           {"time_reference", "next"},
                                           {"per_layer", true},
                                           {"shared_by_heads", true}};
  }

  std::string linear_activation() {
    const std::string activation = settings_.text("hstu_encoder.linear_activation", "silu");
    if (activation != "silu" && activation != "none")
      builder_.report().assumed.push_back("hstu_encoder.linear_activation " + kernels::in_quotes(activation) +
                                          " is no activation, as in the code");
    return activation == "silu" ? "silu" : "none";
  }

  void add_hstu_layer(std::uint64_t layer, const HstuShape& shape, const SharedPart& shared) {
    const std::string from = "_hstu._attention_layers." + std::to_string(layer) + ".";
    const std::string to = "layers." + std::to_string(layer) + ".";
    const std::uint64_t value = shape.heads * shape.dv, query = shape.heads * shape.dqk;
    const std::uint64_t N = shared.positions;
    builder_.transpose(from + "_uvqk", to + "uvqk_proj.weight", shared.hidden, 2 * value + 2 * query,
                       "item_embedding_dim and num_heads * (2 * dv + 2 * dqk)");
    builder_.copy(from + "_o.weight", to + "output_proj.weight",
                  {shared.hidden, (shape.concat ? 3 : 1) * value},
                  "num_heads * dv, three times with concat_ua");
    builder_.copy(from + "_o.bias", to + "output_proj.bias", {shared.hidden}, "item_embedding_dim");
    if (!shape.bias) return;
    builder_.copy(from + "_rel_attn_bias._pos_w", to + "relative_attention_bias.position_weight", {2 * N - 1},
                  "max_sequence_length + gr_output_length + 1");
    builder_.copy(from + "_rel_attn_bias._ts_w", to + "relative_attention_bias.time_weight", {129},
                  "the code's 128 buckets");
  }

  void add_sasrec(const SharedPart& shared) {
    const std::uint64_t layers = settings_.integer("sasrec_encoder.num_blocks", 2, 1, layers_most);
    const std::uint64_t heads = settings_.integer("sasrec_encoder.num_heads", 1, 1, dimensions_most);
    if (shared.hidden % heads != 0)
      settings_.fault("sasrec_encoder.num_heads", "a divisor of item_embedding_dim");
    const std::uint64_t inner = settings_.integer("sasrec_encoder.ffn_hidden_dim", 64, 1, dimensions_most);
    const std::string activation = settings_.text("sasrec_encoder.ffn_activation_fn", "relu");
    if (activation != "relu" && activation != "gelu")
      settings_.fault("sasrec_encoder.ffn_activation_fn", "\"relu\" or \"gelu\"");
    config()["num_hidden_layers"] = layers;
    config()["num_attention_heads"] = heads;
    config()["intermediate_size"] = inner;
    config()["hidden_activation"] = activation;
    config()["layer_norm_eps"] = 1e-8;
    for (std::uint64_t layer = 0; layer < layers; ++layer) add_sasrec_layer(layer, shared.hidden, inner);
  }

  void add_sasrec_layer(std::uint64_t layer, std::uint64_t d, std::uint64_t inner) {
    const std::string attention = "attention_layers." + std::to_string(layer) + ".";
    const std::string forward = "forward_layers." + std::to_string(layer) + "._conv1d.";
    const std::string to = "layers." + std::to_string(layer) + ".";
    const std::string_view dim = "item_embedding_dim", ffn = "ffn_hidden_dim and item_embedding_dim";
    builder_.copy(attention + "in_proj_weight", to + "qkv_proj.weight", {3 * d, d}, dim);
    builder_.copy(attention + "in_proj_bias", to + "qkv_proj.bias", {3 * d}, dim);
    builder_.copy(attention + "out_proj.weight", to + "output_proj.weight", {d, d}, dim);
    builder_.copy(attention + "out_proj.bias", to + "output_proj.bias", {d}, dim);
    add_convolution(forward + "0.weight", to + "ffn.fc1.weight", inner, d, ffn);
    builder_.copy(forward + "0.bias", to + "ffn.fc1.bias", {inner}, ffn);
    add_convolution(forward + "3.weight", to + "ffn.fc2.weight", d, inner, ffn);
    builder_.copy(forward + "3.bias", to + "ffn.fc2.bias", {d}, ffn);
  }

  // A convolution of width 1 is a linear layer.
  void add_convolution(const std::string& from, const std::string& to, std::uint64_t out, std::uint64_t in,
                       std::string_view why) {
    builder_.add(to, {out, in}, tensors_.take(from, {out, in, 1}, why),
                 to + " from " + from + " without its last axis, of length 1");
  }

  ModelBuilder& builder_;
  GinReader& settings_;
  StateDict& tensors_;
};

}  // namespace

ConvertedModel convert_meta_research(const TorchBytes& checkpoint, const GinFile& bindings) {
  GinReader settings(bindings);
  StateDict tensors(checkpoint);
  ModelBuilder builder(tensors, settings);
  builder.report().read.push_back(checkpoint.path().string() + ": " + checkpoint.form());
  builder.report().read.push_back(bindings.path().string() + ": " +
                                  std::to_string(bindings.bindings().size()) + " bindings");
  return MetaConversion(builder).run();
}

}  // namespace troupe::deploy
