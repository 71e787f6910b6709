#pragma once
// Test helper: the config.json of a small HSTU.
#include <string>

namespace troupe::kernels {

inline std::string small_hstu(int tasks = 1) {
  return R"json({"model_type":"hstu","num_items":9,"pad_item_id":0,"hidden_size":8,"num_hidden_layers":1,
  "num_attention_heads":2,"attention_dim":4,"linear_dim":4,"max_sequence_length":10,
  "linear_activation":"silu","attention_activation":"silu","attention_alpha":1.0,
  "attention_normalizer":11,"layer_norm_eps":1e-06,
  "layer_norm_affine":false,"concat_ua":false,"input_scale":"sqrt(hidden_size)",
  "position_embedding":"absolute",
  "relative_attention_bias":{"type":"bucketed_time_and_position","max_positions":11,"num_time_buckets":128,
    "time_bucket_function":"log","time_bucket_divisor":0.301,"time_reference":"next","per_layer":true,
    "shared_by_heads":true},
  "l2_norm_eps":1e-06,"temperature":0.05,"task_head":{"hidden":6,"activation":"silu","num_tasks":)json" +
         std::to_string(tasks) + "}}";
}

// The config.json of a small model of NVIDIA's layer.
inline std::string small_nvidia_hstu() {
  return R"json({"model_type":"hstu","layer":"nvidia","num_items":9,"hidden_size":8,"num_hidden_layers":1,
  "num_attention_heads":2,"attention_dim":4,"linear_dim":4,"max_sequence_length":10,"num_actions":6,
  "event_tokens":"item_action","context_vocabulary":[3,4],"context_sees_history":true,
  "linear_activation":"silu","attention_activation":"silu","attention_alpha":0.5,
  "attention_normalizer":22,"layer_norm_eps":1e-05,"input_norm_affine":true,"output_norm_affine":true,
  "uvqk_bias":true,"residual":true,"concat_ua":false,"input_scale":"sqrt(hidden_size)",
  "position_embedding":"absolute","num_positions":30,
  "task_head":{"layers":[6,5],"activation":"relu","bias":true,"input_norm":"l2",
  "input_norm_eps":1e-06}})json";
}

}  // namespace troupe::kernels
