#pragma once
// Guard pages for all test programs: memory from operator new ends at an inaccessible page, and
// becomes inaccessible when it is freed. So a read or write one element beyond an array, or after
// its lifetime, ends the test at once. New memory is filled with 0xff, which is NaN as a number.
// Allocations from 1,024 bytes on are all fenced up to a count; after that, and below that size, a
// fraction is. Builds with sanitizers, which detect more, leave this out.

namespace troupe {

// While an object of this class is alive, new memory is malloc's: for tests that count allocations.
class WithoutFence {
 public:
  WithoutFence();
  ~WithoutFence();
  WithoutFence(const WithoutFence&) = delete;
  WithoutFence& operator=(const WithoutFence&) = delete;
};

}  // namespace troupe
