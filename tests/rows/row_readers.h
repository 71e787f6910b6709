#pragma once
// Gives a drawn row to every reader that can be given it: JSON over HTTP (one row, and lines), lines of
// files, tables and gRPC, each with the checks behind it.
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "runtime/actor/messages.h"
#include "tests/rows/drawn_rows.h"

namespace troupe::rows {

// A row as it would be stored or served.
struct Value {
  std::string id, title;
  std::vector<std::string> list;  // history or candidates
  std::vector<Token> tokens;
  Token identifier = 0;
  std::vector<Feature> features;  // by name
  std::int64_t time = 0, scenario = 0;
  bool operator==(const Value&) const = default;
};

// A refusal without what belongs to the reader: the position in the text, and a column's name.
struct Reason {
  std::string code, field, found, expected;
  bool operator==(const Reason&) const = default;
};

struct Outcome {
  std::string reader;
  std::optional<Value> value;
  std::optional<Reason> reason;  // missing for a fault of a whole file
  std::string text() const;
};

std::vector<Outcome> read_everywhere(const DrawnRow& row, const std::string& folder);

// Gives a user's row as this text of JSON, which begins with its id as "id", to the readers of lines.
std::vector<Outcome> read_text(const std::string& json, const std::string& folder);

}  // namespace troupe::rows
