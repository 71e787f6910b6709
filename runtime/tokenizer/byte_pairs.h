#pragma once
// Byte pair encoding: a piece of text begins as one token a byte, and as long as two neighbours have a merge,
// those with the lowest rank become one, the first of equals first. n bytes take n log n steps, whatever they
// are. Pure.
#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "runtime/actor/stored_messages.h"

namespace troupe {

struct BytePairMerge {
  Token first = 0, second = 0, made = 0;
};

class BytePairs {
 public:
  BytePairs() = default;
  // `bytes`: the token of each byte; `merges`: in the order of their ranks, each pair once.
  BytePairs(const std::array<Token, 256>& bytes, std::span<const BytePairMerge> merges);

  // What one piece after the other is worked on with.
  class Work {
    friend class BytePairs;
    struct Part {
      Token token = 0;
      std::uint32_t before = 0, next = 0;  // where its neighbours begin
    };
    struct Pair {
      std::uint32_t rank = 0, at = 0;
      Token first = 0, second = 0, made = 0;  // if its parts are others by now, it is no more
      bool operator<(const Pair& other) const {
        return rank != other.rank ? rank > other.rank : at > other.at;
      }
    };
    std::vector<Part> parts_;
    std::vector<Pair> heap_;
  };
  void encode(std::string_view piece, Work& work, std::vector<Token>& out) const;  // appends

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
