// Writes a report of figures, tables and texts as one HTML file without scripts or external
// resources, with the styles for screen and print.
#include "deploy/lab/reports/html_report.h"

#include "deploy/lab/reports/html_text.h"

namespace troupe::deploy {

namespace {

// Colors are variables: one set for light, one for dark, and black for print, where dashes and
// symbols distinguish lines. Most color-blind readers can distinguish the palette.
constexpr const char* style = R"css(
:root { color-scheme: light dark; --page: #fff; --ink: #1a1a1a; --soft: #5c5c5c; --grid: #dcdcdc;
  --c0: #0067a8; --c1: #c24e00; --c2: #007d59; --c3: #8549b8; --c4: #8a6400; --c5: #c2306f; --c6: #33717a;
  --c7: #555; }
@media screen and (prefers-color-scheme: dark) {
  :root { --page: #16181b; --ink: #e6e6e3; --soft: #a3a6aa; --grid: #34383d;
  --c0: #6cb6f2; --c1: #ff9c5c; --c2: #4fd3a5; --c3: #c8a4ff; --c4: #e8bf4d; --c5: #ff8db8; --c6: #86cfd6;
  --c7: #c4c4c4; } }
* { box-sizing: border-box; }
body { background: var(--page); color: var(--ink); margin: 0 auto; padding: 2.5rem 1.25rem 4rem;
  max-width: 50rem; overflow-wrap: break-word;
  font: 1.0625rem/1.5 Charter, "Bitstream Charter", "Source Serif 4", Cambria, Georgia, serif; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .35rem; }
h2 { font-size: 1.3rem; line-height: 1.3; margin: 2.4rem 0 .6rem; }
p { margin: 0 0 .8rem; }
.subtitle { color: var(--soft); font-style: italic; margin-bottom: 2rem; }
figure { margin: 1.6rem 0 2rem; }
.scroll { overflow-x: auto; }
figcaption, caption { font-size: .92rem; line-height: 1.4; text-align: left; }
figcaption { margin-top: .5rem; }
caption { padding-bottom: .5rem; }
table { border-collapse: collapse; margin: 1.4rem 0 1.8rem; font-size: .92rem;
  font-variant-numeric: tabular-nums;
  border-bottom: 1.5px solid var(--ink); }
thead { border-top: 1.5px solid var(--ink); border-bottom: 1px solid var(--ink); }
th, td { padding: .22rem .9rem .22rem 0; text-align: left; vertical-align: top; }
th:last-child, td:last-child { padding-right: 0; }
th { font-weight: 600; }
.right { text-align: right; white-space: nowrap; }
svg { display: block; width: 100%; min-width: 34rem; height: auto;
  overflow: visible; }
svg text { font: 11.5px "Helvetica Neue", Helvetica, Arial, "Liberation Sans", sans-serif; fill: var(--ink);
  font-variant-numeric: tabular-nums; }
svg .label { font-size: 12px; }
svg .note { font-size: 11px; fill: var(--soft); }
svg .tick { font-size: 11px; }
svg .middle { text-anchor: middle; }
svg .end { text-anchor: end; }
svg .axis { stroke: var(--ink); stroke-width: 1; }
svg .grid { stroke: var(--grid); stroke-width: .8; }
svg .band { fill: var(--ink); fill-opacity: .075; }
svg .edge { stroke: var(--soft); stroke-width: .8; stroke-dasharray: 1 2; }
svg .leader { stroke: var(--soft); stroke-opacity: .6; stroke-width: .6; }
svg .line { fill: none; stroke: currentColor; stroke-width: 1.8; stroke-linejoin: round; }
svg .thin { stroke-width: .9; }
svg .symbol { fill: var(--page); stroke: currentColor; stroke-width: 1.1; }
svg .dot, svg .name { fill: currentColor; }
.s1 { stroke-dasharray: 7 3; }
.s2 { stroke-dasharray: 1.8 2.2; }
.s3 { stroke-dasharray: 9 3 1.8 3; }
.s4 { stroke-dasharray: 14 4; }
.s5 { stroke-dasharray: 4 2.5; }
.s6 { stroke-dasharray: 9 2.5 1.8 2.5 1.8 2.5; }
.s7 { stroke-dasharray: 1.8 5; }
.c0 { color: var(--c0); } .c1 { color: var(--c1); } .c2 { color: var(--c2); } .c3 { color: var(--c3); }
.c4 { color: var(--c4); } .c5 { color: var(--c5); } .c6 { color: var(--c6); } .c7 { color: var(--c7); }
@media print {
  :root { color-scheme: light; --page: #fff; --ink: #000; --soft: #333; --grid: #ccc;
  --c0: #000; --c1: #000; --c2: #000; --c3: #000; --c4: #000; --c5: #000; --c6: #000; --c7: #000; }
  @page { margin: 18mm 20mm; }
  html { font-size: 10.5pt; }
  body { max-width: none; padding: 0; font-size: 1rem; line-height: 1.4; }
  h2 { break-after: avoid; }
  figure, tr { break-inside: avoid; } caption, thead { break-after: avoid; }
  .scroll { overflow: visible; } svg { min-width: 0; }
  svg .line { stroke-width: 1.4; } svg .thin { stroke-width: .7; }
}
)css";

std::string element(const std::string& name, const std::string& text) {
  return "<" + name + ">" + escaped(text) + "</" + name + ">\n";
}

std::string caption(const char* kind, int number, const std::string& text) {
  return std::string("<b>") + kind + " " + std::to_string(number) + ".</b> " + escaped(text);
}

std::string cell(const char* name, Table::Align align, const std::string& text) {
  const std::string right = align == Table::Align::right ? " class=\"right\"" : "";
  return std::string("<") + name + right + ">" + escaped(text) + "</" + name + ">";
}

std::string html(const ReportTable& table, int number) {
  std::string out = "<div class=\"scroll\"><table>\n<caption>" + caption("Table", number, table.caption) +
                    "</caption>\n<thead><tr>";
  for (const Table::Column& column : table.columns) out += cell("th", column.align, column.name);
  out += "</tr></thead>\n<tbody>\n";
  for (const std::vector<std::string>& row : table.rows) {
    out += "<tr>";
    for (std::size_t c = 0; c < table.columns.size(); ++c)
      out += cell("td", table.columns[c].align, c < row.size() ? row[c] : "");
    out += "</tr>\n";
  }
  return out + "</tbody>\n</table></div>\n";
}

std::string html(const Plot& plot, int number) {
  return "<figure>\n<div class=\"scroll\">" + svg(plot) + "</div>\n<figcaption>" +
         caption("Figure", number, caption_of(plot)) + "</figcaption>\n</figure>\n";
}

}  // namespace

std::string to_html(const Report& report) {
  std::string out =
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n";
  out += element("title", report.title) + "<style>" + style + "</style>\n</head>\n<body>\n";
  out += element("h1", report.title) + "<p class=\"subtitle\">" + escaped(report.subtitle) + "</p>\n";
  int tables = 0, figures = 0;
  for (const ReportSection& section : report.sections) {
    out += "<section>\n" + element("h2", section.heading);
    for (const std::string& paragraph : section.paragraphs) out += element("p", paragraph);
    for (const ReportTable& table : section.tables) out += html(table, ++tables);
    for (const Plot& plot : section.plots) out += html(plot, ++figures);
    out += "</section>\n";
  }
  return out + "</body>\n</html>\n";
}

}  // namespace troupe::deploy
