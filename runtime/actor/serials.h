#pragma once
// Numbers that an actor gives to what it begins (requests, tasks, jobs, pulls), all from one sequence.
// They start at the incarnation or above it, so that late answers to an earlier process are
// recognised.
#include <cstdint>

namespace troupe {

using Serial = std::uint64_t;

class Serials {
 public:
  explicit Serials(Serial first) : next_(first) {}
  Serial next() { return next_++; }

 private:
  Serial next_;
};

}  // namespace troupe
