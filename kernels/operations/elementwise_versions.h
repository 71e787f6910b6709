#pragma once
// Reference versions of the elementwise kernels (elementwise_reference.cc): the last entry of the
// table in elementwise.cc, and the standard that every other version is tested against.
#include "kernels/operations/elementwise.h"

namespace troupe::kernels::reference {

RmsNorm rms_norm;
Rope rope;
SwiGlu swiglu;
AddRows add_rows;
SigmoidGate sigmoid_gate;

}  // namespace troupe::kernels::reference
