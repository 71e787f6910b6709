#pragma once
// Test helper: tokens are immutable, so a test makes a changed copy.
#include "kernels/base/tokens.h"

namespace troupe::kernels {

inline Tokens changed(const Tokens& tokens, std::size_t at, Token token) {
  std::vector<Token> copy = tokens.copy();
  copy.at(at) = token;
  return copy;
}

}  // namespace troupe::kernels
