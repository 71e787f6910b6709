#pragma once
// Entry of the model family table for decoders: Qwen2, Qwen3 and Llama checkpoints in Hugging Face
// format.
#include "deploy/models/families.h"

namespace troupe::deploy {

Family decoder_family();

}  // namespace troupe::deploy
