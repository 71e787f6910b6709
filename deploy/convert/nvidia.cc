// Maps tensors and bindings of NVIDIA's recsys-examples. Names are those of examples/hstu/modules/
// {fused,native}_hstu_layer.py, hstu_processor.py, position_encoder.py, mlp.py and
// utils/gin_config_args.py at 43465aea.
#include "deploy/convert/nvidia.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "deploy/convert/nvidia_data.h"
#include "deploy/convert/nvidia_tables.h"
#include "kernels/checkpoint/json_file.h"

namespace troupe::deploy {
namespace {

constexpr std::uint64_t size_most = 65536, layer_count_most = 1024, positions_most = std::uint64_t{1} << 24;
constexpr std::uint64_t parallel_most = 1024;
constexpr std::string_view block = "_hstu_block.";
constexpr std::string_view position_name =
    "_hstu_block._preprocessor._positional_encoder._position_embeddings_weight";

constexpr const char* unread_bindings[] = {
    "TrainerArgs.*",
    "OptimizerArgs.*",
    "RankingArgs.eval_metrics",
    "RetrievalArgs.num_negatives",
    "RetrievalArgs.eval_metrics",
    "NetworkArgs.hidden_dropout",
    "NetworkArgs.kernel_backend",
    "NetworkArgs.recompute_input_layernorm",
    "NetworkArgs.recompute_input_silu",
    "NetworkArgs.embedding_backend",
};

struct NvidiaShape {
  std::uint64_t layers = 0, hidden = 0, heads = 0, channels = 0;
  std::uint64_t item_dim = 0, context_dim = 0;  // of the tables
  bool item_mlp = false, context_mlp = false;
};

// The state dictionaries of the tensor-parallel ranks.
using Ranks = std::vector<std::unique_ptr<StateDict>>;

class NvidiaConversion {
 public:
  NvidiaConversion(ModelBuilder& builder, Ranks& ranks, std::filesystem::path folder)
      : builder_(builder),
        settings_(builder.settings()),
        tensors_(builder.tensors()),
        ranks_(ranks),
        folder_(std::move(folder)) {
    for (const char* const name : unread_bindings) settings_.ignore(name);
  }

  ConvertedModel run() {
    const NvidiaData data = read_nvidia_data(settings_);
    const NvidiaShape shape = read_shape();
    const bool ranking = tensors_.has("_mlp._mlp.0.weight");
    if (!ranking && settings_.has("RankingArgs.prediction_head_arch"))
      settings_.fault("RankingArgs.prediction_head_arch",
                      "no such binding, because the checkpoint has no head, _mlp._mlp.0.weight");
    settings_.ignore(ranking ? "RetrievalArgs.*" : "RankingArgs.*");
    describe(shape, data);
    add_tables(shape, data, ranking);
    for (std::uint64_t layer = 0; layer < shape.layers; ++layer) add_layer(layer, shape);
    ranking ? add_head(shape) : describe_retrieval();
    for (const std::string& name : tensors_.names())
      if (name.ends_with("_extra_state") || name.starts_with("_loss_module.") ||
          name.starts_with("_metric_module."))
        builder_.drop(name, "of training");
    for (const char* const arguments : {"NetworkArgs", "RankingArgs", "RetrievalArgs"})
      settings_.reject_unknown(arguments);
    return builder_.finish("NVIDIA's recsys-examples");
  }

 private:
  nlohmann::ordered_json& config() { return builder_.model().config; }

  NvidiaShape read_shape() {
    NvidiaShape shape;
    shape.layers = settings_.integer("NetworkArgs.num_layers", std::nullopt, 1, layer_count_most);
    shape.hidden = settings_.integer("NetworkArgs.hidden_size", std::nullopt, 1, size_most);
    shape.heads = settings_.integer("NetworkArgs.num_attention_heads", std::nullopt, 1, layer_count_most);
    shape.channels = settings_.integer("NetworkArgs.kv_channels", std::nullopt, 1, size_most);
    const std::int64_t item = settings_.maybe_integer("NetworkArgs.item_embedding_dim").value_or(-1);
    const std::int64_t context = settings_.maybe_integer("NetworkArgs.contextual_embedding_dim").value_or(-1);
    shape.item_mlp = item > 0;
    shape.context_mlp = context > 0;
    // Tables have widths of their own only if both are given (create_embedding_configs).
    const bool apart = item > 0 && context > 0;
    shape.item_dim = apart ? static_cast<std::uint64_t>(item) : shape.hidden;
    shape.context_dim = apart ? static_cast<std::uint64_t>(context) : shape.hidden;
    if (shape.item_dim > size_most) settings_.fault("NetworkArgs.item_embedding_dim", "at most 65536");
    if (shape.context_dim > size_most)
      settings_.fault("NetworkArgs.contextual_embedding_dim", "at most 65536");
    if (ranks_.size() > 1 && shape.heads % ranks_.size() != 0)
      settings_.fault("TensorModelParallelArgs.tensor_model_parallel_size",
                      "a divisor of num_attention_heads");
    reject_other_networks();
    return shape;
  }

  void reject_other_networks() {
    if (!settings_.boolean("NetworkArgs.is_causal", true)) settings_.fault("NetworkArgs.is_causal", "True");
    if (settings_.integer("NetworkArgs.target_group_size", 1, 1, size_most) != 1)
      settings_.fault("NetworkArgs.target_group_size", "1");
    const std::string dtype = settings_.text("NetworkArgs.dtype_str", "bfloat16");
    builder_.report().assumed.push_back("the trainer computed in " + dtype +
                                        "; here it is computed in float32");
  }

  void describe(const NvidiaShape& shape, const NvidiaData& data) {
    config()["model_type"] = "hstu";
    config()["layer"] = "nvidia";
    config()["converted_from"] = "nvidia";
    config()["num_hidden_layers"] = shape.layers;
    config()["hidden_size"] = shape.hidden;
    config()["num_attention_heads"] = shape.heads;
    config()["attention_dim"] = shape.channels;
    config()["linear_dim"] = shape.channels;
    config()["max_sequence_length"] = data.events_max;
    config()["event_tokens"] = data.action ? "item_action" : "item";
    config()["context_sees_history"] = !settings_.boolean("NetworkArgs.disable_contextual_mask", false);
    config()["attention_normalizer"] = normalizer(data);
    config()["attention_alpha"] = 1 / std::sqrt(static_cast<double>(shape.channels));
    config()["attention_activation"] = "silu";
    config()["linear_activation"] = "silu";
    config()["concat_ua"] = false;
    config()["layer_norm_eps"] = settings_.number("NetworkArgs.norm_epsilon", 1e-5, 0, 1);
    config()["residual"] = true;
    config()["pad_item_id"] = 0;
    const std::string first = layer_prefix(0);
    config()["input_norm_affine"] = tensors_.has(first + "_input_layernorm_weight");
    config()["output_norm_affine"] = tensors_.has(first + "_output_layernorm_weight") ||
                                     tensors_.has(first + "_output_ln_dropout_mul.weight");
    config()["uvqk_bias"] =
        tensors_.has(first + "_linear_uvqk_bias") || tensors_.has(first + "_linear_uvqk.bias");
  }

  // Without scaling_seqlen the layer divides by the longest sequence of a batch. In training that is the
  // data set's bound: contextual tokens, and two tokens for each event and candidate.
  std::uint64_t normalizer(const NvidiaData& data) {
    const std::int64_t given = settings_.maybe_integer("NetworkArgs.scaling_seqlen").value_or(-1);
    if (given > 0) return static_cast<std::uint64_t>(given);
    if (given != -1) settings_.fault("NetworkArgs.scaling_seqlen", "a number from 1 on, or -1");
    const std::uint64_t tokens =
        (data.events_max + data.candidates_max) * (data.action ? 2 : 1) + data.contexts.size();
    builder_.report().assumed.push_back("attention is divided by " + std::to_string(tokens) +
                                        ", the tokens of the longest sequence in training, because "
                                        "NetworkArgs.scaling_seqlen is -1; where another "
                                        "batch decides, the published code divides by that one's");
    return tokens;
  }

  void add_tables(const NvidiaShape& shape, const NvidiaData& data, bool ranking) {
    if (shape.item_mlp && !ranking)
      settings_.fault("NetworkArgs.item_embedding_dim",
                      "-1 in a retrieval model, whose similarities read the table without the perceptron");
    NvidiaTables tables(builder_, data, folder_);
    const std::string item_mlp = shape.item_mlp && data.action ? "_item_mlp" : "";
    const std::string context_mlp = shape.context_mlp ? "_contextual_mlp" : "";
    tables.write_items(shape.item_dim, shape.hidden, item_mlp);
    config()["num_items"] = builder_.model().num_items;
    config()["num_actions"] = data.action ? tables.write_values(*data.action, "action_embedding.weight",
                                                                shape.item_dim, shape.hidden, item_mlp)
                                          : 0;
    std::vector<std::uint64_t> sizes;
    for (std::size_t i = 0; i < data.contexts.size(); ++i)
      sizes.push_back(tables.write_values(data.contexts[i],
                                          "context_embedding." + std::to_string(i) + ".weight",
                                          shape.context_dim, shape.hidden, context_mlp));
    config()["context_vocabulary"] = sizes;
    if (!data.contexts.empty()) config()["context_features"] = data.contexts;
    tables.drop_others();
    // A perceptron exists whenever its width is given, and runs only over what the sequence has.
    for (const std::string& name : tensors_.names())
      if ((item_mlp.empty() && name.starts_with("_hstu_block._preprocessor._item_mlp.")) ||
          (data.contexts.empty() && name.starts_with("_hstu_block._preprocessor._contextual_mlp.")))
        builder_.drop(name, "a perceptron that no token of the sequence goes through");
    add_positions(shape);
  }

  void add_positions(const NvidiaShape& shape) {
    const bool encoded = tensors_.has(position_name);
    config()["input_scale"] = encoded ? "sqrt(hidden_size)" : "none";
    config()["position_embedding"] = encoded ? "absolute" : "none";
    const std::uint64_t rows = settings_.integer("NetworkArgs.num_position_buckets", 8192, 1, positions_most);
    if (!encoded) return;
    config()["num_positions"] = rows;
    builder_.copy(position_name, "position_embedding.weight", {rows, shape.hidden},
                  "num_position_buckets and hidden_size");
  }

  static std::string layer_prefix(std::uint64_t layer) {
    return std::string(block) + "_attention_layers." + std::to_string(layer) + ".";
  }

  void add_layer(std::uint64_t layer, const NvidiaShape& shape) {
    const std::string from = layer_prefix(layer), to = "layers." + std::to_string(layer) + ".";
    const std::uint64_t width = shape.heads * shape.channels;
    if (config()["input_norm_affine"])
      copy_pair(from + "_input_layernorm_weight", from + "_input_layernorm_bias", to + "input_norm",
                shape.hidden);
    const bool fused = tensors_.has(from + "_linear_uvqk_weight");
    if (config()["output_norm_affine"] && tensors_.has(from + "_output_layernorm_weight"))
      copy_pair(from + "_output_layernorm_weight", from + "_output_layernorm_bias", to + "output_norm",
                width);
    else if (config()["output_norm_affine"])
      copy_pair(from + "_output_ln_dropout_mul.weight", from + "_output_ln_dropout_mul.bias",
                to + "output_norm", width);
    fused ? add_fused(from, to, shape) : add_native(from, to, shape);
  }

  void copy_pair(const std::string& weight, const std::string& bias, const std::string& to,
                 std::uint64_t size) {
    builder_.copy(weight, to + ".weight", {size}, "hidden_size, num_attention_heads and kv_channels");
    builder_.copy(bias, to + ".bias", {size}, "hidden_size, num_attention_heads and kv_channels");
  }

  void add_fused(const std::string& from, const std::string& to, const NvidiaShape& shape) {
    const std::uint64_t width = shape.heads * shape.channels;
    const std::string_view why = "hidden_size, num_attention_heads and kv_channels";
    builder_.transpose(from + "_linear_uvqk_weight", to + "uvqk_proj.weight", shape.hidden, 4 * width, why);
    builder_.copy(from + "_linear_uvqk_bias", to + "uvqk_proj.bias", {4 * width}, why);
    builder_.transpose(from + "_linear_proj_weight", to + "output_proj.weight", width, shape.hidden, why);
  }

  // Rows of a native layer are head by head, inside each U, V, Q, K.
  void add_native(const std::string& from, const std::string& to, const NvidiaShape& shape) {
    const std::uint64_t width = shape.heads * shape.channels;
    builder_.add(
        to + "uvqk_proj.weight", {4 * width, shape.hidden},
        regrouped(sharded(from + "_linear_uvqk.weight", {4 * width, shape.hidden}, 0), shape, shape.hidden),
        to + "uvqk_proj.weight from " + from +
            "_linear_uvqk.weight, rows regrouped from heads to U, V, Q, K");
    if (config()["uvqk_bias"])
      builder_.add(to + "uvqk_proj.bias", {4 * width},
                   regrouped(sharded(from + "_linear_uvqk.bias", {4 * width}, 0), shape, 1),
                   to + "uvqk_proj.bias from " + from + "_linear_uvqk.bias, regrouped alike");
    builder_.add(to + "output_proj.weight", {shape.hidden, width},
                 sharded(from + "_linear_proj.weight", {shape.hidden, width}, 1), "");
    builder_.report().taken.push_back(to + "output_proj.weight from " + from + "_linear_proj.weight");
  }

  // Takes a tensor that tensor-parallel ranks share along an axis, as a whole.
  std::vector<float> sharded(const std::string& name, const TensorShape& whole, std::size_t axis) {
    const std::string_view why =
        "hidden_size, num_attention_heads, kv_channels and tensor_model_parallel_size";
    TensorShape part = whole;
    part[axis] /= ranks_.size();
    std::vector<std::vector<float>> parts;
    for (const auto& rank : ranks_) parts.push_back(rank->take(name, part, why));
    const std::uint64_t rows = axis == 0 ? 1 : whole[0], run = parts.front().size() / rows;
    std::vector<float> joined;
    joined.reserve(parts.front().size() * parts.size());
    for (std::uint64_t row = 0; row < rows; ++row)
      for (const std::vector<float>& values : parts) {
        const auto begin = values.begin() + static_cast<std::ptrdiff_t>(row * run);
        joined.insert(joined.end(), begin, begin + static_cast<std::ptrdiff_t>(run));
      }
    return joined;
  }

  static std::vector<float> regrouped(const std::vector<float>& rows, const NvidiaShape& shape,
                                      std::uint64_t columns) {
    const std::uint64_t run = shape.channels * columns;
    std::vector<float> result(rows.size());
    for (std::uint64_t head = 0; head < shape.heads; ++head)
      for (std::uint64_t part = 0; part < 4; ++part)
        std::copy_n(rows.begin() + static_cast<std::ptrdiff_t>((head * 4 + part) * run), run,
                    result.begin() + static_cast<std::ptrdiff_t>((part * shape.heads + head) * run));
    return result;
  }

  void add_head(const NvidiaShape& shape) {
    const auto sizes = settings_.integers("RankingArgs.prediction_head_arch", 1, size_most);
    const std::string activation = settings_.text("RankingArgs.prediction_head_act_type", "relu");
    if (activation != "relu" && activation != "gelu")
      settings_.fault("RankingArgs.prediction_head_act_type", "\"relu\" or \"gelu\"");
    const bool bias = settings_.boolean("RankingArgs.prediction_head_bias", true);
    const std::uint64_t tasks = settings_.integer("RankingArgs.num_tasks", 1, 1, size_most);
    if (tasks != sizes.back())
      builder_.report().assumed.push_back("the head's " + std::to_string(sizes.back()) +
                                          " outputs are classes of " + std::to_string(tasks) +
                                          " task, trained by cross entropy; each is served as a task");
    config()["task_head"] = {{"layers", sizes},
                             {"activation", activation},
                             {"bias", bias},
                             {"input_norm", "l2"},
                             {"input_norm_eps", 1e-6}};
    std::uint64_t in = shape.hidden;
    for (std::size_t i = 0; i < sizes.size(); in = sizes[i++]) {
      const std::string from = "_mlp._mlp." + std::to_string(2 * i),
                        to = "task_head.layers." + std::to_string(i);
      builder_.copy(from + ".weight", to + ".weight", {sizes[i], in}, "prediction_head_arch and hidden_size");
      if (bias) builder_.copy(from + ".bias", to + ".bias", {sizes[i]}, "prediction_head_arch");
    }
  }

  // RetrievalArgs' temperature and epsilon are constants of its class, which no binding changes.
  void describe_retrieval() {
    config()["output_norm"] = "l2";
    config()["output_norm_eps"] = 1e-6;
    config()["item_norm"] = "l2";
    config()["l2_norm_eps"] = 1e-6;
    config()["temperature"] = 0.05;
    builder_.report().assumed.push_back(
        "a retrieval model, because there is no _mlp: temperature 0.05 and l2 norms "
        "with 1e-6 are constants of the code");
  }

  ModelBuilder& builder_;
  GinReader& settings_;
  StateDict& tensors_;
  Ranks& ranks_;
  const std::filesystem::path folder_;
};

}  // namespace

ConvertedModel convert_nvidia(const std::filesystem::path& checkpoint, const GinFile& bindings) {
  GinReader settings(bindings);
  const std::uint64_t parallel =
      settings.integer("TensorModelParallelArgs.tensor_model_parallel_size", 1, 1, parallel_most);
  std::vector<std::unique_ptr<TorchFile>> files;
  Ranks ranks;
  for (std::uint64_t rank = 0; rank < parallel; ++rank) {
    files.push_back(std::make_unique<TorchFile>(checkpoint / "torch_module" /
                                                ("model." + std::to_string(rank) + ".pth")));
    ranks.push_back(std::make_unique<StateDict>(*files.back()));
    for (const std::string& name : ranks.back()->names())
      if (!ranks.front()->has(name))
        kernels::throw_load_error(
            files.back()->path(), "has the tensor " + kernels::in_quotes(name),
            "the tensors of " + files.front()->path().string() + ", a rank of the same run");
  }
  ModelBuilder builder(*ranks.front(), settings);
  for (const auto& file : files) builder.report().read.push_back(file->path().string() + ": " + file->form());
  builder.report().read.push_back(bindings.path().string() + ": " +
                                  std::to_string(bindings.bindings().size()) + " bindings");
  return NvidiaConversion(builder, ranks, checkpoint).run();
}

}  // namespace troupe::deploy
