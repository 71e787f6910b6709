#pragma once
// Where things of a plot go, in units of the drawing (about a pixel): the area inside the axes, the lines as
// few points, the labels of marks and the names of lines so that none covers another.
#include <algorithm>
#include <string>
#include <vector>

#include "deploy/reports/plot_axis.h"
#include "deploy/reports/svg_plot.h"

namespace troupe::deploy {

constexpr double plot_width = 720;  // units of the drawing; one is about a pixel
constexpr double area_height = 220, line_height = 14, letter_width = 6.9;
constexpr std::size_t name_letters_max = 28, mark_rows_max = 8;

struct PlotFrame {
  double left = 0, right = 0, top = 0, bottom = 0, height = 0;  // of the area inside the axes; of the drawing
  Axis x, y;

  double px(double value) const { return left + std::clamp(x.place(value), 0.0, 1.0) * (right - left); }
  double py(double value) const { return bottom - std::clamp(y.place(value), 0.0, 1.0) * (bottom - top); }
};

struct PlotPoint {
  double x = 0, y = 0;
};

using PlotLine = std::vector<PlotPoint>;

// Points in pixels, at most four for each visit to a pixel column: the first, the lowest, the highest, the
// last. The line through them covers the same pixels as the line through all.
std::vector<PlotPoint> thinned(const std::vector<PlotPoint>& points);

// A mark with its label's place: row 0 is next to the area.
struct PlacedMark {
  const Mark* mark = nullptr;
  double left = 0, right = 0, label_at = 0;
  std::size_t row = 0;  // mark_rows_max: no room for the label
};

// The area's sides and its axes; its height is set when the marks are placed.
PlotFrame frame_of(const Plot& plot);
std::vector<PlacedMark> place_marks(const Plot& plot, const PlotFrame& frame);
void set_heights(PlotFrame& frame, const Plot& plot, const std::vector<PlacedMark>& marks);

bool drawable(const Plot& plot, double x, double y);
std::size_t length(const Series& series);
bool has_points(const Plot& plot, const Series& series);

// The unbroken parts of a series, in pixels. A gap inside one pixel column cannot be seen and breaks nothing,
// so that there are at most a few parts for each column.
std::vector<PlotLine> lines_of(const Plot& plot, const Series& series, const PlotFrame& frame);

// A line's name, at the height of its last point or as near as the others let it.
struct EndLabel {
  std::size_t n = 0;
  PlotPoint end;
  double y = 0;
};

void spread(std::vector<EndLabel>& labels, const PlotFrame& frame);

}  // namespace troupe::deploy
