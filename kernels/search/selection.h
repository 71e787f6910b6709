#pragma once
// One level of a beam search: selects the `width` best continuations among all tokens that may
// follow all beams. Results do not depend on the version: a higher value is better, and among
// equals the lower key.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace troupe::kernels {

// A path that may be kept. Its key orders paths by their tokens. The key is the index of the beam
// among all kept paths, which are in that order, followed by the index of the token among those
// that may follow.
struct Candidate {
  double value = 0;
  std::uint64_t key = 0;

  std::uint32_t slot() const { return static_cast<std::uint32_t>(key >> 32); }
  std::uint32_t child() const { return static_cast<std::uint32_t>(key); }
  bool operator==(const Candidate&) const = default;
};
inline std::uint64_t candidate_key(std::uint32_t slot, std::uint32_t child) {
  return std::uint64_t{slot} << 32 | child;
}
inline bool better(const Candidate& a, const Candidate& b) {
  return a.value != b.value ? a.value > b.value : a.key < b.key;
}

// The continuations of one beam. A child of logit l has value + min(0, l - log_total): a
// probability is at most 1 even where rounding gives more, so no child is better than its beam.
struct Extensions {
  double value = 0;                       // value of the beam
  double log_total = 0;                   // finite
  std::uint32_t slot = 0;                 // index of the beam among the kept paths
  std::span<const float> logits;          // in the order of tokens
  std::span<const std::uint32_t> barred;  // children that must not be kept, ascending
  std::span<const std::uint32_t> likely;  // [logit]: its child, ascending; empty: logits of all children

  double value_of(std::size_t logit) const;
  std::uint32_t child(std::size_t logit) const {
    return likely.empty() ? static_cast<std::uint32_t>(logit) : likely[logit];
  }
};

// Adds children to `kept`, which comes with competing whole paths (at most `width`) and leaves with
// the `width` best of all, in any order. `beams` are ordered best first. Returns false if a logit
// is not finite; `kept` is undefined then. Logits that cannot be kept may be left unread.
using SelectBest = bool(std::span<const Extensions> beams, std::uint32_t width, std::vector<Candidate>& kept);

// Makes and sorts every child: the usual way, and the baseline of the other.
SelectBest select_by_full_sort;

// Keeps a heap of the `width` best so far (xGR §6.2). Beams come best first: as soon as a beam's
// own value could not enter the heap, no later beam can. Within a beam, blocks of logits are
// compared with the least logit that could enter; only blocks that have one touch the heap. The
// paper sorts its sub-beams for that; these need no sorting.
SelectBest select_best;

}  // namespace troupe::kernels
