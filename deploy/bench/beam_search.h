#pragma once
// Recommending by generation: a decoder continues a user's history with the tokens of a semantic ID, and a
// beam search keeps the most probable paths. A trie of the catalog says which tokens may follow a path, so
// that every finished beam is an item (xGR §6.1). Log-probabilities are over the whole vocabulary; they are
// not normalised again over the tokens that may follow.
#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "kernels/decoder/decoder.h"
#include "runtime/pages/page_arena.h"

namespace troupe::deploy {

using Path = std::vector<kernels::Token>;  // the first tokens of a semantic ID, or all of them

class SemanticIdTrie {
 public:
  explicit SemanticIdTrie(std::span<const Path> ids);  // at least one, all of one length of at least 1

  std::size_t levels() const { return levels_; }                 // tokens of an ID
  std::span<const kernels::Token> next(const Path& path) const;  // ascending; none after what begins no ID

 private:
  std::size_t levels_;
  std::map<Path, Path> next_;
};

struct Beam {
  Path path;
  double log_probability = 0;  // sum over the path's tokens
};

// log(exp(logits[i]) / sum of exp(logits)). Throws std::runtime_error if a logit is not finite, as happens
// when a key or value is too large for its format.
std::vector<double> log_softmax(std::span<const float> logits);

// One level of the search: each beam with each token that the trie allows after it; of these the `width` most
// probable, best first, equals by lower tokens. log_probabilities[b]: of all tokens after beam b.
std::vector<Beam> extend_beams(std::span<const Beam> beams,
                               std::span<const std::vector<double>> log_probabilities,
                               const SemanticIdTrie& trie, std::size_t width);

// One decoder and one prompt at a time. The prompt's keys and values are kept in pages, as a cache would, and
// every continuation sees them from there; a beam's own few tokens are computed again at each level.
class Generator {
 public:
  explicit Generator(std::unique_ptr<kernels::Executor> decoder);

  // At least one token. The prompt and what is asked about it fit into the model's positions.
  void set_prompt(const Path& prompt);
  // At most `width` IDs of the trie for the prompt, best first.
  std::vector<Beam> search(const SemanticIdTrie& trie, std::size_t width);
  // Of each token of `continuation` (at least one), given the prompt and the tokens before it.
  std::vector<double> log_probabilities_of(const Path& continuation);

 private:
  enum class ReadAt { last_token, each_token };
  std::vector<std::vector<double>> read(std::span<const Path> paths, ReadAt where);

  std::unique_ptr<kernels::Executor> decoder_;
  const std::vector<kernels::Token> all_rows_;
  PageArena arena_;
  kernels::Segment prompt_;
  kernels::SegmentKv prompt_kv_;
  std::vector<double> first_;  // log-probabilities after the prompt
};

}  // namespace troupe::deploy
