#pragma once
// The decoder family's row in the table: Qwen2, Qwen3 and Llama checkpoints in Hugging Face form.
#include "deploy/models/families.h"

namespace troupe::deploy {

Family decoder_family();

}  // namespace troupe::deploy
