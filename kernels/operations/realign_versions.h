#pragma once
// Reference versions of realign.h, for the table in realign.cc.
#include "kernels/operations/realign.h"

namespace troupe::kernels::reference {

RotateKeys rotate_f32, rotate_f16, rotate_bf16;

}  // namespace troupe::kernels::reference
