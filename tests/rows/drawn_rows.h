#pragma once
// Draws rows of users, items, events and rankings, valid ones and ones with a single fault, in a form that
// every reader can be given: members of JSON, and cells of tables.
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace troupe::rows {

enum class Kind : std::uint8_t { user, item, event, ranking };

// How far the refusals of different readers of a faulty row agree.
enum class Agreement : std::uint8_t {
  value,    // in code, field, what was found and what was expected
  refused,  // every reader refuses it, each by the form that it reads
};

struct DrawnRow {
  Kind kind = Kind::user;
  std::string fault;  // "" = none
  Agreement agreement = Agreement::value;
  std::string id;                                            // of the user or item
  std::vector<std::pair<std::string, std::string>> members;  // names and JSON values, the id left out
  std::string id_json;
  std::string before, behind;                             // of the JSON text, such as a byte order mark
  std::vector<std::map<std::string, std::string>> lines;  // cells of a table by column; empty = no table can
  std::size_t at = 0;                                     // event with the fault
  bool in_path = true;                                    // the id can stand in a path
  bool as_list = true;                                    // features may stand in the list `features`
  std::string wire;                                       // message of gRPC; "" = it cannot be one
};

// `rows` are the same for the same seed.
DrawnRow draw_row(std::mt19937_64& random);

std::string json_of(const DrawnRow& row, const std::string& id_name);  // "" = without the id
std::string table_of(const DrawnRow& row, const std::vector<std::string>& columns);

}  // namespace troupe::rows
