#include "deploy/lab/reports/html_report.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <random>

#include "deploy/lab/reports/html_text.h"

using namespace troupe::deploy;

namespace {

constexpr double no_number = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t found = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
  return found;
}

// Returns the first fault of a page's markup, or "": tags that do not nest, attributes without
// quotes, bare & or <.
std::string markup_fault(const std::string& page) {
  std::vector<std::string> open;
  for (std::size_t at = page.find('<'); at != std::string::npos; at = page.find('<', at + 1)) {
    const std::size_t end = page.find('>', at);
    if (end == std::string::npos) return "a tag does not end";
    const std::string tag = page.substr(at + 1, end - at - 1);
    if (tag.starts_with("!DOCTYPE")) continue;
    if (tag.find('<') != std::string::npos || count(tag, "\"") % 2 != 0) return "a damaged tag: " + tag;
    const std::string name = tag.substr(tag[0] == '/', tag.find_first_of(" /", 1) - (tag[0] == '/'));
    if (tag[0] != '/' && tag.back() != '/') open.push_back(name);
    if (tag[0] == '/' && (open.empty() || open.back() != name)) return "not open: " + name;
    if (tag[0] == '/') open.pop_back();
  }
  for (std::size_t at = page.find('&'); at != std::string::npos; at = page.find('&', at + 1))
    if (page.find(';', at) - at > 5) return "a bare &";
  return open.empty() ? "" : "not closed: " + open.back();
}

Plot plot_of(std::vector<PlotSeries> series, bool log_y = false) {
  return {"A title", "time (s)", "answers", std::move(series), {}, log_y, ""};
}

Report report_of(std::vector<Plot> plots) {
  return {"Report", "sub", {{"Section", {}, {}, std::move(plots)}}};
}

void check_sound(const std::string& page) {
  CHECK(markup_fault(page) == "");
  for (const char* bad : {"\"nan", "\"inf", "\"-nan", "\"-inf", "nan ", "inf "}) CHECK(count(page, bad) == 0);
}

}  // namespace

TEST_SUITE("html_report") {
  TEST_CASE("html text: text is escaped, and invalid bytes are replaced") {
    CHECK(escaped("a<b> & \"c\" 'd'") == "a&lt;b&gt; &amp; &quot;c&quot; &#39;d&#39;");
    CHECK(escaped("naïve × 10⁹ 🙂\t\n") == "naïve × 10⁹ 🙂\t\n");
    CHECK(escaped(std::string_view("a\0b\x1b", 4)) == "a\uFFFDb\uFFFD");
    CHECK(escaped("\x80 \xC3") == "\uFFFD \uFFFD");                                    // part of a code point
    CHECK(escaped("\xC0\xAF") == "\uFFFD\uFFFD");                                      // overlong
    CHECK(escaped("\xED\xA0\x80") == "\uFFFD\uFFFD\uFFFD");                            // surrogate
    CHECK(escaped("\xEF\xBF\xBE\xF4\x90\x80\x80").find('\xBE') == std::string::npos);  // forbidden in XML
    CHECK(escaped("\xC3<") == "\uFFFD&lt;");
  }

  TEST_CASE("markup checker: finds deliberate faults") {
    CHECK(markup_fault("<p>a<b/></p>") == "");
    CHECK(markup_fault("<p><b></p></b>") != "");
    CHECK(markup_fault("<p>") != "");
    CHECK(markup_fault("<p a=\"1>x</p>") != "");
    CHECK(markup_fault("<p>a & b</p>") != "");
  }

  TEST_CASE("html report: pages are well formed and self-contained for any text") {
    const std::string evil = "</title><script>alert(\"1\")</script> & 'x' \x01\xFF";
    Plot plot{evil, evil, evil, {{evil, {0, 1}, {1, 2}}, {evil, {}, {}}}, {{evil, 0, 1}}, false, evil};
    const Report report{evil, evil, {{evil, {evil}, {{evil, {{evil}}, {{evil}}}}, {plot}}}};
    const std::string page = to_html(report);
    check_sound(page);
    CHECK(count(page, "<script") == 0);
    CHECK(count(page, "</title><script>") == 0);
    CHECK(count(page, "href") + count(page, "src=") + count(page, "url(") + count(page, "@import") == 0);
    CHECK(count(page, "http") == count(page, "xmlns=\"http://www.w3.org/2000/svg\""));
  }

  TEST_CASE("html report: figures and tables are numbered through the report") {
    const Plot plot = plot_of({{"a", {0, 1}, {1, 2}}});
    const ReportTable table{"What", {{"name"}, {"n", Table::Align::right}}, {{"x"}, {"y", "2", "cut"}}};
    const std::string page = to_html({"R", "", {{"A", {"p"}, {table}, {plot}}, {"B", {}, {table}, {plot}}}});
    check_sound(page);
    CHECK(count(page, "<b>Figure 1.</b> A title. Answers against time (s), for a.") == 1);
    CHECK(count(page, "<b>Figure 2.</b>") == 1);
    CHECK(count(page, "<b>Table 2.</b> What") == 1);
    CHECK(count(page, "<tr><td>y</td><td class=\"right\">2</td></tr>") == 2);
    CHECK(count(page, "<tr><td>x</td><td class=\"right\"></td></tr>") == 2);
    CHECK(count(page, "cut") == 0);
  }

  TEST_CASE("html report: an empty report and a plot without data are valid pages") {
    check_sound(to_html({}));
    const std::string page = to_html(report_of({plot_of({}), plot_of({{"lost", {}, {}}}), {}}));
    check_sound(page);
    CHECK(count(page, ">no data<") == 3);
    CHECK(count(page, "Nothing to draw for lost.") == 1);
  }

  TEST_CASE("html report: huge values, infinities and odd marks are left out of drawings") {
    Plot plot = plot_of({{"a", {-1e308, 0, 1e308, 5e-324}, {1e308, -1e308, infinity, 1e-300}},
                         {"b", {1, 2, 3}, {no_number, -infinity}}});
    plot.marks = {{"all", -infinity, infinity}, {"none", no_number, 3}, {"back", 5, 2}, {"point", 7, 7}};
    const std::string page = to_html(report_of({plot, {"", "", "", plot.series, plot.marks, true, ""}}));
    check_sound(page);
    CHECK(count(page, "Infinite values are left out: 2.") == 2);
    CHECK(count(page, "class=\"band\"") == 2);  // all, in both; back is too thin to draw
  }

  TEST_CASE("html report: any data gives a well-formed page") {
    const unsigned seed = std::random_device{}();
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    auto value = [&] {
      const double odd[] = {no_number, infinity, -infinity, 0, -0.0, 1e308, -1e308, 5e-324};
      return random() % 4 == 0 ? odd[random() % 8]
                               : std::ldexp(static_cast<double>(random() % 1000), random() % 40);
    };
    for (int run = 0; run < 100; ++run) {
      Plot plot = plot_of(std::vector<PlotSeries>(random() % 12), random() % 2 == 0);
      for (PlotSeries& series : plot.series) {
        for (std::size_t i = random() % 40; i > 0; --i) series.x.push_back(value());
        for (std::size_t i = random() % 40; i > 0; --i) series.y.push_back(value());
        for (std::size_t i = random() % 9; i > 0; --i) series.name += static_cast<char>(random());
      }
      for (std::size_t i = random() % 20; i > 0; --i) plot.marks.push_back({"mark", value(), value()});
      check_sound(to_html(report_of({plot})));
    }
  }
}
