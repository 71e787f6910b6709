#pragma once
// Plain-text tables: columns as wide as their widest cell, numbers aligned to the right. Widths
// count code points, which fits the titles and units that we print. Control characters of cells are
// escaped.
#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

namespace troupe::deploy {

class Table {
 public:
  enum class Align : std::uint8_t { left, right };
  struct Column {
    std::string name;
    Align align = Align::left;
  };
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  void row(std::vector<std::string> cells);  // one cell per column
  void print(std::ostream& out) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

std::string fixed(double value, int decimals);
std::string scientific(double value);                                         // such as "3.8e-06"
std::string percent(double share);                                            // such as "12.3 %"
std::string shortened(const std::string& text, std::size_t code_points_max);  // ends in "…" if shortened

// Progress line on a terminal's stderr; silent if stderr is not a terminal.
class Progress {
 public:
  Progress(std::string what, std::uint64_t total);
  ~Progress();
  void at(std::uint64_t done);

 private:
  std::string what_;
  std::uint64_t total_, shown_percent_ = 101;
  bool terminal_;
};

}  // namespace troupe::deploy
