#pragma once
// Byte pair encoding. A piece of text starts as one token per byte. While two neighbours have a
// merge, the pair with the lowest rank becomes one token, the first of equal pairs first. n bytes
// take n log n steps, whatever they are. Pure.
#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "kernels/base/plan.h"

namespace troupe {

using kernels::Token;

struct BytePairMerge {
  Token first = 0, second = 0, made = 0;
};

class BytePairs {
 public:
  BytePairs() = default;
  // `bytes`: the token of each byte; `merges`: in the order of their ranks, each pair once.
  BytePairs(const std::array<Token, 256>& bytes, std::span<const BytePairMerge> merges);

  // Working memory, reused from piece to piece.
  class Work {
    friend class BytePairs;
    struct Part {
      Token token = 0;
      std::uint32_t before = 0, next = 0;  // positions of its neighbours
    };
    struct Pair {
      std::uint32_t rank = 0, at = 0;
      Token first = 0, second = 0, made = 0;  // stale if its parts have changed
      bool operator<(const Pair& other) const {
        return rank != other.rank ? rank > other.rank : at > other.at;
      }
    };
    std::vector<Part> parts_;
    std::vector<Pair> heap_;
  };
  void encode(std::string_view piece, Work& work, std::vector<Token>& out) const;  // appends to `out`

 private:
  struct Step {
    std::uint32_t rank = 0;
    Token made = 0;
  };
  static std::uint64_t key(Token first, Token second) {
    return (std::uint64_t{static_cast<std::uint32_t>(first)} << 32) | static_cast<std::uint32_t>(second);
  }
  void offer(Work& work, std::uint32_t at) const;

  std::array<Token, 256> bytes_{};
  std::unordered_map<std::uint64_t, Step> steps_;
};

}  // namespace troupe
