#pragma once
// Draws a line plot as inline SVG, for screen and paper. Lines differ by dash pattern, symbols and
// names at their ends; color is only an addition. Bands and vertical lines mark events. Colors and
// dashes come from the page's style (html_report.cc), so that one drawing serves light, dark and
// print.
#include <string>
#include <vector>

namespace troupe::deploy {

// Line through the points (x[i], y[i]) in that order; extra values of the longer list are ignored.
// It breaks where a value is not finite, or not above zero on a logarithmic axis.
struct PlotSeries {
  std::string name;
  std::vector<double> x, y;
};

// Band from x0 to x1, or a vertical line if they are equal. An infinite end reaches the end of the
// axis.
struct Mark {
  std::string label;
  double x0 = 0, x1 = 0;
};

struct Plot {
  std::string title, x_label, y_label;
  std::vector<PlotSeries> series;
  std::vector<Mark> marks;
  bool log_y = false;
  std::string caption;  // message for the reader; empty: describes what is drawn
};

std::string svg(const Plot& plot);

// Returns the plot's title and caption, and what could not be drawn. Plain text, not escaped.
std::string caption_of(const Plot& plot);

}  // namespace troupe::deploy
