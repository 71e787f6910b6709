// Prints tables as aligned plain text, formats numbers, and shows a command's progress on a
// terminal.
#include "deploy/reports/table.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iostream>

#include "runtime/wire/json_text.h"

namespace troupe::deploy {

namespace {

bool begins_code_point(char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }

std::size_t width(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), begins_code_point));
}

void print_cell(std::ostream& out, const std::string& text, std::size_t to, Table::Align align) {
  const std::string space(to - width(text), ' ');
  out << (align == Table::Align::right ? space + text : text + space);
}

}  // namespace

void Table::row(std::vector<std::string> cells) {
  cells.resize(columns_.size());
  for (std::string& cell : cells) cell = terminal_text(cell);
  rows_.push_back(std::move(cells));
}

void Table::print(std::ostream& out) const {
  std::vector<std::size_t> widths;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    widths.push_back(width(columns_[c].name));
    for (const auto& row : rows_) widths[c] = std::max(widths[c], width(row[c]));
  }
  auto line = [&](auto cell_of) {
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      if (c > 0) out << "  ";
      print_cell(out, cell_of(c), widths[c], columns_[c].align);
    }
    out << "\n";
  };
  line([&](std::size_t c) { return columns_[c].name; });
  line([&](std::size_t c) { return std::string(widths[c], '-'); });
  for (const auto& row : rows_) line([&](std::size_t c) { return row[c]; });
}

std::string fixed(double value, int decimals) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", decimals, value);
  return text;
}

std::string scientific(double value) {
  char text[64];
  std::snprintf(text, sizeof text, "%.1e", value);
  return text;
}

std::string percent(double share) { return fixed(100 * share, 1) + " %"; }

std::string shortened(const std::string& text, std::size_t code_points_max) {
  if (width(text) <= code_points_max) return text;
  std::size_t seen = 0;
  for (std::size_t i = 0; i < text.size(); ++i)
    if (begins_code_point(text[i]) && ++seen == code_points_max) return text.substr(0, i) + "…";
  return text;
}

Progress::Progress(std::string what, std::uint64_t total)
    : what_(std::move(what)),
      total_(std::max<std::uint64_t>(1, total)),
      terminal_(isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() {
  if (terminal_ && shown_percent_ <= 100) std::cerr << "\r\033[K" << std::flush;
}

void Progress::at(std::uint64_t done) {
  const std::uint64_t percent = std::min<std::uint64_t>(100, done * 100 / total_);
  if (!terminal_ || percent == shown_percent_) return;
  shown_percent_ = percent;
  std::cerr << "\r\033[K" << what_ << " " << percent << " %" << std::flush;
}

}  // namespace troupe::deploy
