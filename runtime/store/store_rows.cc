// Validates profiles and items, and converts them to stored rows and back. Rows that are read back
// pass the same checks, so a row written for another model cannot reach a forward pass.
#include "runtime/store/store_rows.h"

#include <algorithm>

#include "runtime/actor/row_rules.h"
#include "runtime/store/store_record.h"

namespace troupe {
namespace {

using Fault = std::optional<Refusal>;

Refusal refuse(std::string code, std::string what, std::string where, std::string expected) {
  return {RefusalKind::unprocessable, std::move(code), std::move(what), std::move(where),
          std::move(expected)};
}

std::string up_to(std::uint64_t count, const char* unit) {
  return "at most " + std::to_string(count) + " " + unit;
}

std::string at(std::string_view field, std::size_t index) {
  return std::string(field) + "[" + std::to_string(index) + "]";
}

// Names fields as clients write them: lists beside a history, such as "timestamps", or members of each
// appended event, such as "timestamp".
struct FieldNames {
  bool of_events = false;

  std::string feature(std::string_view name) const {
    if (of_events && name.ends_with('s')) name.remove_suffix(1);
    return std::string(name.substr(0, feature_quoted_max));
  }
  std::string list(std::string_view name) const {
    return of_events ? "events[0]." + feature(name) : feature(name);
  }
  std::string value(std::string_view name, std::size_t i) const {
    return of_events ? at("events", i) + "." + feature(name) : at(feature(name), i);
  }
  const char* history() const { return of_events ? "events" : "history"; }
  const char* tokens() const { return of_events ? "events" : "tokens"; }
  std::string token(std::size_t i) const {
    return of_events ? at("events", i) + ".tokens[0]" : at("tokens", i);
  }
  std::string event_id(std::size_t i) const {
    return of_events ? at("events", i) + ".id" : at("event_ids", i);
  }

 private:
  static constexpr std::size_t feature_quoted_max = 60;
};

Fault check_tokens(std::span<const Token> tokens, const FeatureLimits& limits, const FieldNames& names = {}) {
  for (std::size_t i = 0; i < tokens.size(); ++i)
    if (tokens[i] < 0 || tokens[i] >= limits.vocabulary)
      return reject_token(tokens[i], limits.vocabulary, names.token(i));
  return {};
}

Refusal too_many(std::size_t count, const char* field, std::uint64_t most, const char* unit) {
  return refuse(std::string("too_many_") + unit, std::to_string(count) + " " + unit, field,
                up_to(most, unit));
}

std::vector<std::string> names_of(const std::vector<EventFeature>& features, const FieldNames& names) {
  std::vector<std::string> list;
  for (const EventFeature& feature : features) list.push_back(names.feature(feature.name));
  return list;
}

// Appended events come in any order.
Fault check_values(const Feature& feature, const EventFeature& wanted, std::size_t events,
                   const FieldNames& names) {
  if (feature.values.size() != events) {
    const std::string where = names.list(feature.name);
    return refuse("bad_feature", where + " has " + std::to_string(feature.values.size()) + " values", where,
                  std::to_string(events) + ", one for each event");
  }
  for (std::size_t i = 0; i < events; ++i) {
    const bool follows = wanted.ascending && !names.of_events && i > 0;
    const std::int64_t value = feature.values[i], least = follows ? feature.values[i - 1] : wanted.least;
    if (value >= std::max(least, wanted.least) && value <= wanted.most) continue;
    const std::string where = names.value(feature.name, i);
    return refuse("bad_feature", where + " is " + std::to_string(value), where,
                  "a number from " + std::to_string(std::max(least, wanted.least)) + " to " +
                      std::to_string(wanted.most) + (follows ? ", not below the one before" : ""));
  }
  return {};
}

// Requires every feature of the model exactly once, with a value for each event.
Fault check_features(std::span<const Feature> features, std::size_t events, const FeatureLimits& limits,
                     const FieldNames& names = {}) {
  for (std::size_t i = 0; i < features.size(); ++i) {
    const std::string& name = features[i].name;
    const auto wanted = std::ranges::find(limits.event_features, name, &EventFeature::name);
    if (wanted == limits.event_features.end())
      return unknown_feature(names.feature(name), name.empty() ? "features" : names.list(name),
                             names_of(limits.event_features, names));
    for (std::size_t j = 0; j < i; ++j)
      if (features[j].name == name)
        return refuse("bad_feature", name + " is given twice", names.list(name), "each feature once");
    if (Fault fault = check_values(features[i], *wanted, events, names)) return fault;
  }
  for (const EventFeature& wanted : limits.event_features)
    if (events > 0 && std::ranges::find(features, wanted.name, &Feature::name) == features.end())
      return refuse("missing_feature", "the events have no " + names.feature(wanted.name),
                    names.list(wanted.name), expected_features(names_of(limits.event_features, names)));
  return {};
}

bool sums_to_tokens(const Profile& profile) {
  std::uint64_t sum = 0;
  for (const std::uint32_t event : profile.events) sum += event;
  return sum == profile.tokens.size();
}

Fault check_event_ids(std::span<const std::string> ids, std::size_t events, const FeatureLimits& limits,
                      const FieldNames& names) {
  if (ids.empty()) return {};
  if (ids.size() != events)
    return refuse("bad_event_ids", std::to_string(ids.size()) + " ids", "event_ids",
                  std::to_string(events) + ", one for each event, or none");
  for (std::size_t i = 0; i < ids.size(); ++i)
    if (ids[i].size() > limits.id_bytes_max)
      return refuse("bad_event_ids", "the id has " + std::to_string(ids[i].size()) + " bytes",
                    names.event_id(i), up_to(limits.id_bytes_max, "bytes"));
  return {};
}

// Checks the events of a PutUser, AppendEvents or GivenHistory, whose members are the same.
template <class Events>
Fault check_items(const Events& events, const FeatureLimits& limits, const FieldNames& names = {}) {
  if (!events.history.empty() && !events.tokens.empty())
    return refuse("bad_history", "the history is given twice", "history, tokens",
                  "item ids or tokens, not both");
  if (events.history.size() > limits.history_events_max)
    return too_many(events.history.size(), names.history(), limits.history_events_max, "events");
  const std::uint64_t tokens_max = std::uint64_t{limits.history_events_max} * limits.item_tokens_max;
  if (events.tokens.size() > tokens_max)
    return too_many(events.tokens.size(), names.tokens(), tokens_max, "tokens");
  return check_tokens(events.tokens, limits, names);
}

// Checks a PutUser or AppendEvents, whose members are the same.
template <class Write>
Fault check_events(const Write& write, const FeatureLimits& limits, const FieldNames& names) {
  if (!write.tenant.empty())
    if (Fault fault = reject_id(write.tenant, "tenant", limits.id_bytes_max)) return fault;
  if (Fault fault = reject_id(write.user, "user", limits.id_bytes_max)) return fault;
  if (Fault fault = check_items(write, limits, names)) return fault;
  const std::size_t events = write.history.size() + write.tokens.size();
  if (Fault fault = check_event_ids(write.event_ids, events, limits, names)) return fault;
  return check_features(write.features, events, limits, names);
}

// Writes all lengths, then all names as one text.
void write_names(RecordWriter& writer, const std::vector<std::string>& names) {
  std::vector<std::uint32_t> lengths;
  std::string text;
  for (const std::string& name : names) {
    lengths.push_back(static_cast<std::uint32_t>(name.size()));
    text += name;
  }
  writer.list(lengths).text(text);
}

// Reads no names, or one for each event.
std::optional<std::vector<std::string>> read_names(RecordReader& reader, std::size_t events) {
  const std::vector<std::uint32_t> lengths = reader.list_u32();
  if (!lengths.empty() && lengths.size() != events) return {};
  const std::string text = reader.text();
  std::vector<std::string> names;
  std::size_t from = 0;
  for (const std::uint32_t length : lengths) {
    if (length > text.size() - from) return {};
    names.push_back(text.substr(from, length));
    from += length;
  }
  return from == text.size() ? std::optional(std::move(names)) : std::nullopt;
}

}  // namespace

Fault validate_row(const PutUser& put, const FeatureLimits& limits) { return check_events(put, limits, {}); }

Fault validate_row(const AppendEvents& events, const FeatureLimits& limits) {
  return check_events(events, limits, {.of_events = true});
}

Fault validate_history(const GivenHistory& given, const FeatureLimits& limits) {
  if (Fault fault = check_items(given, limits)) return fault;
  return check_features(given.features, given.history.size() + given.tokens.size(), limits);
}

Fault validate_row(const PutItem& put, const FeatureLimits& limits) {
  if (Fault fault = reject_id(put.item, "item", limits.id_bytes_max)) return fault;
  if (put.title.size() > limits.title_bytes_max)
    return refuse("bad_title", "the title has " + std::to_string(put.title.size()) + " bytes", "title",
                  up_to(limits.title_bytes_max, "bytes"));
  if (put.tokens.empty()) return no_tokens();
  if (put.tokens.size() > limits.item_tokens_max)
    return too_many(put.tokens.size(), "tokens", limits.item_tokens_max, "tokens");
  if (Fault fault = check_tokens(put.tokens, limits)) return fault;
  return reject_identifier(put.identifier, limits.vocabulary, false);
}

std::string user_key(std::string_view tenant, std::string_view user) {
  const auto length = static_cast<std::uint32_t>(tenant.size());
  std::string key;
  for (int shift = 24; shift >= 0; shift -= 8) key += static_cast<char>(length >> shift);
  return key.append(tenant).append(user);
}

// Names follow the features, after a feature with an empty name.
std::string encode_profile(const Profile& profile, std::string_view key, const EventNames& names) {
  RecordWriter writer(RecordType::profile);
  writer.u64(profile.version).list(profile.tokens).list(profile.events);
  for (const Feature& feature : profile.features) writer.text(feature.name).list(feature.values);
  if (!names.items.empty() || !names.ids.empty()) {
    writer.text("");
    write_names(writer, names.items);
    write_names(writer, names.ids);
  }
  return writer.seal(key);
}

std::string encode_item(const Item& item, std::uint64_t catalog, std::string_view key) {
  RecordWriter writer(RecordType::item);
  writer.u64(catalog).text(item.title).u32(static_cast<std::uint32_t>(item.identifier)).list(item.tokens);
  return writer.seal(key);
}

std::string encode_counter(std::uint64_t value, std::string_view key) {
  return RecordWriter(RecordType::counter).u64(value).seal(key);
}

std::string encode_note(std::string_view text, std::string_view key) {
  return RecordWriter(RecordType::note).text(text).seal(key);
}

namespace {

// Reads up to the names. Returns nullopt if that part is not sound.
std::optional<Profile> read_profile(RecordReader& reader, const FeatureLimits& limits, bool& has_names) {
  Profile profile{reader.u64(), reader.list_i32(), reader.list_u32()};
  has_names = false;
  while (reader.more() && !has_names) {
    std::string name = reader.text();
    has_names = name.empty();
    if (!has_names) profile.features.push_back({std::move(name), reader.list_i64()});
  }
  if (!sums_to_tokens(profile) || check_tokens(profile.tokens, limits)) return {};
  if (check_features(profile.features, profile.events.size(), limits)) return {};
  return profile;
}

}  // namespace

std::optional<StoredProfile> decode_stored_profile(std::string_view key, std::string_view value,
                                                   const FeatureLimits& limits) {
  auto reader = RecordReader::open(RecordType::profile, key, value);
  if (!reader) return {};
  bool has_names = false;
  auto profile = read_profile(*reader, limits, has_names);
  if (!profile) return {};
  StoredProfile stored{*std::move(profile), {}};
  if (has_names) {
    const std::size_t events = stored.profile.events.size();
    auto items = read_names(*reader, events), ids = items ? read_names(*reader, events) : std::nullopt;
    if (!ids || (items->empty() && ids->empty())) return {};
    stored.names = {*std::move(items), *std::move(ids)};
  }
  return reader->complete() ? std::optional(std::move(stored)) : std::nullopt;
}

std::optional<Profile> decode_profile(std::string_view key, std::string_view value,
                                      const FeatureLimits& limits) {
  auto reader = RecordReader::open(RecordType::profile, key, value);
  if (!reader) return {};
  bool has_names = false;
  auto profile = read_profile(*reader, limits, has_names);
  return has_names || reader->complete() ? std::move(profile) : std::nullopt;
}

std::optional<StoredItem> decode_item(std::string_view key, std::string_view value,
                                      const FeatureLimits& limits) {
  auto reader = RecordReader::open(RecordType::item, key, value);
  if (!reader) return {};
  const std::uint64_t catalog = reader->u64();
  PutItem row{0, std::string(key), reader->text()};
  row.identifier = static_cast<Token>(reader->u32());
  row.tokens = reader->list_i32();
  if (!reader->complete() || validate_row(row, limits)) return {};
  return StoredItem{{std::move(row.item), std::move(row.title), std::move(row.tokens), row.identifier},
                    catalog};
}

std::optional<std::uint64_t> decode_counter(std::string_view key, std::string_view value) {
  auto reader = RecordReader::open(RecordType::counter, key, value);
  if (!reader) return {};
  const std::uint64_t count = reader->u64();
  return reader->complete() ? std::optional(count) : std::nullopt;
}

std::optional<std::string> decode_note(std::string_view key, std::string_view value) {
  auto reader = RecordReader::open(RecordType::note, key, value);
  if (!reader) return {};
  std::string text = reader->text();
  return reader->complete() ? std::optional(std::move(text)) : std::nullopt;
}

}  // namespace troupe
