// Parses the events that a client appends to a user's history over HTTP, and refuses invalid ones
// with the exact field.
#include "server/formats/event_list.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "runtime/actor/row_rules.h"
#include "runtime/wire/json_text.h"
#include "server/formats/json_tree.h"
#include "server/formats/quoted.h"

namespace troupe::server {
namespace {

constexpr std::size_t values_of_event = 48;  // including member names; most events have six

JsonTree parse_events(std::string_view body, std::uint32_t events_max) {
  const JsonBounds bounds{.values_max = values_of_event * (std::size_t{events_max} + 1), .depth_max = 8};
  const ListLimit limits[] = {{"events", events_max, "router.history_events_max", "events"}};
  return parse_tree(body, bounds, "events", limits, Fractions::refused);
}

class EventsReader {
 public:
  explicit EventsReader(const ModelText& text) : text_(text) {}

  AppendEvents take(const JsonTree& body) {
    if (!body.is_object()) tree_type_fault(body, "body", "an object");
    for (const auto& [name, value] : body.items())
      if (name == "user")
        events_.user = tree_text(value, name);
      else if (name == "events")
        take_events(value);
      else if (name == "tenant")
        tree_fault("tenant_in_body", "the body names a tenant", "tenant", "the header x-troupe-tenant");
      else
        tree_fault("unknown_field", "there is no such field", printable(name.substr(0, quoted_bytes_max)),
                   "one of events, user");
    if (!body.contains("events"))
      tree_fault("missing_field", "the body has no events", "events",
                 "a list of events, oldest first: {\"id\": its own, \"item\": an item's}");
    finish();
    if (auto fault = reject_values(events_)) throw *std::move(fault);
    return std::move(events_);
  }

 private:
  void take_events(const JsonTree& list) {
    if (!list.is_array()) tree_type_fault(list, "events", "a list of objects");
    for (count_ = 0; count_ < list.size(); ++count_)
      take_event(list[count_], "events[" + std::to_string(count_) + "]");
  }

  void take_event(const JsonTree& event, const std::string& where) {
    if (!event.is_object()) tree_type_fault(event, where, "an object");
    if (!event.contains("item") && !event.contains("tokens"))
      tree_fault("missing_field", where + " has no item", where + ".item", "an item's id");
    std::string id;
    for (const auto& [name, value] : event.items()) {
      const std::string at = where + "." + printable(name.substr(0, quoted_bytes_max));
      if (name == "id")
        id = tree_text(value, at);
      else if (name == "item")
        events_.history.push_back(tree_text(value, at));
      else if (name == "tokens")
        take_token(value, at);
      else
        take_feature(name + "s", value, at);
    }
    has_ids_ |= !id.empty();
    events_.event_ids.push_back(std::move(id));
  }

  // An event put as tokens is a single token, as in a profile of tokens.
  void take_token(const JsonTree& list, const std::string& where) {
    constexpr const char* expected = "a list of one token: an event that is not an item is one token";
    if (!list.is_array()) tree_type_fault(list, where, expected);
    if (list.size() != 1)
      tree_fault("wrong_type", where + " has " + std::to_string(list.size()) + " elements", where, expected);
    const JsonTree& value = list.front();
    if (value.is_number_integer() && value >= 0 && value <= std::numeric_limits<Token>::max())
      return events_.tokens.push_back(value.get<Token>());
    if (!value.is_string()) tree_type_fault(value, where + "[0]", "a token's number, or its word");
    const auto& word = value.get_ref<const std::string&>();
    const auto token = text_.find(word);
    if (!token)
      throw Refusal{RefusalKind::unprocessable, "unknown_word",
                    in_quotes(word) + " is not in the model's vocabulary", where + "[0]",
                    "a word of vocab.json or tokenizer.json, or a token's number"};
    events_.tokens.push_back(*token);
  }

  void take_feature(std::string name, const JsonTree& value, const std::string& where) {
    auto at = std::ranges::find(events_.features, name, &Feature::name);
    const bool is_new = at == events_.features.end();
    const bool fits = !is_new || (count_ == 0 && events_.features.size() < features_max);
    if (!fits)
      tree_fault(
          "unknown_field", where + " is not in every event", where,
          "id, item, tokens, or a number that the model reads, such as timestamp or action, in every event");
    const NumberRule rule = number_rule(name);
    if (!value.is_number_integer()) throw no_number(value.type_name(), rule, where);
    auto number = read_number(value.dump(), rule, where);
    if (auto* refusal = std::get_if<Refusal>(&number)) throw std::move(*refusal);
    if (is_new) at = events_.features.insert(at, {std::move(name), {}});
    at->values.push_back(std::get<std::int64_t>(number));
  }

  void finish() {
    if (!has_ids_) events_.event_ids.clear();
    if (!events_.history.empty() && !events_.tokens.empty())
      tree_fault("ambiguous_history", "some events are items and some are tokens", "events",
                 "one of the two");
    for (const Feature& feature : events_.features)
      if (feature.values.size() != count_)
        tree_fault("missing_field",
                   "not every event has its " + printable(feature.name.substr(0, feature.name.size() - 1)),
                   "events", "a number in every one of the " + std::to_string(count_) + " events");
  }

  static constexpr std::size_t features_max = 16;  // the most of any model
  const ModelText& text_;
  AppendEvents events_;
  std::size_t count_ = 0;  // events so far
  bool has_ids_ = false;
};

}  // namespace

std::variant<AppendEvents, Refusal> read_events(std::string_view body, std::uint32_t events_max,
                                                const ModelText& text) {
  try {
    return EventsReader(text).take(parse_events(body, events_max));
  } catch (const Refusal& refusal) {
    return refusal;
  }
}

}  // namespace troupe::server
