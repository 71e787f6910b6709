#pragma once
// Lays out a plot in units of the drawing (about a pixel): the area inside the axes, thinned lines,
// and labels of marks and lines that do not overlap.
#include <algorithm>
#include <string>
#include <vector>

#include "deploy/lab/reports/plot_axis.h"
#include "deploy/lab/reports/svg_plot.h"

namespace troupe::deploy {

constexpr double plot_width = 720;  // units of the drawing; one is about a pixel
constexpr double area_height = 220, line_height = 14, letter_width = 6.9;
constexpr std::size_t name_letters_max = 28, mark_rows_max = 8;

struct PlotFrame {
  // sides of the area inside the axes; height of the drawing
  double left = 0, right = 0, top = 0, bottom = 0, height = 0;
  Axis x, y;

  double px(double value) const { return left + std::clamp(x.place(value), 0.0, 1.0) * (right - left); }
  double py(double value) const { return bottom - std::clamp(y.place(value), 0.0, 1.0) * (bottom - top); }
};

struct PlotPoint {
  double x = 0, y = 0;
};

using PlotLine = std::vector<PlotPoint>;

// Thins points, in pixels, to at most four per visit to a pixel column: the first, lowest, highest
// and last. The line through them covers the same pixels as the line through all points.
std::vector<PlotPoint> thinned(const std::vector<PlotPoint>& points);

// Mark with the position of its label. Row 0 is next to the area.
struct LabeledMark {
  const Mark* mark = nullptr;
  double left = 0, right = 0, label_at = 0;
  std::size_t row = 0;  // mark_rows_max: the label does not fit
};

// Returns the area's sides and axes; set_heights sets the vertical positions once the marks are
// placed.
PlotFrame frame_of(const Plot& plot);
std::vector<LabeledMark> label_marks(const Plot& plot, const PlotFrame& frame);
void set_heights(PlotFrame& frame, const Plot& plot, const std::vector<LabeledMark>& marks);

bool drawable(const Plot& plot, double x, double y);
std::size_t length(const PlotSeries& series);
bool has_points(const Plot& plot, const PlotSeries& series);

// Returns the unbroken parts of a series, in pixels. Gaps inside one pixel column are invisible and
// ignored, so that each column has at most a few parts.
std::vector<PlotLine> lines_of(const Plot& plot, const PlotSeries& series, const PlotFrame& frame);

// Name of a line, at the height of its last point or as near as other names permit.
struct EndLabel {
  std::size_t n = 0;
  PlotPoint end;
  double y = 0;
};

void spread(std::vector<EndLabel>& labels, const PlotFrame& frame);

}  // namespace troupe::deploy
