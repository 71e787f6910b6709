// Draws rows, and puts at most one fault into each.
#include "tests/rows/drawn_rows.h"

#include <algorithm>
#include <functional>

#include "runtime/wire/json_text.h"
#include "server/testing/grpc_bytes.h"

namespace troupe::rows {
namespace {

using Random = std::mt19937_64;
using Texts = std::vector<std::string>;

std::size_t below(Random& random, std::size_t end) { return static_cast<std::size_t>(random() % end); }
const std::string& one_of(Random& random, const Texts& choices) {
  return choices[below(random, choices.size())];
}

const Texts pieces{"a",  "Z",  "7", "-", "\xc3\xa9", "\xe6\x97\xa5", "\xf0\x9f\x99\x82",
                   "\"", "\\", "/", "'", "\xc2\x9b"};
// Numbers that are not whole as they are written.
const Texts fractions{"881250949.9", "881250949.90", "1e3", "1E5", "1e300", "1e999", "-0.0", "0.0"};
const Texts no_times{"-1",
                     "1099511627777",
                     "1588687728923",
                     "1588687728923000000",
                     "9223372036854775807",
                     "-9223372036854775808",
                     "9223372036854775808",
                     "18446744073709551615",
                     "99999999999999999999"};
const Texts no_actions{"-1", "1099511627777", "18446744073709551615"};
const Texts no_scenarios{"-1", "4294967296", "1.5", "1e999"};
const Texts no_numbers{"01", "+1", "1.", ".5", "0x1", "NaN", "Infinity", "-", "1_000"};

std::string draw_text(Random& random) {
  std::string text;
  for (std::size_t n = 1 + below(random, 6); n > 0; --n) text += one_of(random, pieces);
  return text;
}

// Writes a text in JSON; some ASCII characters as \u0061.
std::string quoted(Random& random, const std::string& text) {
  if (text.find_first_of("\"\\") != text.npos || below(random, 4) > 0) {
    std::string out;
    append_json_string(out, text);
    return out;
  }
  std::string out = "\"";
  for (const char c : text) {
    char code[8];
    std::snprintf(code, sizeof code, "\\u%04x", static_cast<unsigned>(static_cast<unsigned char>(c)));
    out += static_cast<unsigned char>(c) < 0x80 ? code : std::string(1, c);
  }
  return out + "\"";
}

std::string list_of(const Texts& values) {
  std::string out = "[";
  for (const std::string& value : values) out += (out.size() > 1 ? "," : "") + value;
  return out + "]";
}

struct Event {
  std::string item, time, action;
};

std::vector<Event> draw_events(Random& random, std::size_t count) {
  std::vector<Event> events;
  std::uint64_t time = random() % 1'000'000'000;
  for (std::size_t i = 0; i < count; ++i, time += random() % 1'000)
    events.push_back({draw_text(random), std::to_string(time), std::to_string(random() % 6)});
  return events;
}

void put_id(Random& random, DrawnRow& row, std::string id) {
  row.id = std::move(id);
  row.id_json = quoted(random, row.id);
}

// Writes the events of a user as members, and as lines of ratings.tsv.
void write_events(Random& random, const std::vector<Event>& events, DrawnRow& row) {
  Texts items, times, actions;
  row.lines.clear();
  for (const Event& event : events) {
    items.push_back(quoted(random, event.item));
    times.push_back(event.time);
    actions.push_back(event.action);
    row.lines.push_back(
        {{"user_id", row.id}, {"item_id", event.item}, {"timestamp", event.time}, {"rating", event.action}});
  }
  row.members = {{"history", list_of(items)}, {"timestamps", list_of(times)}, {"actions", list_of(actions)}};
}

// Writes one event as appended.
void write_event(Random& random, const Event& event, DrawnRow& row) {
  row.lines = {
      {{"user_id", row.id}, {"item_id", event.item}, {"timestamp", event.time}, {"rating", event.action}}};
  row.members = {{"events", "[{\"item\":" + quoted(random, event.item) + ",\"timestamp\":" + event.time +
                                ",\"action\":" + event.action + "}]"}};
}

void fault(DrawnRow& row, const char* name) { row.fault = name; }
// A fault that only text of JSON can have.
void fault_of_json(DrawnRow& row, const char* name, Agreement agreement = Agreement::value) {
  row.fault = name;
  row.agreement = agreement;
  row.lines.clear();
  row.wire.clear();
  row.as_list = false;
}

using Spoil = std::function<void(Random&, DrawnRow&)>;

std::string& member(DrawnRow& row, std::size_t index) { return row.members[index].second; }

// Faults that every kind of row can have.
const std::vector<Spoil> common_faults{
    [](Random& random, DrawnRow& row) {
      put_id(random, row, "");
      for (auto& line : row.lines) line[row.kind == Kind::item ? "item_id" : "user_id"] = "";
      row.in_path = false;
      fault(row, "empty id");
    },
    [](Random& random, DrawnRow& row) {
      put_id(random, row, std::string(257 + below(random, 300), 'x'));
      for (auto& line : row.lines) line[row.kind == Kind::item ? "item_id" : "user_id"] = row.id;
      row.in_path = false;
      fault(row, "long id");
    },
    [](Random&, DrawnRow& row) {
      row.members.emplace_back("histroy", "[]");
      // the members that a ranking and a line of requests.jsonl may have differ
      fault_of_json(row, "unknown member", row.kind == Kind::ranking ? Agreement::refused : Agreement::value);
    },
    [](Random& random, DrawnRow& row) {
      row.members.push_back(row.members[below(random, row.members.size())]);
      fault_of_json(row, "member twice");
    },
    [](Random& random, DrawnRow& row) {
      row.id_json = one_of(random, {"null", "7", "true", "[]", "{}"});
      row.in_path = false;
      fault_of_json(row, "id of another type");
    },
    [](Random&, DrawnRow& row) {
      row.id_json = "\"a\\u0000b\"";
      row.in_path = false;
      fault_of_json(row, "id with U+0000");
    },
    [](Random& random, DrawnRow& row) {
      member(row, 0) = one_of(random, {"null", "\"a\"", "7", "{}", "true"});
      fault_of_json(row, "list of another type");
    },
    [](Random&, DrawnRow& row) {
      member(row, 0) = std::string(200, '[');
      fault_of_json(row, "deep list", Agreement::refused);
    },
    [](Random& random, DrawnRow& row) {
      row.behind = one_of(random, {"x", "{}", ",", "]", "}"});
      fault_of_json(row, "text behind the object");
    },
    [](Random&, DrawnRow& row) {
      row.before = "\xef\xbb\xbf";
      fault_of_json(row, "byte order mark", Agreement::refused);
    },
    [](Random& random, DrawnRow& row) {
      row.id_json =
          std::string("\"") + one_of(random, {"\xff", "\xc0\x80", "\xed\xa0\x80", "\xe2\x82"}) + "\"";
      row.in_path = false;
      fault_of_json(row, "id that is not UTF-8");
    },
    [](Random& random, DrawnRow& row) {
      row.id_json = one_of(random, {"\"a\tb\"", "\"\\q\"", "\"\\ud800\"", "nul", "'a'", "\"a"});
      row.in_path = false;
      fault_of_json(row, "id that is not JSON");
    }};

void spoil_time(Random& random, std::vector<Event>& events, DrawnRow& row, const Texts& numbers,
                const char* name) {
  row.at = below(random, events.size());
  events[row.at].time = one_of(random, numbers);
  fault(row, name);
}

DrawnRow draw_history(Random& random) {
  DrawnRow row{.kind = Kind::user};
  put_id(random, row, draw_text(random));
  std::vector<Event> events = draw_events(random, 1 + below(random, 5));
  const std::size_t drawn = below(random, 20);
  if (drawn == 0) spoil_time(random, events, row, fractions, "fraction as a time"), row.as_list = false;
  if (drawn == 1) spoil_time(random, events, row, no_times, "no time"), row.as_list = false;
  if (drawn == 2) {
    row.at = below(random, events.size());
    events[row.at].action = one_of(random, no_actions);
    row.as_list = false;
    fault(row, "no action");
  }
  if (drawn == 3) events = draw_events(random, 6 + below(random, 20)), fault(row, "long history");
  write_events(random, events, row);
  if (drawn == 4) {
    member(row, 1) = list_of({one_of(random, no_numbers)});
    fault_of_json(row, "time that is not JSON");
  }
  if (drawn == 5) {
    member(row, 1) = list_of({one_of(random, {"\"881250949\"", "null", "true", "[]", "{}"})});
    fault_of_json(row, "time of another type");
  }
  if (drawn == 6) row.members.erase(row.members.begin()), fault_of_json(row, "no history");
  if (drawn == 7) row.members.pop_back(), fault_of_json(row, "no actions");
  if (drawn == 8) member(row, 1) = list_of(Texts(7, "1")), fault_of_json(row, "more times than events");
  if (drawn == 9) {
    member(row, 0) = list_of({"\"a\"", "\"b\""});
    member(row, 1) = "[2,1]";
    member(row, 2) = "[0,0]";
    fault_of_json(row, "times that decrease");
  }
  return row;
}

DrawnRow draw_event(Random& random) {
  DrawnRow row{.kind = Kind::event};
  put_id(random, row, draw_text(random));
  std::vector<Event> events = draw_events(random, 1);
  const std::size_t drawn = below(random, 8);
  if (drawn == 0) spoil_time(random, events, row, fractions, "fraction as a time");
  if (drawn == 1) spoil_time(random, events, row, no_times, "no time");
  if (drawn == 2) events[0].action = one_of(random, no_actions), fault(row, "no action");
  write_event(random, events[0], row);
  return row;
}

DrawnRow draw_item(Random& random) {
  DrawnRow row{.kind = Kind::item};
  put_id(random, row, draw_text(random));
  Texts tokens;
  for (std::size_t n = 1 + below(random, 4); n > 0; --n) tokens.push_back(std::to_string(random() % 1000));
  std::string title = draw_text(random);
  const std::size_t drawn = below(random, 10);
  const std::size_t at = below(random, tokens.size());
  if (drawn == 0)
    tokens[at] = one_of(random, {"1.5", "1e2", "2147483648", "-2147483649", "1e999"}), fault(row, "no token");
  if (drawn == 1) tokens.assign(5 + below(random, 9), "1"), fault(row, "too many tokens");
  if (drawn == 2) title.assign(4097, 'x'), fault(row, "long title");
  if (drawn == 3) tokens.clear(), fault(row, "no tokens");
  if (drawn == 4)
    tokens[at] = one_of(random, {"1000", "-1", "2147483647"}), fault(row, "token outside the vocabulary");
  std::string cell;
  for (const std::string& token : tokens) cell += (cell.empty() ? "" : " ") + token;
  row.lines = {{{"item_id", row.id}, {"title", title}, {"tokens", cell}}};
  row.members = {{"tokens", list_of(tokens)}, {"title", quoted(random, title)}};
  // A table has no identifiers: the last token stands for one. A negative one would be a second fault.
  const bool is_number = !row.fault.starts_with("no token");
  row.members.emplace_back("identifier", is_number && tokens.back().front() != '-' ? tokens.back() : "1");
  return row;
}

DrawnRow draw_ranking(Random& random) {
  DrawnRow row{.kind = Kind::ranking};
  put_id(random, row, draw_text(random));
  Texts candidates{"c0", "c1"};
  std::string time = std::to_string(random() % 1'000'000'000), scenario = std::to_string(random() % 2);
  const std::size_t drawn = below(random, 10);
  bool as_message = true;
  if (drawn == 0) time = one_of(random, fractions), as_message = false, fault(row, "fraction as a time");
  if (drawn == 1) time = one_of(random, no_times), fault(row, "no time");
  if (drawn == 2) scenario = one_of(random, no_scenarios), as_message = false, fault(row, "no scenario");
  if (drawn == 3) scenario = "2", fault(row, "scenario that the model lacks");
  if (drawn == 4) candidates = {"c0", "c1", "c0"}, fault(row, "candidate twice");
  as_message &= time.size() < 19 || time == "9223372036854775807" || time.starts_with('-');
  row.members = {{"candidates", "[\"" + candidates[0] + "\",\"" + candidates[1] + "\"" +
                                    (candidates.size() > 2 ? ",\"c0\"" : "") + "]"},
                 {"request_timestamp", time},
                 {"scenario", scenario}};
  row.lines = {{{"user_id", row.id},
                {"history", ""},
                {"candidates", candidates.size() > 2 ? "c0 c1 c0" : "c0 c1"},
                {"true_index", "0"},
                {"request_timestamp", time},
                {"scenario", scenario}}};
  if (!as_message) return row;
  using namespace server::grpc_test;
  row.wire = number_field(6, static_cast<std::uint64_t>(std::stoll(time)));
  row.wire += number_field(8, std::stoull(scenario));
  for (const std::string& candidate : candidates) row.wire += text_field(2, candidate);
  return row;
}

}  // namespace

DrawnRow draw_row(std::mt19937_64& random) {
  const std::size_t kind = below(random, 4);
  DrawnRow row = kind == 0   ? draw_history(random)
                 : kind == 1 ? draw_item(random)
                 : kind == 2 ? draw_event(random)
                             : draw_ranking(random);
  if (row.fault.empty() && below(random, 3) == 0)
    common_faults[below(random, common_faults.size())](random, row);
  return row;
}

std::string json_of(const DrawnRow& row, const std::string& id_name) {
  std::string out = "{";
  if (!id_name.empty()) out += "\"" + id_name + "\":" + row.id_json;
  for (const auto& [name, value] : row.members)
    out += (out.size() > 1 ? "," : "") + ("\"" + name + "\":") + value;
  return row.before + out + "}" + row.behind;
}

std::string table_of(const DrawnRow& row, const std::vector<std::string>& columns) {
  std::string out;
  for (const std::string& column : columns) out += (out.empty() ? "" : "\t") + column;
  for (const auto& line : row.lines)
    for (const std::string& column : columns)
      out += (&column == &columns.front() ? "\n" : "\t") + line.at(column);
  return out + "\n";
}

}  // namespace troupe::rows
