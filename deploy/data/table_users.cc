// Reads users' events, one a row, and whole histories from tables.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "deploy/data/table_cells.h"
#include "deploy/data/table_rows.h"

namespace troupe::deploy {

namespace {

// Numbers texts in the order in which they come, so that each is kept once.
class TextNumbers {
 public:
  std::uint32_t number(const std::string& text) {
    const auto [at, is_new] = numbers_.try_emplace(text, static_cast<std::uint32_t>(texts_.size()));
    if (is_new) texts_.push_back(&at->first);
    return at->second;
  }
  const std::string& text(std::uint32_t number) const { return *texts_.at(number); }
  std::size_t size() const { return texts_.size(); }

 private:
  std::unordered_map<std::string, std::uint32_t> numbers_;
  std::vector<const std::string*> texts_;  // keys of the map, which do not move
};

struct Event {
  WrittenTime time;  // whole, so that events within a second keep their order
  std::int64_t action = 0;
  std::uint64_t line = 0;
  std::uint32_t item = 0, id = 0;  // numbers
};

// The features that the model reads of events, and the words that a table has for them.
class ReadFeatures {
 public:
  ReadFeatures(const TableCells& cells, const TableReading& reading, bool of_events)
      : cells_(cells), features_(reading.event_features) {
    for (const EventFeature& feature : features_) {
      const std::string word = of_events ? feature.name.substr(0, feature.name.size() - 1) : feature.name;
      if (feature.name != "timestamps" && feature.name != "actions")
        cells.fail("", "a table has no words for " + feature.name + ", which the model reads of events",
                   "users.jsonl (--data)");
      if (!cells.has(word))
        cells.fail("", "there is no column for " + word + ", which the model reads of events",
                   word + "=COLUMN in --columns");
    }
  }
  bool reads(std::string_view name) const {
    return std::ranges::find(features_, name, &EventFeature::name) != features_.end();
  }
  // Refuses a value that the model does not take, at its line.
  void check(std::string_view name, std::string_view word, std::int64_t value) const {
    const auto found = std::ranges::find(features_, name, &EventFeature::name);
    if (found == features_.end() || (value >= found->least && value <= found->most)) return;
    cells_.fail(word, Refusal{RefusalKind::unprocessable, "bad_feature",
                              std::string(word) + " is " + std::to_string(value), std::string(word),
                              "a number from " + std::to_string(found->least) + " to " +
                                  std::to_string(found->most)});
  }
  const std::vector<EventFeature>& list() const { return features_; }

 private:
  const TableCells& cells_;
  const std::vector<EventFeature>& features_;
};

std::string checked_id(const TableCells& cells, std::string_view word, std::string_view kind) {
  std::string id = cells.id(word);
  if (auto fault = reject_id(id, kind, row_id_bytes_max)) {
    fault->where = word;
    cells.fail(word, std::move(*fault));
  }
  return id;
}

void note_time(TableUsers& read, std::int64_t time) {
  read.first = std::min(read.first.value_or(time), time);
  read.last = std::max(read.last.value_or(time), time);
}

// Collects events by users.
class EventTable {
 public:
  EventTable(RowTable& table, const TableColumns& columns, const TableReading& reading)
      : cells_(table, columns), features_(cells_, reading, true), reading_(reading) {
    ids_.number("");
    read_.users.file = table.place().file;
    if (cells_.has("action") && !features_.reads("actions")) read_.unread.push_back("action");
  }

  TableUsers take() {
    while (cells_.next()) read_row();
    for (std::uint32_t user = 0; user < events_.size(); ++user) put_user(user);
    return std::move(read_);
  }

 private:
  void read_row() {
    const std::uint32_t user = users_.number(checked_id(cells_, "user", "user"));
    Event event{.line = cells_.line(), .item = items_.number(checked_id(cells_, "item", "item"))};
    if (cells_.has("timestamp")) {
      event.time = cells_.time();
      note_time(read_, event.time.seconds);
    }
    if (features_.reads("actions")) {
      event.action = cells_.action();
      features_.check("actions", "action", event.action);
    }
    if (!cells_.is_empty("id")) event.id = ids_.number(checked_id(cells_, "id", "event"));
    if (user == events_.size()) events_.emplace_back();
    events_[user].push_back(event);
    ++read_.events;
  }

  // A later event with an id of an earlier one is the same event again.
  void drop_repeated(std::vector<Event>& events) {
    std::unordered_set<std::uint32_t> seen;
    read_.repeated += std::erase_if(
        events, [&](const Event& event) { return event.id != 0 && !seen.insert(event.id).second; });
  }

  void put_user(std::uint32_t user) {
    std::vector<Event> events = std::exchange(events_[user], {});
    drop_repeated(events);
    std::ranges::stable_sort(events, {}, &Event::time);
    const std::size_t most = reading_.rows.limits.history_events_max;
    if (events.size() > most) {
      read_.cut += events.size() - most;
      ++read_.cut_users;
      events.erase(events.begin(), events.end() - static_cast<std::ptrdiff_t>(most));
    }
    PutUser put;
    put.user = users_.text(user);
    for (const EventFeature& feature : features_.list()) put.features.push_back({feature.name, {}});
    std::vector<std::uint64_t>& lines = read_.users.event_lines.emplace_back();
    for (const Event& event : events) {
      put.history.push_back(items_.text(event.item));
      for (Feature& feature : put.features)
        feature.values.push_back(feature.name == "actions" ? event.action : event.time.seconds);
      if (ids_.size() > 1) put.event_ids.push_back(ids_.text(event.id));
      lines.push_back(event.line);
    }
    const std::uint64_t line = lines.front();
    read_.users.add(std::move(put), line);
  }

  TableCells cells_;
  ReadFeatures features_;
  const TableReading& reading_;
  TextNumbers users_, items_, ids_;         // id number 0: none
  std::vector<std::vector<Event>> events_;  // by the user's number
  TableUsers read_;
};

void check_length(const TableCells& cells, std::string_view word, std::size_t length, std::size_t events) {
  if (length == events) return;
  cells.fail(word,
             Refusal{RefusalKind::unprocessable, "bad_feature",
                     std::string(word) + " has " + std::to_string(length) + " elements", std::string(word),
                     std::to_string(events) + ", one for each event of the history"});
}

PutUser read_profile(const TableCells& cells, const ReadFeatures& features, const TableReading& reading,
                     TableUsers& read) {
  PutUser put;
  put.user = checked_id(cells, "user", "user");
  put.history = cells.ids("history");
  const ListLimit most = server::user_limits(reading.rows.limits).front();
  if (put.history.size() > most.max) cells.fail("history", refuse_length(most));
  for (const EventFeature& feature : features.list()) {
    Feature& made = put.features.emplace_back(
        Feature{feature.name, feature.name == "actions" ? cells.actions() : cells.times()});
    check_length(cells, feature.name, made.values.size(), put.history.size());
    for (const std::int64_t value : made.values) {
      features.check(feature.name, feature.name, value);
      if (feature.name == "timestamps") note_time(read, value);
    }
  }
  if (!cells.is_empty("event_ids")) {
    put.event_ids = cells.ids("event_ids");
    check_length(cells, "event_ids", put.event_ids.size(), put.history.size());
  }
  read.events += put.history.size();
  return put;
}

}  // namespace

TableUsers read_event_table(RowTable& table, const TableColumns& columns, const TableReading& reading) {
  return EventTable(table, columns, reading).take();
}

TableUsers read_profile_table(RowTable& table, const TableColumns& columns, const TableReading& reading) {
  TableCells cells(table, columns);
  const ReadFeatures features(cells, reading, false);
  TableUsers read;
  read.users.file = table.place().file;
  for (const char* const word : {"timestamps", "actions"})
    if (cells.has(word) && !features.reads(word)) read.unread.emplace_back(word);
  while (cells.next()) read.users.add(read_profile(cells, features, reading, read), cells.line());
  return read;
}

}  // namespace troupe::deploy
