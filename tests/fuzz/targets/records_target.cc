// Parses values of the store and of Redis: profiles, items, counters and records with sums. Sums cannot
// be guessed, so on request the correct one is appended, as by an attacker who can write the file.
#include <xxhash.h>

#include "runtime/store/store_record.h"
#include "runtime/store/store_rows.h"
#include "tests/fuzz/targets/target.h"

namespace troupe::fuzz {
namespace {

constexpr FeatureLimits limits{.vocabulary = 64, .item_tokens_max = 8, .history_events_max = 8};
constexpr std::string_view key = "item-1";

std::string sealed(std::string_view body) {
  const std::uint64_t sum =
      XXH3_64bits_withSeed(body.data(), body.size(), XXH3_64bits(key.data(), key.size()));
  return std::string(body).append(reinterpret_cast<const char*>(&sum), sizeof sum);
}

void check_profile(const std::string& value) {
  const auto profile = decode_profile(key, value, limits);
  if (!profile) return;
  for (const Token token : profile->tokens) TROUPE_CHECK(token >= 0 && token < limits.vocabulary, "no token");
  const auto stored = decode_stored_profile(key, value, limits);
  if (!stored) return;  // its original events are damaged, which no request reads
  TROUPE_CHECK(stored->profile == *profile, "a profile is read in two ways");
  TROUPE_CHECK(encode_profile(*profile, key, stored->names) == value, "a profile has two forms");
}

void check_item(const std::string& value) {
  const auto stored = decode_item(key, value, limits);
  if (!stored) return;
  TROUPE_CHECK(!stored->item.tokens.empty() && stored->item.tokens.size() <= limits.item_tokens_max,
               "no item");
  TROUPE_CHECK(encode_item(stored->item, stored->catalog, key) == value, "an item has two forms");
}

void run(Input input) {
  const std::uint8_t choice = take_choice(input);
  const std::string value = choice & 1 ? sealed(text_of(input)) : std::string(text_of(input));
  const MemoryWatch memory;
  check_profile(value);
  check_item(value);
  if (const auto count = decode_counter(key, value))
    TROUPE_CHECK(encode_counter(*count, key) == value, "a counter has two forms");
  if (const auto note = decode_note(key, value))
    TROUPE_CHECK(encode_note(*note, key) == value, "a note has two forms");
  TROUPE_CHECK(memory.most() <= 8 * value.size() + 1'024, "a record takes more than it brings");
}

std::vector<std::string> seeds() {
  const Item item{"item-1", "A tent", {5, 6, 7}, 41};
  const std::vector<std::string> values{
      encode_profile({9, {1, 2, 3}, {2, 1}}, key),
      encode_profile({9, {1, 2, 3}, {2, 1}}, key, {{"a", "bc"}, {"", "e1"}}), encode_item(item, 7, key),
      encode_counter(12, key), encode_note("troupe rows", key)};
  std::vector<std::string> all;
  for (const std::string& value : values) {
    all.push_back("0" + value);
    all.push_back("1" + value.substr(0, value.size() - 8));
  }
  return all;
}

}  // namespace

const Target records_target{"records", run, seeds, true};

}  // namespace troupe::fuzz
