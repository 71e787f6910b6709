#pragma once
// Reference versions of the quantising kernels (quantize_reference.cc): the last entry of the table
// in quantize.cc, and the standard that every other version is tested against.
#include "kernels/operations/quantize.h"

namespace troupe::kernels {

inline constexpr float quantize_scale_min =
    0x1p-100f;  // below it a row counts as zeros; 1 / scale stays finite

namespace reference {

QuantizeRows quantize_rows;
QuantizeWeights quantize_weights;
DequantizeRows dequantize_rows;

}  // namespace reference
}  // namespace troupe::kernels
