#pragma once
// Reference result of a plan on the toy model: everything is computed, nothing cached.
#include <string_view>
#include <vector>

#include "sim/world/toy_model.h"

namespace troupe::sim {

// The plan must be valid.
inline std::vector<ScoreRow> evaluate(std::string_view model_version, const Plan& plan,
                                      const ToyFamily& family = toy_decoder()) {
  const std::uint64_t key = model_key(model_version);
  std::vector<SegmentValue> values, seen;
  values.reserve(plan.segments.size());
  for (std::size_t s = 0; s < plan.segments.size(); ++s) {
    if (const auto* place = place_of_prototypes(plan, s)) {
      values.push_back(prototypes_value(key, plan.repair.prototypes, plan.segments[s].tokens,
                                        plan.segments[place->segment].start));
      continue;
    }
    gather_seen(plan, s, values, seen);
    values.push_back(family.value_of(key, plan.segments[s].tokens, plan.segments[s].start, seen));
  }
  std::vector<ScoreRow> rows;
  rows.reserve(plan.readouts.size());
  for (const Readout& readout : plan.readouts)
    rows.push_back(family.logits_of(values[readout.segment], readout.offset, readout.rows));
  return rows;
}

}  // namespace troupe::sim
