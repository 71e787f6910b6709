// Draws the arrival times of requests: at a constant rate, Poisson, or from recorded times
// stretched to the wanted rate.
#include "deploy/lab/traces/arrivals.h"

#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "deploy/data/json_row.h"
#include "sim/base/random.h"

namespace troupe::deploy {

namespace {

constexpr double time_ms_max = 1e13;

void add_time(const TextFile& file, double ms, std::vector<double>& times) {
  if (!(ms >= 0 && ms <= time_ms_max)) file.fail("the time is invalid", "milliseconds from 0 to 1e13");
  if (!times.empty() && ms < times.back()) file.fail("the time decreases", "lines in order of time");
  times.push_back(ms);
}

std::vector<double> read_table(const std::filesystem::path& path) {
  TsvFile tsv(path);
  const std::size_t column = tsv.column("t_ms");
  std::vector<double> times;
  std::vector<std::string_view> fields;
  while (tsv.next(fields)) {
    double ms = 0;
    const std::string_view text = fields[column];
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), ms);
    if (error != std::errc() || end != text.data() + text.size())
      tsv.file().fail("t_ms is \"" + std::string(text.substr(0, 40)) + "\"", "a number");
    add_time(tsv.file(), ms, times);
  }
  return times;
}

std::vector<double> read_lines(const std::filesystem::path& path) {
  TextFile file(path);
  std::vector<double> times;
  std::string line;
  while (file.next(line)) try {
      add_time(file, parse_row(file, line).at("timestamp").get<double>(), times);
    } catch (const nlohmann::json::exception& error) {
      fail_row(file, error, "a JSON object with a number \"timestamp\"");
    }
  return times;
}

std::vector<double> read_times(const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  if (name.find(".tsv") == name.npos && name.find(".jsonl") == name.npos)
    throw ImportError("arrivals \"" + path.string() +
                      "\"; expected constant, poisson, or a .tsv or .jsonl file");
  std::vector<double> times = name.find(".tsv") != name.npos ? read_table(path) : read_lines(path);
  if (times.size() < 2 || times.back() <= times.front())
    throw ImportError(name + ": there are fewer than two different times; expected at least two");
  const double first = times.front();
  const double gap = (times.back() - first) / static_cast<double>(times.size() - 1);
  for (double& time : times) time = (time - first) / gap;
  return times;
}

}  // namespace

Arrivals::Arrivals(const std::string& kind, double per_second, std::uint64_t seed)
    : gap_us_(1e6 / per_second), random_(seed, 0xa221) {
  if (kind == "constant") {
    kind_ = Kind::constant;
  } else if (kind == "poisson") {
    kind_ = Kind::poisson;
  } else {
    recorded_ = read_times(kind);
  }
}

Instant Arrivals::next() {
  const std::uint64_t n = count_++;
  if (kind_ == Kind::poisson) {
    if (n > 0) at_us_ -= std::log(sim::unit(random_)) * gap_us_;
  } else if (kind_ == Kind::constant) {
    at_us_ = static_cast<double>(n) * gap_us_;
  } else {  // a round takes one mean gap per request, including the gap to the next round
    const std::uint64_t size = recorded_.size(), rounds = n / size;
    at_us_ = (static_cast<double>(rounds * size) + recorded_[n % size]) * gap_us_;
  }
  return {static_cast<std::int64_t>(at_us_)};
}

}  // namespace troupe::deploy
