#pragma once
// Reference versions of realign.h, for the table in realign.cc.
#include "kernels/operations/realign.h"

namespace troupe::kernels::reference {

TurnKeys turn_f32, turn_f16, turn_bf16;

}  // namespace troupe::kernels::reference
