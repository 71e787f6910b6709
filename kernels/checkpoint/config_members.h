#pragma once
// Judges the members of a config.json that no reader of a family asks for. Each member is used, known to
// leave the numbers unchanged, or refused by name. Checkpoints differ from a family's plain mathematics by
// such members, and a member that is ignored gives wrong scores in silence.
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "kernels/checkpoint/json_file.h"

namespace troupe::kernels {

// A member that changes the mathematics of a Hugging Face decoder unless it has its neutral value.
struct NeutralMember {
  std::string_view name;
  enum class Value : std::uint8_t { none, no, yes, one, zero } neutral;  // none: only absent or null
  void check(const JsonFields& fields) const;                            // throws LoadError
};

inline constexpr std::array<NeutralMember, 24> neutral_members{
    {{"use_bidirectional_attention", NeutralMember::Value::no},
     {"bidirectional", NeutralMember::Value::no},
     {"is_causal", NeutralMember::Value::yes},
     {"is_encoder_decoder", NeutralMember::Value::no},
     {"add_cross_attention", NeutralMember::Value::no},
     {"tie_encoder_decoder", NeutralMember::Value::no},
     {"logits_scaling", NeutralMember::Value::one},
     {"logit_scale", NeutralMember::Value::one},
     {"embedding_multiplier", NeutralMember::Value::one},
     {"residual_multiplier", NeutralMember::Value::one},
     {"scale_emb", NeutralMember::Value::one},
     {"attention_multiplier", NeutralMember::Value::none},
     {"query_pre_attn_scalar", NeutralMember::Value::none},
     {"attn_logit_softcapping", NeutralMember::Value::none},
     {"final_logit_softcapping", NeutralMember::Value::none},
     {"attention_sinks", NeutralMember::Value::none},
     {"attention_chunk_size", NeutralMember::Value::none},
     {"use_mrope", NeutralMember::Value::no},
     {"use_qk_norm", NeutralMember::Value::no},
     {"qk_layernorm", NeutralMember::Value::no},
     {"num_experts", NeutralMember::Value::zero},
     {"num_local_experts", NeutralMember::Value::zero},
     {"auto_map", NeutralMember::Value::none},  // the checkpoint's own code, often another mask
     {"adapters", NeutralMember::Value::none}}};

// Members that only matter with a sliding window, which refuse_windows() has judged.
inline constexpr std::array<std::string_view, 4> window_members{"use_sliding_window", "sliding_window",
                                                                "max_window_layers", "layer_types"};

// Returns a number of things, 1 to `most`, which must fit 32 bits. Throws LoadError.
std::uint32_t count_member(const JsonFields& fields, std::string_view key, std::uint64_t most);

// Checks a member that names a method of computing: only the one value that is implemented is accepted.
// Throws LoadError.
void must_be(const JsonFields& fields, std::string_view key, const std::string& only);

// Refuses each member with a value that was neither read, nor is in `harmless`, nor is one of those that
// transformers writes for every model and that leave a forward pass unchanged. Throws LoadError.
void refuse_other_members(const JsonFields& fields, std::span<const std::string_view> harmless = {});

}  // namespace troupe::kernels
