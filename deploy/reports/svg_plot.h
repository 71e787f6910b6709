#pragma once
// A line plot as inline SVG, for pages that are read on screen and on paper. Lines are told apart by dash
// pattern, by symbols, and by their names at their ends; color only helps. Bands and vertical lines mark what
// happened when. Colors and dashes come from the page's style (html_report.cc), so that one drawing serves
// light, dark and print.
#include <string>
#include <vector>

namespace troupe::deploy {

// A line through (x[i], y[i]) in that order; the shorter of the two counts. It is broken where a value is no
// finite number, or not above zero on a logarithmic axis.
struct Series {
  std::string name;
  std::vector<double> x, y;
};

// A band from x0 to x1, or a line where they are equal. An infinite end reaches the end of the axis.
struct Mark {
  std::string label;
  double x0 = 0, x1 = 0;
};

struct Plot {
  std::string title, x_label, y_label;
  std::vector<Series> series;
  std::vector<Mark> marks;
  bool log_y = false;
  std::string caption;  // what the reader should see; if empty, what is drawn
};

std::string svg(const Plot& plot);

// The plot's title and caption, and what could not be drawn. Plain text, not escaped.
std::string caption_of(const Plot& plot);

}  // namespace troupe::deploy
