#include "runtime/profiling/process_figures.h"

#include <doctest/doctest.h>

#include <chrono>

using namespace troupe;

TEST_CASE("process figures: memory, files, threads and start time are plausible") {
  const ProcessFigures figures = process_figures();
  const double now =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  CHECK(figures.resident_bytes > 1 << 20);
  CHECK(figures.virtual_bytes >= figures.resident_bytes);
  CHECK(figures.open_files >= 3);
  CHECK(figures.files_max >= figures.open_files);
  CHECK(figures.threads >= 1);
  CHECK(figures.start_seconds > 1.6e9);
  CHECK(figures.start_seconds < now + 10);
  CHECK(process_figures().cpu_seconds >= figures.cpu_seconds);
}
