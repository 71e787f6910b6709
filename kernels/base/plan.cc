#include "kernels/base/plan.h"

namespace troupe::kernels {
namespace {

// A member of a plan, such as segments[3].tokens. Its text is made only when it is at fault: a sound plan,
// which is checked before every pass, allocates nothing.
struct Place {
  const char* list;
  std::size_t index;
  const char* member = "";

  std::string text() const { return std::string(list) + "[" + std::to_string(index) + "]" + member; }
  std::string text(std::size_t at) const { return text() + "[" + std::to_string(at) + "]"; }
};

std::string fault(const std::string& where, std::int64_t found, const std::string& expected) {
  return where + " is " + std::to_string(found) + "; expected " + expected;
}

// Empty, or a fault, for the first of `tokens` outside the vocabulary.
std::string tokens_fault(const std::vector<Token>& tokens, const Place& place, const PlanLimits& limits) {
  for (std::size_t i = 0; i < tokens.size(); ++i)
    if (tokens[i] < 0 || tokens[i] >= limits.vocabulary)
      return fault(place.text(i), tokens[i],
                   "from 0 to below the vocabulary's " + std::to_string(limits.vocabulary));
  return "";
}

std::string sees_fault(const Segment& segment, std::size_t index) {
  const Place place{"segments", index, ".sees"};
  for (std::size_t i = 0; i < segment.sees.size(); ++i) {
    if (segment.sees[i] >= index)
      return fault(place.text(i), segment.sees[i], "an earlier segment than " + std::to_string(index));
    if (i > 0 && segment.sees[i] <= segment.sees[i - 1])
      return fault(place.text(i), segment.sees[i],
                   "more than " + std::to_string(segment.sees[i - 1]) + " before it");
  }
  return "";
}

std::string segment_fault(const Segment& segment, std::size_t index, const PlanLimits& limits) {
  const Place tokens{"segments", index, ".tokens"};
  if (segment.tokens.empty()) return tokens.text() + " is empty; expected at least one token";
  const auto length = static_cast<std::int64_t>(segment.tokens.size());
  if (segment.start < 0 || segment.start > limits.positions_max - length)
    return fault(Place{"segments", index, ".start"}.text(), segment.start,
                 "a position from 0 that leaves room for " + std::to_string(length) + " tokens below " +
                     std::to_string(limits.positions_max));
  if (std::string found = tokens_fault(segment.tokens, tokens, limits); !found.empty()) return found;
  return sees_fault(segment, index);
}

std::string readout_fault(const Plan& plan, std::size_t index, const PlanLimits& limits) {
  const Readout& readout = plan.readouts[index];
  if (readout.segment >= plan.segments.size())
    return fault(Place{"readouts", index, ".segment"}.text(), readout.segment,
                 "below " + std::to_string(plan.segments.size()));
  const std::size_t length = plan.segments[readout.segment].tokens.size();
  if (readout.offset >= length)
    return fault(Place{"readouts", index, ".offset"}.text(), readout.offset,
                 "below " + std::to_string(length));
  return tokens_fault(readout.rows, {"readouts", index, ".rows"}, limits);
}

}  // namespace

std::string find_fault(const Plan& plan, const PlanLimits& limits) {
  if (plan.segments.empty()) return "segments is empty; expected at least one segment";
  for (std::size_t i = 0; i < plan.segments.size(); ++i)
    if (std::string found = segment_fault(plan.segments[i], i, limits); !found.empty()) return found;
  for (std::size_t i = 0; i < plan.readouts.size(); ++i)
    if (std::string found = readout_fault(plan, i, limits); !found.empty()) return found;
  return "";
}

std::size_t token_count(const Plan& plan) {
  std::size_t count = 0;
  for (const Segment& segment : plan.segments) count += segment.tokens.size();
  return count;
}

}  // namespace troupe::kernels
