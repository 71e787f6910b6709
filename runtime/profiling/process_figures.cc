// Reads figures about this process, such as CPU time, memory and open files, from /proc for the
// metrics page.
#include "runtime/profiling/process_figures.h"

#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

namespace troupe {
namespace {

// Returns the fields of /proc/self/stat after the program's name, which may contain anything; the
// first one is the file's third field.
std::istringstream stat_fields() {
  std::string line;
  std::ifstream file("/proc/self/stat");
  std::getline(file, line);
  const std::size_t name_end = line.rfind(')');
  return std::istringstream(name_end == line.npos ? "" : line.substr(name_end + 1));
}

double boot_seconds() {
  std::ifstream file("/proc/stat");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("btime ")) return std::stod(line.substr(6));
  return 0;
}

std::uint64_t count_open_files() {
  std::error_code error;
  const std::filesystem::directory_iterator files("/proc/self/fd", error);
  // without this directory
  return error ? 0 : static_cast<std::uint64_t>(std::distance(begin(files), end(files))) - 1;
}

}  // namespace

ProcessFigures process_figures() {
  constexpr int user_time = 14, system_time = 15, threads = 20, start = 22, virtual_bytes = 23,
                resident_pages = 24;
  static const double ticks = static_cast<double>(sysconf(_SC_CLK_TCK)), booted = boot_seconds();
  ProcessFigures figures;
  std::istringstream fields = stat_fields();
  std::string word;
  for (int number = 3; number <= resident_pages && fields >> word; ++number) {
    const bool is_amount = word.find_first_not_of("0123456789") == word.npos;
    const std::uint64_t amount = is_amount ? std::stoull(word) : 0;
    const double seconds = static_cast<double>(amount) / ticks;
    if (number == user_time || number == system_time) figures.cpu_seconds += seconds;
    if (number == threads) figures.threads = amount;
    if (number == start) figures.start_seconds = booted + seconds;
    if (number == virtual_bytes) figures.virtual_bytes = amount;
    if (number == resident_pages)
      figures.resident_bytes = amount * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  }
  figures.open_files = count_open_files();
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) figures.files_max = limit.rlim_cur;
  return figures;
}

}  // namespace troupe
