// Draws a line plot as SVG inside an HTML report. Lines differ by dashes, symbols and names, so
// that prints without color are readable.
#include "deploy/lab/reports/svg_plot.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "deploy/lab/reports/html_text.h"
#include "deploy/lab/reports/plot_layout.h"
#include "deploy/reports/table.h"

namespace troupe::deploy {

namespace {

constexpr std::size_t styles = 8;
constexpr int symbols_per_line = 10;

// Symbols, drawn around their point: circle, square, triangle, diamond, inverted triangle, plus,
// cross, hourglass.
constexpr const char* symbol_shapes[styles] = {
    "m-3 0a3 3 0 1 0 6 0a3 3 0 1 0 -6 0z", "m-2.7 -2.7h5.4v5.4h-5.4z", "m0 -3.5l3.3 5.7h-6.6z",
    "m0 -3.7l3.7 3.7l-3.7 3.7l-3.7 -3.7z", "m0 3.5l3.3 -5.7h-6.6z",    "m-3.6 0h7.2m-3.6 -3.6v7.2",
    "m-2.7 -2.7l5.4 5.4m0 -5.4l-5.4 5.4",  "m-3 -3h6l-6 6h6z"};

std::string px(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", value);
  return text;
}

// Formats an attribute with a space before it: name="value".
std::string attribute(const char* name, const std::string& value) {
  return std::string(" ") + name + "=\"" + value + "\"";
}
std::string attribute(const char* name, double value) { return attribute(name, px(value)); }

std::string text_at(double x, double y, const std::string& style, const std::string& text) {
  return "<text" + attribute("x", x) + attribute("y", y) + attribute("class", style) + ">" + escaped(text) +
         "</text>\n";
}

std::string line_between(double x0, double y0, double x1, double y1, const char* style) {
  return "<line" + attribute("x1", x0) + attribute("y1", y0) + attribute("x2", x1) + attribute("y2", y1) +
         attribute("class", style) + "/>\n";
}

// Color and dash of the nth line. Both repeat after eight lines; the next eight lines are thin.
std::string color(std::size_t n) { return " c" + std::to_string(n % styles); }
std::string line_style(std::size_t n) {
  return "line" + color(n) + " s" + std::to_string(n % styles) + (n / styles % 2 == 1 ? " thin" : "");
}

std::string draw_marks(const PlotFrame& frame, const std::vector<LabeledMark>& marks) {
  std::string out;
  for (const LabeledMark& at : marks) {
    const bool labelled = at.row < mark_rows_max;
    const double row_bottom = frame.top - 4 - line_height * static_cast<double>(labelled ? at.row : 0);
    out += "<g><title>" + escaped(at.mark->label) + "</title>\n";
    if (at.right > at.left)
      out += "<rect" + attribute("x", at.left) + attribute("y", frame.top) +
             attribute("width", at.right - at.left) + attribute("height", frame.bottom - frame.top) +
             attribute("class", "band") + "/>\n" +
             line_between(at.right, frame.top, at.right, frame.bottom, "edge");
    out += line_between(at.left, row_bottom, at.left, frame.bottom, "edge");
    if (labelled)
      out += text_at(at.label_at + 3, row_bottom - 2, "note", shortened(at.mark->label, name_letters_max));
    out += "</g>\n";
  }
  return out;
}

std::string draw_axes(const PlotFrame& frame, const Plot& plot) {
  std::string out;
  for (std::size_t i = 0; i < frame.y.ticks.size(); ++i) {
    const double y = frame.py(frame.y.ticks[i]);
    out += line_between(frame.left, y, frame.right, y, "grid");
    out += text_at(frame.left - 6, y + 4, "tick end", frame.y.labels[i]);
  }
  for (double tick : frame.y.minor_ticks)
    out += line_between(frame.left, frame.py(tick), frame.left + 3, frame.py(tick), "axis");
  for (std::size_t i = 0; i < frame.x.ticks.size(); ++i) {
    const double x = frame.px(frame.x.ticks[i]);
    out += line_between(x, frame.bottom, x, frame.bottom + 4, "axis");
    out += text_at(x, frame.bottom + 16, "tick middle", frame.x.labels[i]);
  }
  out += line_between(frame.left, frame.bottom, frame.right, frame.bottom, "axis");
  out += line_between(frame.left, frame.top, frame.left, frame.bottom, "axis");
  out += text_at(0, line_height - 2, "label", plot.y_label);
  out += text_at((frame.left + frame.right) / 2, frame.height - 6, "label middle", plot.x_label);
  return out;
}

std::string draw_lines(const std::vector<PlotLine>& lines, std::size_t n) {
  std::string path, dots;
  auto dot = [&](const PlotPoint& point) {
    dots += "<circle" + attribute("cx", point.x) + attribute("cy", point.y) + attribute("r", 1.8) +
            attribute("class", "dot" + color(n)) + "/>\n";
  };
  for (const PlotLine& line : lines) {
    if (line.size() == 1) {
      dot(line.front());
      continue;
    }
    for (std::size_t i = 0; i < line.size(); ++i)
      path += (i == 0 ? 'M' : 'L') + px(line[i].x) + " " + px(line[i].y);
  }
  if (!lines.empty() && lines.back().size() > 1) dot(lines.back().back());
  if (!path.empty()) path = "<path" + attribute("d", path) + attribute("class", line_style(n)) + "/>\n";
  return path + dots;
}

std::string symbol_at(const PlotPoint& point, std::size_t n) {
  return "<path" + attribute("d", "M" + px(point.x) + " " + px(point.y) + symbol_shapes[n % styles]) +
         attribute("class", "symbol" + color(n)) + "/>\n";
}

// Noise hides a line's dashes, so each of several lines has a few symbols, placed between those of
// the others.
std::string draw_symbols(const std::vector<PlotLine>& lines, std::size_t n, std::size_t series,
                         const PlotFrame& frame) {
  std::string out;
  const double step = (frame.right - frame.left) / symbols_per_line;
  double next = frame.left + step * (static_cast<double>(n) + 0.5) / static_cast<double>(series);
  for (const PlotLine& line : lines)
    for (const PlotPoint& point : line) {
      if (point.x < next) continue;
      out += symbol_at(point, n);
      next += step * (std::floor((point.x - next) / step) + 1);
    }
  return out;
}

std::string draw_end_labels(const Plot& plot, std::vector<EndLabel> labels, const PlotFrame& frame) {
  spread(labels, frame);
  std::string out;
  for (const EndLabel& label : labels) {
    const std::string& name = plot.series[label.n].name;
    out += "<g><title>" + escaped(name) + "</title>\n";
    out += line_between(label.end.x, label.end.y, frame.right + 4, label.end.y, "leader");
    out += line_between(frame.right + 4, label.end.y, frame.right + 16, label.y, "leader");
    if (plot.series.size() > 1) out += symbol_at({frame.right + 21, label.y}, label.n);
    out += text_at(frame.right + 28, label.y + 4, "name" + color(label.n), shortened(name, name_letters_max));
    out += "</g>\n";
  }
  return out;
}

// ---- captions ----

std::string joined(const std::vector<std::string>& names) {
  std::string out;
  for (std::size_t i = 0; i < names.size(); ++i)
    out += (i == 0 ? "" : i + 1 < names.size() ? ", " : " and ") + names[i];
  return out;
}

std::string as_sentence(std::string text) {
  if (!text.empty() && std::string_view(".!?").find(text.back()) == std::string_view::npos) text += '.';
  return text;
}

// Returns a text such as "Requests per second (1/s) against time (s), for admitted and refused.
// Marked: overload 10x."
std::string default_caption(const Plot& plot) {
  std::vector<std::string> names, marks;
  for (const PlotSeries& series : plot.series) names.push_back(series.name);
  for (const Mark& mark : plot.marks)
    if (std::find(marks.begin(), marks.end(), mark.label) == marks.end()) marks.push_back(mark.label);
  std::string out = plot.y_label + " against " + plot.x_label;
  if (out[0] >= 'a' && out[0] <= 'z') out[0] = static_cast<char>(out[0] - 'a' + 'A');
  if (!names.empty()) out += ", for " + joined(names);
  out += plot.log_y ? "; the vertical axis is logarithmic." : ".";
  if (!marks.empty()) out += " Marked: " + as_sentence(joined(marks));
  return out;
}

std::string what_is_missing(const Plot& plot) {
  std::size_t infinite = 0, not_positive = 0;
  std::vector<std::string> empty;
  for (const PlotSeries& series : plot.series) {
    for (std::size_t i = 0; i < length(series); ++i) {
      const double x = series.x[i], y = series.y[i];
      if (!std::isnan(x) && !std::isnan(y) && (std::isinf(x) || std::isinf(y)))
        ++infinite;
      else if (std::isfinite(x) && std::isfinite(y) && !drawable(plot, x, y))
        ++not_positive;
    }
    if (!has_points(plot, series)) empty.push_back(series.name);
  }
  std::string out;
  if (infinite > 0) out += " Infinite values are left out: " + std::to_string(infinite) + ".";
  if (not_positive > 0)
    out += " Values of zero or below cannot be shown on a logarithmic axis and are left out: " +
           std::to_string(not_positive) + ".";
  if (!empty.empty()) out += " Nothing to draw for " + as_sentence(joined(empty));
  return out;
}

}  // namespace

std::string svg(const Plot& plot) {
  PlotFrame frame = frame_of(plot);
  const std::vector<LabeledMark> marks = label_marks(plot, frame);
  set_heights(frame, plot, marks);
  std::string lines, symbols;
  std::vector<EndLabel> labels;
  for (std::size_t n = 0; n < plot.series.size(); ++n) {
    const std::vector<PlotLine> parts = lines_of(plot, plot.series[n], frame);
    lines += draw_lines(parts, n);
    if (plot.series.size() > 1) symbols += draw_symbols(parts, n, plot.series.size(), frame);
    if (!parts.empty()) labels.push_back({n, parts.back().back()});
  }
  std::string out = "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\"" +
                    attribute("viewBox", "0 0 " + px(plot_width) + " " + px(frame.height)) +
                    attribute("aria-label", escaped(plot.title)) + ">\n";
  out += draw_marks(frame, marks) + draw_axes(frame, plot) + lines + symbols;
  out += draw_end_labels(plot, std::move(labels), frame);
  if (lines.empty())
    out += text_at((frame.left + frame.right) / 2, (frame.top + frame.bottom) / 2, "label middle", "no data");
  return out + "</svg>\n";
}

std::string caption_of(const Plot& plot) {
  const std::string title = plot.title.empty() ? "" : as_sentence(plot.title) + " ";
  const std::string body = plot.caption.empty() ? default_caption(plot) : as_sentence(plot.caption);
  return title + body + what_is_missing(plot);
}

}  // namespace troupe::deploy
