#include "runtime/config/settings.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

using namespace troupe;

namespace {

bool takes(std::string_view name, std::string_view text) {
  return parse_setting(*find_setting(name), text).index() == 0;
}

void set(Settings& settings, std::string_view name, std::string_view text) {
  const Setting& setting = *find_setting(name);
  setting.write(settings, std::get<SettingValue>(parse_setting(setting, text)));
}

template <class T>
T parsed(std::string_view name, std::string_view text) {
  return std::get<T>(std::get<SettingValue>(parse_setting(*find_setting(name), text)));
}

}  // namespace

TEST_CASE("settings: every setting has a section, help, and a default inside its range") {
  std::set<std::string_view> names, sections;
  std::string_view section;
  for (const Setting& setting : setting_table()) {
    CAPTURE(setting.name);
    CHECK(names.insert(setting.name).second);
    CHECK(std::count(setting.name.begin(), setting.name.end(), '.') == 1);
    if (const auto own = setting.name.substr(0, setting.name.find('.')); own != section) {
      CHECK(sections.insert(own).second);  // settings of a section are adjacent
      section = own;
    }
    CHECK(setting.help.ends_with('.'));
    CHECK(parse_setting(setting, setting.initial).index() == 0);
    CHECK(!expected_of(setting).empty());
  }
}

TEST_CASE("settings: sizes and durations are parsed with their units") {
  CHECK(parsed<std::int64_t>("pool.memory", "1MiB") == 1 << 20);
  CHECK(parsed<std::int64_t>("pool.memory", "16TiB") == std::int64_t{1} << 44);
  CHECK(parsed<std::int64_t>("pool.memory", "2097152") == 2 << 20);
  CHECK(parsed<std::int64_t>("pool.memory", "2097152B") == 2 << 20);
  CHECK(parsed<std::int64_t>("pool.memory", "2Gi") == std::int64_t{2} << 30);
  CHECK(parsed<std::int64_t>("pool.memory", "2GB") == 2'000'000'000);
  CHECK(parsed<std::int64_t>("router.deadline", "1500us") == 1500);
  CHECK(parsed<std::int64_t>("router.deadline", "1m") == 60'000'000);
  CHECK(parsed<std::int64_t>("router.deadline", "1.5s") == 1'500'000);
  for (const char* text :
       {"", "MiB", "1MB", "1 kib", "-1MiB", "1MiB2", "1.2.3MiB", "nan", "inf", "0x10MiB", "1048576.5"}) {
    CAPTURE(text);
    CHECK(!takes("pool.memory", text));
  }
  for (const char* text : {"5", "0s", "1M", "-5s", "11min", "1.0000001ms"}) {
    CAPTURE(text);
    CHECK(!takes("router.deadline", text));
  }
}

TEST_CASE("settings: both ends of a range are valid, other values are refused") {
  CHECK(takes("pool.page_tokens", "1"));
  CHECK(takes("pool.page_tokens", "256"));
  CHECK(!takes("pool.page_tokens", "0"));
  CHECK(!takes("pool.page_tokens", "257"));
  CHECK(!takes("pool.page_tokens", "99999999999999999999"));
  CHECK(parsed<double>("pool.item_share", "0") == 0.0);
  CHECK(parsed<double>("pool.item_share", "1") == 1.0);
  CHECK(!takes("pool.item_share", "nan"));
  CHECK(!takes("pool.item_share", "-0.1"));
  CHECK(!takes("pool.item_share", "1.01"));
  CHECK(!takes("pool.item_share", "Auto"));
  CHECK(!takes("pool.item_share", ""));
  CHECK(!takes("pool.row_share", "auto"));
  CHECK(takes("pool.hot_share", "auto"));
  CHECK(parsed<double>("pool.hot_share", "0.25") == 0.25);
  for (const char* text : {"", "often", "1.5", "-0.1", "0.1x"}) {
    CAPTURE(text);
    CHECK(!takes("pool.hot_share", text));
  }
  CHECK(expected_of(*find_setting("pool.item_share")) == "0..1 | auto");
  CHECK(!takes("pool.kv_format", "f32|f16"));
  CHECK(!takes("pool.kv_format", ""));
  CHECK(takes("pool.kv_format", "bf16"));
  CHECK(!takes("pool.kv_format", "fp16"));
  CHECK(takes("model.weights", "int8"));
  CHECK(takes("model.weights", "bf16"));
  CHECK(takes("model.weights", "auto"));
  CHECK(!takes("model.weights", "f16"));
}

TEST_CASE("settings: a value is written to the member of its name") {
  Settings settings;
  CHECK(settings.pool.memory == 256 << 20);
  CHECK(settings.router.deadline == Duration{2'000'000});
  CHECK(settings.pool.item_share == std::nullopt);
  CHECK(settings.http.address == "127.0.0.1");
  set(settings, "pool.memory", "16TiB");
  set(settings, "pool.page_tokens", "256");
  set(settings, "pool.verify_on_read", "true");
  set(settings, "router.deadline", "1ms");
  set(settings, "router.affinity", "0.25");
  set(settings, "pool.item_share", "0.25");
  set(settings, "http.address", "0.0.0.0");
  CHECK(settings.pool.memory == std::size_t{1} << 44);
  CHECK(settings.pool.page_tokens == 256);
  CHECK(settings.pool.verify_on_read);
  CHECK(settings.router.deadline == Duration{1'000});
  CHECK(settings.router.affinity == 0.25);
  CHECK(settings.pool.item_share == 0.25);
  set(settings, "pool.item_share", "auto");
  CHECK(settings.pool.item_share == std::nullopt);
  CHECK(settings.http.address == "0.0.0.0");
  CHECK(settings.router.deadline_max == Duration{10'000'000});
}

TEST_CASE("settings: a choice is written as the enumerator of its word") {
  using Encryption = TransferSettings::Encryption;
  using Beams = InferenceSettings::Beams;
  Settings settings;
  CHECK(settings.inference.beams == Beams::together);
  set(settings, "inference.beams", "plain");
  CHECK(settings.inference.beams == Beams::plain);
  CHECK(word_of(Beams::together) == "together");
  CHECK(word_of(Beams::plain) == "plain");
  CHECK(settings.features.freshness == Freshness::exact);
  set(settings, "features.freshness", "behind");
  CHECK(settings.features.freshness == Freshness::behind);
  CHECK_FALSE(takes("features.freshness", "configured"));
  CHECK(settings.router.unknown_user == UnknownUser::refuse);
  set(settings, "router.unknown_user", "cold");
  CHECK(settings.router.unknown_user == UnknownUser::cold);
  // a word that is a keyword of C++
  CHECK(find_setting("transfer.encryption")->initial == "auto");
  CHECK(expected_of(*find_setting("transfer.encryption")) == "auto | on | off");
  CHECK(settings.transfer.encryption == Encryption::auto_);
  set(settings, "transfer.encryption", "off");
  CHECK(settings.transfer.encryption == Encryption::off);
  set(settings, "transfer.encryption", "auto");
  CHECK(settings.transfer.encryption == Encryption::auto_);
  CHECK(word_of(Encryption::auto_) == "auto");
  CHECK_FALSE(takes("transfer.encryption", "auto_"));
}

TEST_CASE("settings: both ends of every range fit the member") {
  Settings settings;
  for (const Setting& setting : setting_table()) {
    const std::size_t dots = setting.range.find("..");
    if (dots == setting.range.npos) continue;
    CAPTURE(setting.name);
    for (const std::string_view end : {setting.range.substr(0, dots), setting.range.substr(dots + 2)}) {
      const auto value = parse_setting(setting, end);
      REQUIRE(std::holds_alternative<SettingValue>(value));
      setting.write(settings, std::get<SettingValue>(value));  // stops the test if it does not fit
    }
  }
  CHECK(settings.node.log_files == 1000);
  CHECK(settings.telemetry.sampled == 1);
}
