#pragma once
// Entry of the model family table for SASRec: histories of items, and the next item
// (kernels/sasrec/sasrec.h).
#include "deploy/models/model_families.h"

namespace troupe::deploy {

ModelFamily sasrec_family();

}  // namespace troupe::deploy
