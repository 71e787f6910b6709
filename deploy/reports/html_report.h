#pragma once
// A report as one HTML file that needs nothing else: no scripts, no fonts, nothing from elsewhere. It reads
// on a screen, light or dark, and prints in black and white. Figures and tables are numbered through the
// report. The page is well-formed XML too, whatever the texts contain.
#include <string>
#include <vector>

#include "deploy/reports/svg_plot.h"
#include "deploy/reports/table.h"

namespace troupe::deploy {

struct ReportTable {
  std::string caption;
  std::vector<Table::Column> columns;
  std::vector<std::vector<std::string>>
      rows;  // as many cells as columns; what lacks is empty, what is over is cut
};

// Shown in this order.
struct ReportSection {
  std::string heading;
  std::vector<std::string> paragraphs;
  std::vector<ReportTable> tables;
  std::vector<Plot> plots;
};

struct Report {
  std::string title, subtitle;
  std::vector<ReportSection> sections;
};

std::string to_html(const Report& report);

}  // namespace troupe::deploy
