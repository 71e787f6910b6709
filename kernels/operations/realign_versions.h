#pragma once
// Reference versions of rotating cached keys to another position, one per format: the last entry of
// the table in cpu/versions/realign.cc.
#include "kernels/operations/realign.h"

namespace troupe::kernels::reference {

RotateKeys rotate_f32, rotate_f16, rotate_bf16;

}  // namespace troupe::kernels::reference
