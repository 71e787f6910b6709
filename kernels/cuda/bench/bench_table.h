#pragma once
// What the benchmark found, as one Markdown table and as JSON; and what peers found on the same work.
#include <filesystem>
#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "kernels/cuda/bench/bench_timer.h"
#include "kernels/cuda/bench/bench_work.h"
#include "kernels/decoder/decoder.h"

namespace troupe::kernels::cuda {

struct BenchRow {
  std::string kernel, shape;
  std::vector<Cost> steps;
  unsigned launches = 1;
  Timing time;
  std::string fault;  // not timed: why
  PassTimes parts;    // of whole models

  std::string name() const { return kernel + ", " + shape; }
};

struct PeerTime {
  double seconds = 0;
  std::string variant;
};
struct Peers {
  std::string name;                       // "" where there are none
  std::map<std::string, PeerTime> times;  // by BenchRow::name()
};
// What bench_torch.py wrote. Throws std::runtime_error that names the file.
Peers read_peers(const std::filesystem::path& file);

// Where and when the rows were measured; ceilings at the beginning and at the end.
struct BenchRun {
  DeviceProperties device;
  std::uint64_t seed = 0;
  unsigned rounds = 0;
  MeasuredCeilings before, after;
  std::vector<BenchRow> rows;
  Peers peers;
};
void print_table(const BenchRun& run, std::ostream& out);
void write_json(const BenchRun& run, const std::filesystem::path& file);

// Times that data sheets and assumptions lead to expect, for the same rows.
void print_expectations(const std::vector<BenchRow>& rows, std::ostream& out);

}  // namespace troupe::kernels::cuda
