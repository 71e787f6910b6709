// Counts the calls that the compiler puts into every basic block of instrumented code.
#include "tests/body_work/work_count.h"

#include <atomic>

namespace {
std::atomic<std::uint64_t> blocks_run{0};
}

extern "C" void __sanitizer_cov_trace_pc() { blocks_run.fetch_add(1, std::memory_order_relaxed); }

namespace troupe {

std::uint64_t work_so_far() { return blocks_run.load(); }

}  // namespace troupe
