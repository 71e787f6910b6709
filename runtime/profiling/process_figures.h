#pragma once
// What Prometheus' clients tell of their process, by the kernel's own files.
#include <cstdint>

namespace troupe {

struct ProcessFigures {
  double cpu_seconds = 0, start_seconds = 0;  // the second since 1970
  std::uint64_t resident_bytes = 0, virtual_bytes = 0, open_files = 0, files_max = 0, threads = 0;
};
ProcessFigures process_figures();  // what cannot be read is 0

}  // namespace troupe
