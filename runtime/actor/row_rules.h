#pragma once
// Rules for the values of a row: ids, whole numbers, times, tokens and features of users, items, events
// and requests. Every reader of rows uses these functions, whether a row comes as JSON over HTTP, as a line
// of a file, as a table or over gRPC, so that the same row has the same meaning or the same refusal
// everywhere. docs/reference/rows.md lists the decisions. Pure.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "runtime/actor/messages.h"

namespace troupe {

inline constexpr std::size_t row_id_bytes_max = 256;  // of the id of a tenant, user, item or event
// The largest time in seconds. Times of today in milliseconds are above it.
inline constexpr std::int64_t row_time_max = std::int64_t{1} << 40;

// Range of a whole number.
struct NumberRule {
  std::int64_t least = INT64_MIN, most = INT64_MAX;
  bool is_time = false;  // in seconds since 1970
};
// Returns the rule of a member or column by its name, such as "timestamps" or "actions". Other names have no
// rule of their own: any whole number of 64 bits.
NumberRule number_rule(std::string_view name);
std::string expected_number(const NumberRule& rule);  // "a whole number from 0 to 7"

// Reads a whole number as JSON writes it: no fraction, no exponent, no sign but a minus, no leading zero.
// `where` names the field.
std::variant<std::int64_t, Refusal> read_number(std::string_view written, const NumberRule& rule,
                                                const std::string& where);
std::optional<Refusal> reject_number(std::int64_t value, const NumberRule& rule, const std::string& where);
// Refuses a value that is no whole number. `found`: how it is written, or its type.
Refusal no_number(std::string_view found, const NumberRule& rule, const std::string& where);

// Refuses an id that is empty or longer than `bytes_max`. `kind`: user, item or tenant.
std::optional<Refusal> reject_id(std::string_view id, std::string_view kind, std::size_t bytes_max);
// Refuses a text with U+0000: ids become parts of keys and names elsewhere, which need not support it.
std::optional<Refusal> reject_text(std::string_view text, const std::string& where);
Refusal no_tokens();  // of an item
std::optional<Refusal> reject_token(Token token, std::int64_t vocabulary, const std::string& where);
Refusal missing_identifier();  // of an item whose model reads it
// Refuses no_identifier only if the model reads identifiers.
std::optional<Refusal> reject_identifier(Token identifier, std::int64_t vocabulary, bool is_read);

// Features of events that models read, by the names of their lists. A model reads all, some or none.
inline constexpr const char* event_feature_names[] = {"timestamps", "actions"};
// Names the features that a model reads, as what was expected.
std::string expected_features(std::span<const std::string> read);
// Refuses a feature that the model does not read. `read`: those that it reads.
Refusal unknown_feature(std::string_view name, std::string where, std::span<const std::string> read);

// Refuse values that no model takes. Limits of a model or of the configuration are checked later, by the
// router and the store.
std::optional<Refusal> reject_values(const PutUser& put);
std::optional<Refusal> reject_values(const PutItem& put);
std::optional<Refusal> reject_values(const AppendEvents& events);
std::optional<Refusal> reject_values(const RankRequest& request);
std::optional<Refusal> reject_values(const GenerateRequest& request);
std::optional<Refusal> reject_values(const EmbedRequest& request);
// Messages without such values.
template <class M>
std::optional<Refusal> reject_values(const M&) {
  return std::nullopt;
}

}  // namespace troupe
