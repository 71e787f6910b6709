// Prints an explained ranking as tables.
#include "deploy/reports/explanation_report.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "deploy/reports/table.h"
#include "runtime/wire/json_text.h"

namespace troupe::deploy {
namespace {

using nlohmann::json;
using Row = std::vector<std::string>;

constexpr std::size_t text_columns_min = 20, digits_of_block = 8;

// Makes control characters visible, which a terminal would interpret.
std::string visible(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n')
      out += "\\n";
    else if (c == '\r')
      out += "\\r";
    else if (c == '\t')
      out += "\\t";
    else
      out += byte < ' ' || byte == 0x7f ? '?' : c;
  }
  return terminal_text(out);
}

std::string text_in(const json& object, const char* member) { return object.value(member, std::string()); }
std::int64_t number_in(const json& object, const char* member) {
  return object.value(member, std::int64_t{0});
}
std::string digits(std::int64_t number) { return std::to_string(number); }

// Formats "3", or "3..7" for several positions or segments; `last` is included.
std::string run_of(std::int64_t first, std::int64_t last, const char* dash) {
  return first == last ? digits(first) : digits(first) + dash + digits(last);
}

std::string seen_by(const json& segment, std::size_t number) {
  const json& sees = segment.at("sees");
  if (sees.empty()) return "nothing";
  if (sees.size() == 1 && number_in(sees[0], "begin") == 0 &&
      number_in(sees[0], "end") == static_cast<std::int64_t>(number))
    return "all before";
  std::string text;
  for (const json& range : sees)
    text += (text.empty() ? "" : ", ") + run_of(number_in(range, "begin"), number_in(range, "end") - 1, "-");
  return text;
}

std::string positions_of(const json& segment) {
  const std::int64_t start = number_in(segment, "start");
  const auto tokens = static_cast<std::int64_t>(segment.at("tokens").size());
  std::string text = run_of(start, start + tokens - 1, "..");
  if (const std::int64_t computed_at = number_in(segment, "computed_at"); computed_at != start)
    text += ", made at " + digits(computed_at);
  return text;
}

std::string source_of(const json& segment) {
  std::string text = text_in(segment, "source");
  if (const std::int64_t node = number_in(segment, "node"); node != 0) text += " from node " + digits(node);
  for (const json& block : segment.value("filled_by", json::array())) text += " by " + block.dump();
  for (const json& range : segment.value("replaces", json::array()))
    text += ", for " + run_of(number_in(range, "begin"), number_in(range, "end") - 1, "-") + " of " +
            digits(number_in(range, "segment"));
  return text;
}

// Writes tokens as their texts. Words of a vocabulary have no blanks, so that blanks are put between
// them; a tokenizer's texts follow each other as they are.
class TokenTexts {
 public:
  explicit TokenTexts(const json& segments) {
    for (const json& segment : segments)
      for (const json& text : segment.value("texts", json::array())) {
        any_ |= !text.get_ref<const std::string&>().empty();
        blanks_ |= text.get_ref<const std::string&>().find_first_of(" \n\t") != std::string::npos;
      }
  }
  bool any() const { return any_; }
  std::string joined(const json& segment) const {
    std::string out;
    const json& tokens = segment.at("tokens");
    const json texts = any_ ? segment.value("texts", json::array()) : json::array();
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      if (i > 0 && !blanks_) out += ' ';
      out += i < texts.size() ? texts[i].get<std::string>() : tokens[i].dump();
    }
    return visible(out);
  }

 private:
  bool any_ = false, blanks_ = false;
};

std::size_t code_points(const std::string& text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

// Prints rows whose last cell takes what is left of the columns.
void print_rows(std::vector<Table::Column> columns, std::vector<Row> rows, std::size_t width,
                std::ostream& out) {
  std::size_t others = 0;
  for (std::size_t c = 0; c + 1 < columns.size(); ++c) {
    std::size_t widest = code_points(columns[c].name);
    for (const Row& row : rows) widest = std::max(widest, code_points(row[c]));
    others += widest + 2;
  }
  const std::size_t left = std::max(text_columns_min, width > others ? width - others : 0);
  Table table(std::move(columns));
  for (Row& row : rows) {
    row.back() = shortened(row.back(), left);
    table.row(std::move(row));
  }
  table.print(out);
}

void print_head(const json& reply, const json& segments, std::ostream& out) {
  out << "arrangement " << text_in(reply, "arrangement") << ", plan " << text_in(reply, "plan") << ", policy "
      << text_in(reply, "policy") << ", model version " << text_in(reply, "model_version") << "\n";
  std::int64_t end = 0;
  for (const json& segment : segments)
    end = std::max(end, number_in(segment, "start") + static_cast<std::int64_t>(segment.at("tokens").size()));
  out << "tokens " << number_in(reply, "tokens_total") << ": computed " << number_in(reply, "tokens_computed")
      << ", reused " << number_in(reply, "tokens_reused") << "; positions 0.." << end - 1 << " of "
      << number_in(reply.at("explanation"), "positions_max") << "\n\n";
}

void print_segments(const json& segments, const TokenTexts& texts, std::size_t width, std::ostream& out) {
  std::vector<Row> rows;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const json& segment = segments[i];
    rows.push_back({std::to_string(i), text_in(segment, "kind"), visible(text_in(segment, "item")),
                    positions_of(segment), std::to_string(segment.at("tokens").size()), seen_by(segment, i),
                    source_of(segment), text_in(segment, "block").substr(0, digits_of_block),
                    texts.joined(segment)});
  }
  print_rows({{"#", Table::Align::right},
              {"part"},
              {"item"},
              {"positions"},
              {"tokens", Table::Align::right},
              {"sees"},
              {"source"},
              {"block"},
              {texts.any() ? "text" : "token ids"}},
             std::move(rows), width, out);
}

void print_tokens(const json& segments, std::size_t width, std::ostream& out) {
  std::vector<Row> rows;
  bool featured = false;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const json &segment = segments[i], &tokens = segment.at("tokens");
    const json texts = segment.value("texts", json::array()), all = segment.value("features", json::array());
    const std::size_t each = tokens.empty() ? 0 : all.size() / tokens.size();
    featured |= each > 0;
    for (std::size_t t = 0; t < tokens.size(); ++t) {
      std::string features;
      for (std::size_t f = t * each; f < (t + 1) * each; ++f)
        features += (features.empty() ? "" : ", ") + all[f].dump();
      const std::int64_t position = number_in(segment, "start") + static_cast<std::int64_t>(t);
      rows.push_back({std::to_string(i) + "." + std::to_string(t), digits(position), tokens[t].dump(),
                      std::move(features), t < texts.size() ? visible(texts[t].get<std::string>()) : ""});
    }
  }
  std::vector<Table::Column> columns{
      {"token"}, {"position", Table::Align::right}, {"id", Table::Align::right}, {"features"}, {"text"}};
  if (!featured) {
    columns.erase(columns.begin() + 3);
    for (Row& row : rows) row.erase(row.begin() + 3);
  }
  out << "\n";
  print_rows(std::move(columns), std::move(rows), width, out);
}

std::string value_of(const json& score) {
  const json rows = score.value("rows", json::array());
  if (rows.empty()) return "head " + digits(number_in(score, "head"));
  std::string text = "logit of " + rows[0].dump();
  if (rows.size() > 1) text += " less that of " + rows[1].dump();
  return text;
}

// The scores of the reply, by item and task; "" = the ordering task, or the only one.
std::map<std::pair<std::string, std::string>, double> scores_in(const json& reply) {
  std::map<std::pair<std::string, std::string>, double> scores;
  const json tasks = reply.value("tasks", json::array());
  for (const json& item : reply.at("items")) {
    const json of_tasks = item.value("task_scores", json::array());
    scores[{text_in(item, "id"), ""}] = item.value("score", 0.0);
    for (std::size_t t = 0; t < std::min(tasks.size(), of_tasks.size()); ++t)
      scores[{text_in(item, "id"), tasks[t].get<std::string>()}] = of_tasks[t].get<double>();
  }
  return scores;
}

void print_scores(const json& reply, const json& segments, std::ostream& out) {
  const auto scores = scores_in(reply);
  const json& read = reply.at("explanation").at("scores");
  const bool tasks = std::ranges::any_of(read, [](const json& s) { return !text_in(s, "task").empty(); });
  std::vector<Table::Column> columns{{"item"}};
  if (tasks) columns.push_back({"task"});
  for (const char* name : {"read at", "position"}) columns.push_back({name, Table::Align::right});
  columns.push_back({"value"});
  columns.push_back({"score", Table::Align::right});
  Table table(std::move(columns));
  for (const json& score : read) {
    const std::string item = text_in(score, "item"), task = text_in(score, "task");
    const auto segment = static_cast<std::size_t>(number_in(score, "segment"));
    const std::int64_t offset = number_in(score, "offset");
    const auto found = scores.find({item, task});
    Row row{visible(item)};
    if (tasks) row.push_back(task);
    row.push_back(std::to_string(segment) + "." + digits(offset));
    row.push_back(digits(number_in(segments.at(segment), "start") + offset));
    row.push_back(value_of(score));
    row.push_back(found == scores.end() ? "" : fixed(found->second, 6));
    table.row(std::move(row));
  }
  out << "\n";
  table.print(out);
}

void print_cut(const json& reply, std::ostream& out) {
  const std::string cut = text_in(reply.at("explanation"), "cut");
  out << "\ncut: " << (cut.empty() ? "nothing" : cut) << "\n";
  const json skipped = reply.value("skipped", json::array());
  if (!skipped.empty()) {
    out << "not in the catalog:";
    for (const json& item : skipped) out << " " << visible(item.get<std::string>());
    out << "\n";
  }
  if (const double share = reply.value("approximate", 0.0); share > 0)
    out << "approximate: " << percent(share) << " of the prompt's tokens\n";
}

}  // namespace

void print_explanation(const json& reply, const ExplanationLayout& layout, std::ostream& out) {
  const json& segments = reply.at("explanation").at("segments");
  const TokenTexts texts(segments);
  print_head(reply, segments, out);
  print_segments(segments, texts, layout.columns, out);
  if (layout.every_token) print_tokens(segments, layout.columns, out);
  print_scores(reply, segments, out);
  print_cut(reply, out);
}

}  // namespace troupe::deploy
