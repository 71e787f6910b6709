#pragma once
// Figures about this process that Prometheus clients usually export, read from the kernel's files.
#include <cstdint>

namespace troupe {

struct ProcessFigures {
  double cpu_seconds = 0, start_seconds = 0;  // start_seconds: since 1970
  std::uint64_t resident_bytes = 0, virtual_bytes = 0, open_files = 0, files_max = 0, threads = 0;
};
ProcessFigures process_figures();  // unreadable figures are 0

}  // namespace troupe
