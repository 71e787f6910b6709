// Prints the benchmark's results as a Markdown table and as JSON, beside lower bounds and the times
// of peers.
#include "kernels/cuda/bench/bench_table.h"

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace troupe::kernels::cuda {
namespace {

std::string number(double value, const char* form) {
  char text[64];
  std::snprintf(text, sizeof text, form, value);
  return text;
}
std::string microseconds(double seconds) { return number(seconds * 1e6, seconds < 1e-4 ? "%.1f" : "%.0f"); }

// Formats a rate and its share of the ceiling; empty cells for an amount of 0. Cells end in " |".
std::string rate_cells(double amount, double seconds, double ceiling) {
  if (amount == 0) return " | |";
  const double found = amount / seconds;
  return " " + number(found / 1e12, "%.3f") + " | " + number(100 * found / ceiling, "%.1f") + " |";
}

Ceilings mean(const Ceilings& a, const Ceilings& b) {
  return {(a.bytes_per_second + b.bytes_per_second) / 2, (a.flops_per_second + b.flops_per_second) / 2};
}

std::string peer_cells(const PeerResults& peers, const BenchRow& row) {
  if (peers.name.empty()) return "";
  const auto found = peers.times.find(row.name());
  if (found == peers.times.end()) return " | |";
  return " " + microseconds(found->second.seconds) + " (" + found->second.variant + ") | " +
         number(found->second.seconds / row.time.median, "%.2f") + " |";
}

void print_ceilings(const char* when, const MeasuredCeilings& found, std::ostream& out) {
  out << when << ": copy " << number(found.device.bytes_per_second / 1e12, "%.3f") << " TB/s, bf16 product "
      << number(found.device.flops_per_second / 1e12, "%.1f") << " TFLOP/s, to device "
      << number(found.to_device / 1e9, "%.1f") << " GB/s, to host " << number(found.to_host / 1e9, "%.1f")
      << " GB/s, smallest launch " << microseconds(found.smallest_launch) << " us.\n";
}

nlohmann::ordered_json ceilings_json(const MeasuredCeilings& found) {
  return {{"copy_bytes_per_second", found.device.bytes_per_second},
          {"product_flops_per_second", found.device.flops_per_second},
          {"to_device_bytes_per_second", found.to_device},
          {"to_host_bytes_per_second", found.to_host},
          {"smallest_launch_seconds", found.smallest_launch}};
}

nlohmann::ordered_json row_json(const BenchRun& run, const BenchRow& row) {
  nlohmann::ordered_json json{{"kernel", row.kernel}, {"shape", row.shape}};
  if (!row.fault.empty()) {
    json["fault"] = row.fault;
    return json;
  }
  const Ceilings ceilings = mean(run.before.device, run.after.device);
  const double bytes = total_bytes(row.steps), flops = total_flops(row.steps);
  json["seconds"] = row.time.median;
  json["fastest_seconds"] = row.time.fastest;
  json["slowest_seconds"] = row.time.slowest;
  json["floor_seconds"] = floor_seconds(row.steps, ceilings);
  json["bytes"] = bytes;
  json["flops"] = flops;
  json["bytes_per_second"] = bytes / row.time.median;
  json["flops_per_second"] = flops / row.time.median;
  if (row.kernel == "model")
    json["part_seconds"] = {{"planning", row.parts.planning},       {"embedding", row.parts.embedding},
                            {"linear", row.parts.linear},           {"attention", row.parts.attention},
                            {"elementwise", row.parts.elementwise}, {"keys_values", row.parts.keys_values},
                            {"readout", row.parts.readout}};
  if (const auto found = run.peers.times.find(row.name()); found != run.peers.times.end())
    json["peer"] = {{"seconds", found->second.seconds}, {"variant", found->second.variant}};
  return json;
}

}  // namespace

PeerResults read_peers(const std::filesystem::path& file) {
  try {
    const auto json = nlohmann::json::parse(std::ifstream(file));
    PeerResults peers{json.at("name"), {}};
    for (const auto& [name, row] : json.at("rows").items())
      peers.times[name] = {row.at("seconds"), row.at("variant")};
    return peers;
  } catch (const nlohmann::json::exception& error) {
    throw std::runtime_error(file.string() + ": " + error.what() + "; expected what bench_torch.py writes");
  }
}

void print_table(const BenchRun& run, std::ostream& out) {
  const Ceilings ceilings = mean(run.before.device, run.after.device);
  out << run.device.name << ", sm_" << run.device.capability << ", " << run.device.multiprocessors
      << " multiprocessors, " << run.device.l2_bytes / (1 << 20) << " MiB of L2; seed " << run.seed
      << "; medians of " << run.rounds << " rounds.\n\nCeilings, ";
  print_ceilings("before", run.before, out);
  print_ceilings("After", run.after, out);
  out << "\n| kernel | shape | us | floor us | % of floor | TB/s | % of copy | TFLOP/s | % of product |";
  if (!run.peers.name.empty()) out << " " << run.peers.name << ", us | x |";
  out << "\n| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
      << (run.peers.name.empty() ? "" : " ---: | ---: |") << "\n";
  for (const BenchRow& row : run.rows) {
    out << "| " << row.kernel << " | " << row.shape << " | ";
    if (!row.fault.empty()) {
      out << "not timed: " << row.fault << " |\n";
      continue;
    }
    const double floor = floor_seconds(row.steps, ceilings), seconds = row.time.median;
    out << microseconds(seconds) << " | " << microseconds(floor) << " | "
        << number(100 * floor / seconds, "%.1f") << " |"
        << rate_cells(total_bytes(row.steps), seconds, ceilings.bytes_per_second)
        << rate_cells(total_flops(row.steps), seconds, ceilings.flops_per_second)
        << peer_cells(run.peers, row) << "\n";
  }
}

void write_json(const BenchRun& run, const std::filesystem::path& file) {
  nlohmann::ordered_json json{{"device", run.device.name},
                              {"capability", run.device.capability},
                              {"multiprocessors", run.device.multiprocessors},
                              {"seed", run.seed},
                              {"rounds", run.rounds},
                              {"ceilings_before", ceilings_json(run.before)},
                              {"ceilings_after", ceilings_json(run.after)},
                              {"peer", run.peers.name},
                              {"rows", nlohmann::ordered_json::array()}};
  for (const BenchRow& row : run.rows) json["rows"].push_back(row_json(run, row));
  std::ofstream out(file);
  out << json.dump(1) << "\n";
  out.close();
  if (!out) throw std::runtime_error(file.string() + ": cannot be written");
}

void print_expectations(const std::vector<BenchRow>& rows, std::ostream& out) {
  const Assumptions assumed;
  out << "# Expected times of the CUDA kernels: to be checked, nothing here was measured\n```\ncuda_bench "
         "--expected\n```\n"
         "Floors are operations over the data sheet's dense bf16 rate, or bytes over its memory bandwidth, "
         "whichever takes longer,\n"
         "step after step; nothing runs faster. Bytes are the necessary ones: each input and output once. "
         "Data "
         "between the launches\n"
         "of a whole model is assumed to stay in the cache. Expected times come from an analytic model: a "
         "launch costs\n"
      << number(1e6 * assumed.launch_seconds, "%.0f") << " us, memory-bound work reaches "
      << number(100 * assumed.memory_share, "%.0f") << " % of the bandwidth, products "
      << number(100 * assumed.product_share, "%.0f")
      << " % of the matrix rate.\n"
         "\n"
         "Attention takes what its plan predicts for the device (`attend_cost.h`): its launches, two if "
         "lists "
         "are split; 1.5 us\n"
         "for blocks to begin and end; and the longer of two times, reading its tiles from L2 (5 TB/s on the "
         "H100 and H200,\n"
         "4.6 on the A100) and the busiest multiprocessor. Its products reach 75 % of the rate with wgmma, "
         "55 % "
         "with mma.sync,\n"
         "whose rate on the H100 and H200 is 62 % of wgmma's. SiLU needs twice as many slow operations as "
         "the "
         "softmax.\n"
         "`hstu` is bf16; its rows exceed a cache, so its bytes are those of every launch. `attend_mma` uses "
         "mma.sync on a\n"
         "device that has wgmma.\n"
         "\n"
         "These shares and L2's rates are assumptions; an expectation may be off by a factor of 1.5. The "
         "rows "
         "are those of\n"
         "`cuda_bench`, which prints measured times beside floors from ceilings that it measures itself. A "
         "difference between a\n"
         "measurement and an expectation needs an explanation.\n\nPeaks:";
  for (const DataSheet& sheet : data_sheets())
    out << " " << sheet.device << " " << number(sheet.peaks.bytes_per_second / 1e12, "%.3f") << " TB/s, "
        << number(sheet.peaks.flops_per_second / 1e12, "%.0f") << " TFLOP/s.";
  out << "\n\n| kernel | shape | MB | GFLOP |";
  for (const DataSheet& sheet : data_sheets())
    out << " " << sheet.device << " floor, us | " << sheet.device << " expected, us |";
  out << "\n| --- | --- | ---: | ---: |";
  for (std::size_t i = 0; i < data_sheets().size(); ++i) out << " ---: | ---: |";
  out << "\n";
  for (const BenchRow& row : rows) {
    out << "| " << row.kernel << " | " << row.shape << " | " << number(total_bytes(row.steps) / 1e6, "%.2f")
        << " | " << number(total_flops(row.steps) / 1e9, "%.1f") << " |";
    for (const DataSheet& sheet : data_sheets())
      out << " " << microseconds(floor_seconds(row.steps, sheet.peaks)) << " | "
          << microseconds(expected_seconds(row.steps, row.launches, sheet, assumed)) << " |";
    out << "\n";
  }
}

}  // namespace troupe::kernels::cuda
