#include "deploy/lab/reports/svg_plot.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <set>

#include "deploy/lab/reports/plot_layout.h"

using namespace troupe::deploy;

namespace svg_plot_test {

constexpr double no_number = std::numeric_limits<double>::quiet_NaN();

Plot plot_of(std::vector<PlotSeries> series, bool log_y = false) {
  return {"Title", "x", "y", std::move(series), {}, log_y, ""};
}

std::vector<PlotLine> first_lines(const Plot& plot) {
  PlotFrame frame = frame_of(plot);
  set_heights(frame, plot, {});
  return lines_of(plot, plot.series[0], frame);
}

bool contains(const std::string& text, const std::string& what) {
  return text.find(what) != std::string::npos;
}

TEST_SUITE("svg_plot") {
  TEST_CASE("svg plot: a line breaks where a value is missing, and a lone point is a dot") {
    const Plot plot = plot_of({{"a", {0, 1, 2, 3, 4, 5}, {1, 2, no_number, 4, no_number, 6}}});
    const std::vector<PlotLine> lines = first_lines(plot);
    REQUIRE(lines.size() == 3);
    CHECK(lines[0].size() == 2);
    CHECK(lines[1].size() == 1);
    CHECK(lines[2].size() == 1);
    CHECK(contains(svg(plot), "<circle"));
  }

  TEST_CASE("svg plot: a series without values has no points") {
    const Plot plot = plot_of({{"a", {0, 1}, {no_number, no_number}}, {"b", {0}, {1}}});
    CHECK_FALSE(has_points(plot, plot.series[0]));
    CHECK(has_points(plot, plot.series[1]));
  }

  TEST_CASE("svg plot: a single point lies inside its axes") {
    const Plot plot = plot_of({{"only", {8821}, {3}}});
    const PlotFrame frame = frame_of(plot);
    REQUIRE(first_lines(plot).size() == 1);
    CHECK(first_lines(plot)[0][0].x == doctest::Approx((frame.left + frame.right) / 2));
    CHECK_FALSE(contains(svg(plot), "no data"));
  }

  TEST_CASE("svg plot: a logarithmic axis omits zeros, breaks the line there, and the caption says so") {
    const Plot plot = plot_of({{"a", {0, 1, 2, 3, 4}, {1, 10, 0, 100, 1000}}, {"b", {0}, {-1}}}, true);
    CHECK(first_lines(plot).size() == 2);
    CHECK(contains(caption_of(plot), "logarithmic axis and are left out: 2."));
    CHECK(contains(caption_of(plot), "Nothing to draw for b."));
    const PlotFrame frame = frame_of(plot);
    CHECK(frame.y.place(10) - frame.y.place(1) == doctest::Approx(frame.y.place(1000) - frame.y.place(100)));
  }

  TEST_CASE("svg plot: a million points become a few per pixel column, and no peak is lost") {
    Plot plot = plot_of({{"a", {}, {}}});
    for (int i = 0; i < 1'000'000; ++i) {
      plot.series[0].x.push_back(i);
      plot.series[0].y.push_back(i == 314'159 ? 50 : i % 7 == 3 && i % 2 == 0 ? no_number : i % 5);
    }
    const PlotFrame frame = frame_of(plot);
    std::size_t points = 0;
    double highest = 1e9;
    for (const PlotLine& line : first_lines(plot))
      for (const PlotPoint& point : line) highest = std::min(highest, point.y), ++points;
    CHECK(points <= 4 * plot_width);
    CHECK(frame.y.place(50) > 0.9);
    PlotFrame placed = frame;
    set_heights(placed, plot, {});
    CHECK(highest == doctest::Approx(placed.py(50)));
  }

  TEST_CASE("svg plot: thinning keeps first, lowest, highest and last of a column, in order") {
    const std::vector<PlotPoint> kept =
        thinned({{1.0, 5}, {1.1, 6}, {1.2, 9}, {1.3, 2}, {1.4, 4}, {1.5, 3}, {2.0, 7}});
    std::vector<double> heights;
    for (const PlotPoint& point : kept) heights.push_back(point.y);
    CHECK(heights == std::vector<double>{5, 9, 2, 3, 7});
    CHECK(thinned({}).empty());
  }

  TEST_CASE("svg plot: names of lines that end close together are spread inside the area") {
    PlotFrame frame;
    frame.top = 10, frame.bottom = 230;
    std::vector<EndLabel> labels;
    for (std::size_t n = 0; n < 12; ++n) labels.push_back({n, {0, n < 6 ? 228.0 : 12.0}});
    spread(labels, frame);
    for (std::size_t i = 0; i < labels.size(); ++i) {
      CHECK(labels[i].y >= frame.top);
      CHECK(labels[i].y <= frame.bottom);
      if (i > 0) CHECK(labels[i].y - labels[i - 1].y >= line_height - 1e-9);
    }
  }

  TEST_CASE("svg plot: labels of adjacent marks get separate rows while there are rows") {
    Plot plot = plot_of({{"a", {0, 100}, {0, 1}}});
    for (int i = 0; i < 12; ++i) plot.marks.push_back({"crash of node", 50.0 + i * 0.1, 50.0 + i * 0.1});
    const std::vector<LabeledMark> marks = label_marks(plot, frame_of(plot));
    for (std::size_t i = 0; i < marks.size(); ++i) CHECK(marks[i].row == std::min(i, mark_rows_max));
    plot.marks = {{"early", 2, 1}, {"late, and its label is pushed left", 100, 100}};
    const std::vector<LabeledMark> apart = label_marks(plot, frame_of(plot));
    CHECK(apart[0].left < apart[0].right);
    CHECK(apart[0].row == 0);
    CHECK(apart[1].row == 0);
    CHECK(apart[1].label_at < apart[1].left);
  }

  TEST_CASE("svg plot: rows of labels fit above the area, and the axis below it") {
    const Plot plot = plot_of({{"a", {0, 100}, {0, 1}}});
    const auto top_with = [&](std::vector<std::size_t> rows) {
      std::vector<LabeledMark> marks(rows.size());
      for (std::size_t i = 0; i < rows.size(); ++i) marks[i].row = rows[i];
      PlotFrame frame = frame_of(plot);
      set_heights(frame, plot, marks);
      CHECK(frame.bottom - frame.top == area_height);
      CHECK(frame.height - frame.bottom == 2 * line_height + 14);
      return frame.top;
    };
    CHECK(top_with({}) == line_height + 10);
    CHECK(top_with({0}) == 2 * line_height + 10);
    CHECK(top_with({0, 2, 1}) == 4 * line_height + 10);
    CHECK(top_with({mark_rows_max + 3}) == (static_cast<double>(mark_rows_max) + 1) * line_height + 10);
  }

  TEST_CASE("svg plot: lines differ by more than color") {
    std::vector<PlotSeries> many;
    for (int n = 0; n < 12; ++n) many.push_back({"line " + std::to_string(n), {0, 1}, {0.0 + n, 1.0 + n}});
    const std::string drawing = svg(plot_of(many));
    std::set<std::string> styles;
    for (std::size_t at = drawing.find("class=\"line"); at != std::string::npos;
         at = drawing.find("class=\"line", at + 1))
      styles.insert(drawing.substr(at, drawing.find("\"/>", at) - at));
    CHECK(styles.size() == 12);
    CHECK(contains(drawing, ">line 11</text>"));
    CHECK(contains(drawing, "class=\"symbol"));
  }
}

}  // namespace svg_plot_test
