#pragma once
// One level of a beam search: of all tokens that may follow all beams, the `width` best continuations.
// Results do not depend on the version: a higher value is better, and of equal ones the lower key.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace troupe::kernels {

// A path that may be kept. The key orders paths by their tokens: the place of the beam that it continues
// among all paths that are kept, which is in that order, and the place of its token among those that may
// follow.
struct Candidate {
  double value = 0;
  std::uint64_t key = 0;

  std::uint32_t place() const { return static_cast<std::uint32_t>(key >> 32); }
  std::uint32_t child() const { return static_cast<std::uint32_t>(key); }
  bool operator==(const Candidate&) const = default;
};
inline std::uint64_t candidate_key(std::uint32_t place, std::uint32_t child) {
  return std::uint64_t{place} << 32 | child;
}
inline bool better(const Candidate& a, const Candidate& b) {
  return a.value != b.value ? a.value > b.value : a.key < b.key;
}

// What may follow one beam. A child of logit l has value + min(0, l - log_total): a probability is at most 1
// also where rounding says otherwise, so no child is better than its beam.
struct Extensions {
  double value = 0;                       // of the beam
  double log_total = 0;                   // finite
  std::uint32_t place = 0;                // of the beam
  std::span<const float> logits;          // in the order of tokens
  std::span<const std::uint32_t> barred;  // children that are not entered, ascending
  std::span<const std::uint32_t> likely;  // the children that logits are of, ascending; empty: all

  double value_of(std::size_t logit) const;
  std::uint32_t child(std::size_t logit) const {
    return likely.empty() ? static_cast<std::uint32_t>(logit) : likely[logit];
  }
};

// `kept` comes with whole paths that compete (at most `width`) and leaves with the `width` best of them and
// all children, in any order. `beams` are ordered: better ones first. False: a logit is not finite; `kept` is
// useless. Only logits that might have been kept are looked at.
using SelectBest = bool(std::span<const Extensions> beams, std::uint32_t width, std::vector<Candidate>& kept);

// Every child is made and all are sorted; how it is commonly done, and what the other is measured by.
SelectBest select_by_full_sort;

// A heap of the `width` best so far (xGR §6.2). Beams come best first; as soon as one could not enter the
// heap with a child of its own value, neither could any that follows. Inside a beam logits are compared in
// blocks with the least that could enter; only blocks that have one touch the heap. Paper's sub-beams are
// sorted for that; these need not be.
SelectBest select_best;

}  // namespace troupe::kernels
