#pragma once
// Test helper: the config.json of a small SASRec.
#include <string>

namespace troupe::kernels {

inline std::string small_sasrec() {
  return R"json({"model_type":"sasrec","num_hidden_layers":2,"hidden_size":8,
    "num_attention_heads":2,"intermediate_size":12,"hidden_activation":"relu","num_items":30,
    "max_sequence_length":20,"max_output_length":11,"layer_norm_eps":1e-8,
    "input_scale":"sqrt(hidden_size)","position_embedding":"absolute","pad_item_id":0,"l2_norm_eps":1e-6,
    "temperature":0.05})json";
}

}  // namespace troupe::kernels
