#pragma once
// The reference versions of the elementwise kernels (elementwise_reference.cc): what the table in
// elementwise.cc ends with, and what every other version is tested against.
#include "kernels/operations/elementwise.h"

namespace troupe::kernels::reference {

RmsNorm rms_norm;
Rope rope;
SwiGlu swiglu;
AddRows add_rows;
SigmoidGate sigmoid_gate;

}  // namespace troupe::kernels::reference
