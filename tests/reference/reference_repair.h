#pragma once
// The reference's part for plans with a repair (kernels/base/repair.h): which tokens are chosen, and the
// keys and values of the others.
#include <cmath>
#include <cstdint>
#include <vector>

#include "tests/reference/reference.h"

namespace troupe::reference {

// Rotates each pair (i, i + head_dim/2) of each head by position × frequency.
void rotate(std::vector<double>& row, std::size_t head_dim, const std::vector<double>& frequencies,
            double position);

// Returns the index of each segment's first token among all tokens of the plan, and the total at the end.
std::vector<std::size_t> first_tokens(const kernels::Plan& plan);

class RepairSelection {
 public:
  RepairSelection(const kernels::DecoderConfig& config, const kernels::Plan& plan);

  // Notes the attention received in the first layer.
  void note_attention(const std::vector<double>& received);
  // Gives tokens that are not chosen their block's keys and values in this layer.
  void substitute(std::size_t layer, LayerKv& kv);

  std::vector<std::uint32_t> chosen() const;
  double gap() const { return gap_; }
  std::vector<TokenScore> scores() const;

 private:
  struct Token {
    std::size_t own = 0, block = 0;  // tokens of the plan
    double position = 0, shift = 0;
    std::uint32_t budget = 0;
    std::size_t offset = 0;
    bool chosen = false;
    double attention = 0, divergence = 0, score = INFINITY;
  };
  // Returns the differences of a token's keys (unrotated) and values from its block's, side by side.
  std::vector<double> difference(const Token& token, const LayerKv& kv) const;
  void choose();
  void choose(std::uint32_t budget);

  const kernels::DecoderConfig& config_;
  const kernels::Repair& repair_;
  std::vector<double> frequencies_;
  std::vector<Token> tokens_;
  bool done_ = false;
  double gap_ = INFINITY;
};

}  // namespace troupe::reference
