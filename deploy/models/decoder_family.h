#pragma once
// Entry of the model family table for decoders: Qwen2, Qwen3 and Llama checkpoints in Hugging Face
// format.
#include "deploy/models/model_families.h"

namespace troupe::deploy {

ModelFamily decoder_family();

}  // namespace troupe::deploy
