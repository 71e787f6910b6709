#pragma once
// Spreads numbers evenly over 64 bits: see kernels/base/hash.h.
#include "kernels/base/hash.h"
