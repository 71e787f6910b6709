#pragma once
// Checkpoints of NVIDIA's recsys-examples (github.com/NVIDIA/recsys-examples at 43465aea, examples/hstu):
// a folder of commons/checkpoint/checkpoint.py with torch_module/model.RANK.pth and
// dynamicemb_module/…, and the gin file of the run. Layers may be fused, native (of one or several
// tensor-parallel ranks) or those for debugging; ranking and retrieval models are read.
#include <filesystem>

#include "deploy/convert/converted_model.h"
#include "deploy/convert/gin_file.h"

namespace troupe::deploy {

// Throws kernels::LoadError for what cannot be computed, by name.
ConvertedModel convert_nvidia(const std::filesystem::path& checkpoint, const GinFile& bindings);

}  // namespace troupe::deploy
