#pragma once
// Draws models and plans at random for property tests: small enough for the dense reference, and of every
// shape that a decoder accepts: all families, grouped heads, head sizes that fit no vector, any
// visibility between segments.
#include <random>

#include "kernels/base/plan.h"
#include "kernels/checkpoint/model.h"

namespace troupe::reference {

using Chance = std::mt19937_64;

// Returns a uniform number in [least, most].
std::uint32_t draw(Chance& chance, std::uint32_t least, std::uint32_t most);
bool draw_yes(Chance& chance, double probability);

kernels::DecoderConfig random_config(Chance& chance);

// Returns a sound plan for `config`: up to 8 segments of 1 to 70 tokens at any position, each seeing any
// earlier ones, often the same as its neighbour; one to three readouts.
kernels::Plan random_plan(const kernels::DecoderConfig& config, Chance& chance);

// Returns a sound plan with a repair: up to 6 blocks, which see nothing or the segment before them, and
// the spans that reuse them among other segments, most of which see everything before them in the prompt;
// one or two budgets, any selection, any number of exact layers; one to three readouts.
kernels::Plan random_repaired_plan(const kernels::DecoderConfig& config, Chance& chance);

}  // namespace troupe::reference
