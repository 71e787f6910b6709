#pragma once
// Memory with an end, for all test programs: what operator new gives ends at a page that nobody may touch,
// and stays forbidden when it was given back. So what reads or writes one element beyond an array, or after
// its life, ends the test there and then. New memory is full of 0xff, as a number NaN. All is so from 1,024
// bytes on until there were many, and then, and of less, a part. Sanitizers see more, in a build of their
// own; this costs none, and is left out of theirs.

namespace troupe {

// While there is one, new memory is malloc's: for tests that count what that gives.
class Unfenced {
 public:
  Unfenced();
  ~Unfenced();
  Unfenced(const Unfenced&) = delete;
  Unfenced& operator=(const Unfenced&) = delete;
};

}  // namespace troupe
