#pragma once
// Counts the work of code that is compiled with -fsanitize-coverage=trace-pc: the basic blocks that it runs.
// The count depends on nothing but the input, so a test can compare the work of two inputs without a clock.
#include <cstdint>

namespace troupe {

std::uint64_t work_so_far();  // basic blocks run by instrumented code, on all threads

}  // namespace troupe
