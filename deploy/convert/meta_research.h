#pragma once
// Checkpoints of Meta's research code (github.com/meta-recsys/generative-recommenders at db1bf8f2,
// generative_recommenders/research): HSTU and SASRec, saved by trainer/train.py, with the gin file of the
// run. The shape of a model is in the gin file and in the code's defaults only.
#include "deploy/convert/converted_model.h"
#include "deploy/convert/gin_file.h"
#include "deploy/convert/torch_file.h"

namespace troupe::deploy {

// Throws kernels::LoadError for what cannot be computed, by name.
ConvertedModel convert_meta_research(const TorchBytes& checkpoint, const GinFile& bindings);

}  // namespace troupe::deploy
