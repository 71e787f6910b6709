#pragma once
// Tokens are immutable; tests that want others take a changed copy.
#include "kernels/base/tokens.h"

namespace troupe::kernels {

inline Tokens changed(const Tokens& tokens, std::size_t at, Token token) {
  std::vector<Token> copy = tokens.copy();
  copy.at(at) = token;
  return copy;
}

}  // namespace troupe::kernels
