// Lays out a plot: the area of its axes, lines with fewer points, and labels that do not overlap.
#include "deploy/lab/reports/plot_layout.h"

#include <cmath>

#include "deploy/lab/reports/html_text.h"
#include "deploy/reports/table.h"

namespace troupe::deploy {

namespace {

double width_of(const std::string& text) { return letter_width * static_cast<double>(code_points(text)); }

Extent x_extent(const Plot& plot) {
  Extent extent;
  for (const PlotSeries& series : plot.series)
    for (std::size_t i = 0; i < length(series); ++i)
      if (drawable(plot, series.x[i], series.y[i])) extent.add(series.x[i]);
  for (const Mark& mark : plot.marks)
    for (double x : {mark.x0, mark.x1})
      if (std::isfinite(x) && !std::isnan(mark.x0 + mark.x1)) extent.add(x);
  return extent;
}

Extent y_extent(const Plot& plot) {
  Extent extent;
  for (const PlotSeries& series : plot.series)
    for (std::size_t i = 0; i < length(series); ++i)
      if (drawable(plot, series.x[i], series.y[i])) extent.add(series.y[i]);
  return extent;
}

double widest(const std::vector<std::string>& texts) {
  double width = 0;
  for (const std::string& text : texts) width = std::max(width, width_of(text));
  return width;
}

}  // namespace

bool drawable(const Plot& plot, double x, double y) {
  return std::isfinite(x) && std::isfinite(y) && (!plot.log_y || y > 0);
}

std::size_t length(const PlotSeries& series) { return std::min(series.x.size(), series.y.size()); }

bool has_points(const Plot& plot, const PlotSeries& series) {
  for (std::size_t i = 0; i < length(series); ++i)
    if (drawable(plot, series.x[i], series.y[i])) return true;
  return false;
}

PlotFrame frame_of(const Plot& plot) {
  PlotFrame frame;
  frame.x = tight_axis(x_extent(plot), 8);
  frame.y = plot.log_y ? log_axis(y_extent(plot), 6) : rounded_axis(y_extent(plot), 5);
  std::vector<std::string> names;
  for (const PlotSeries& series : plot.series) names.push_back(shortened(series.name, name_letters_max));
  frame.left = std::max(30.0, widest(frame.y.labels) + 10);
  frame.right = plot_width - std::max(16.0, widest(names) + 30);
  return frame;
}

// The y label and the rows of mark labels are above the area. The area grows with the number of
// names at its right.
void set_heights(PlotFrame& frame, const Plot& plot, const std::vector<LabeledMark>& marks) {
  std::size_t rows = 0;
  for (const LabeledMark& at : marks) rows = std::max(rows, std::min(at.row + 1, mark_rows_max));
  frame.top = line_height * (static_cast<double>(rows) + 1) + 10;
  const double names = line_height * static_cast<double>(plot.series.size());
  frame.bottom = frame.top + std::max(area_height, names);
  frame.height = frame.bottom + 2 * line_height + 14;
}

std::vector<LabeledMark> label_marks(const Plot& plot, const PlotFrame& frame) {
  std::vector<LabeledMark> placed;
  for (const Mark& mark : plot.marks) {
    if (std::isnan(mark.x0) || std::isnan(mark.x1)) continue;
    const auto [from, to] = std::minmax(mark.x0, mark.x1);
    const double left = frame.px(from);
    const double label_width = width_of(shortened(mark.label, name_letters_max));
    const double latest = std::max(frame.left, plot_width - label_width - 3);
    placed.push_back({&mark, left, frame.px(to), std::min(left, latest)});
  }
  std::stable_sort(placed.begin(), placed.end(), [](auto& a, auto& b) { return a.label_at < b.label_at; });
  std::vector<double> row_ends(mark_rows_max, -1);
  for (LabeledMark& at : placed) {
    while (at.row < mark_rows_max && row_ends[at.row] >= at.label_at) ++at.row;
    if (at.row < mark_rows_max)
      row_ends[at.row] = at.label_at + width_of(shortened(at.mark->label, name_letters_max)) + 8;
  }
  return placed;
}

std::vector<PlotLine> lines_of(const Plot& plot, const PlotSeries& series, const PlotFrame& frame) {
  std::vector<PlotLine> lines;
  bool broken = true;
  for (std::size_t i = 0; i < length(series); ++i) {
    if (!drawable(plot, series.x[i], series.y[i])) {
      broken = true;
      continue;
    }
    const PlotPoint point{frame.px(series.x[i]), frame.py(series.y[i])};
    if (lines.empty() || (broken && std::floor(lines.back().back().x) != std::floor(point.x)))
      lines.emplace_back();
    lines.back().push_back(point);
    broken = false;
  }
  for (PlotLine& line : lines) line = thinned(line);
  return lines;
}

std::vector<PlotPoint> thinned(const std::vector<PlotPoint>& points) {
  std::vector<PlotPoint> out;
  for (std::size_t begin = 0, end = 0; begin < points.size(); begin = end) {
    while (end < points.size() && std::floor(points[end].x) == std::floor(points[begin].x)) ++end;
    std::size_t lowest = begin, highest = begin;
    for (std::size_t i = begin; i < end; ++i) {
      if (points[i].y < points[lowest].y) lowest = i;
      if (points[i].y > points[highest].y) highest = i;
    }
    std::vector<std::size_t> kept{begin, lowest, highest, end - 1};
    std::sort(kept.begin(), kept.end());
    kept.erase(std::unique(kept.begin(), kept.end()), kept.end());
    for (std::size_t i : kept) out.push_back(points[i]);
  }
  return out;
}

void spread(std::vector<EndLabel>& labels, const PlotFrame& frame) {
  std::stable_sort(labels.begin(), labels.end(), [](auto& a, auto& b) { return a.end.y < b.end.y; });
  double free_from = frame.top;
  for (EndLabel& label : labels) {
    label.y = std::max(label.end.y, free_from);
    free_from = label.y + line_height;
  }
  double free_to = frame.bottom;
  for (auto label = labels.rbegin(); label != labels.rend(); ++label) {
    label->y = std::min(label->y, free_to);
    free_to = label->y - line_height;
  }
}

}  // namespace troupe::deploy
