#pragma once
// An immutable run of tokens that may be shared. A plan's segments point into the catalog, a
// profile or a model's prompt instead of copying them, and keep it alive. Copies and parts share
// the storage and cost a reference count; only copy() allocates.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace troupe::kernels {

using Token = std::int32_t;

class Tokens {
 public:
  Tokens() = default;
  Tokens(std::initializer_list<Token> tokens) : Tokens(std::vector<Token>(tokens)) {}
  Tokens(std::vector<Token> tokens) {
    if (tokens.empty()) return;
    auto owned = std::make_shared<const std::vector<Token>>(std::move(tokens));
    run_ = *owned;
    owner_ = std::move(owned);
  }
  Tokens(std::size_t count, Token token) : Tokens(std::vector<Token>(count, token)) {}
  // A view of tokens that `owner` keeps alive.
  Tokens(std::shared_ptr<const void> owner, std::span<const Token> run)
      : owner_(std::move(owner)), run_(run) {}

  std::size_t size() const { return run_.size(); }
  bool empty() const { return run_.empty(); }
  const Token* data() const { return run_.data(); }
  const Token* begin() const { return run_.data(); }
  const Token* end() const { return run_.data() + run_.size(); }
  Token operator[](std::size_t index) const { return run_[index]; }
  Token back() const { return run_.back(); }
  std::vector<Token> copy() const { return {begin(), end()}; }
  Tokens part(std::size_t from, std::size_t count) const { return {owner_, run_.subspan(from, count)}; }

  bool operator==(const Tokens& other) const {
    return std::equal(begin(), end(), other.begin(), other.end());
  }

 private:
  std::shared_ptr<const void> owner_;
  std::span<const Token> run_;
};

}  // namespace troupe::kernels
