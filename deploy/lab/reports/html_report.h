#pragma once
// Writes a report as one self-contained HTML file: no scripts, fonts or external resources. It
// works on screens, light or dark, and prints in black and white. Figures and tables are numbered
// through the report. The page is well-formed XML, too, whatever its texts contain.
#include <string>
#include <vector>

#include "deploy/lab/reports/svg_plot.h"
#include "deploy/reports/table.h"

namespace troupe::deploy {

struct ReportTable {
  std::string caption;
  std::vector<Table::Column> columns;
  std::vector<std::vector<std::string>>
      rows;  // one cell per column; missing cells are empty, extra cells are dropped
};

// The parts are shown in this order.
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
