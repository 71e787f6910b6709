#pragma once
// Prints the benchmark's results as one Markdown table and as JSON, beside the times of peers on
// the same work.
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
  std::string fault;  // why the row was not timed; empty if it was
  PassTimes parts;    // only for whole models

  std::string name() const { return kernel + ", " + shape; }
};

struct PeerTime {
  double seconds = 0;
  std::string variant;
};
struct PeerResults {
  std::string name;                       // "" if there are none
  std::map<std::string, PeerTime> times;  // by BenchRow::name()
};
// Reads a file that bench_torch.py wrote. Throws std::runtime_error with the file's name.
PeerResults read_peers(const std::filesystem::path& file);

// The device, seed and rounds of a measurement; ceilings at the beginning and at
// the end.
struct BenchRun {
  DeviceProperties device;
  std::uint64_t seed = 0;
  unsigned rounds = 0;
  MeasuredCeilings before, after;
  std::vector<BenchRow> rows;
  PeerResults peers;
};
void print_table(const BenchRun& run, std::ostream& out);
void write_json(const BenchRun& run, const std::filesystem::path& file);

// Prints the times expected from data sheets and assumptions for the same rows.
void print_expectations(const std::vector<BenchRow>& rows, std::ostream& out);

}  // namespace troupe::kernels::cuda
