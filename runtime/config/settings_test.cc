#include "runtime/config/settings.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

using namespace troupe;

namespace {

bool takes(std::string_view name, std::string_view text) {
  return parse_setting(*find_setting(name), text).index() == 0;
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
  CHECK(parsed<std::int64_t>("router.deadline", "1500us") == 1500);
  CHECK(parsed<std::int64_t>("router.deadline", "1.5s") == 1'500'000);
  for (const char* text :
       {"", "MiB", "1MB", "1 mib", "-1MiB", "1MiB2", "1.2.3MiB", "nan", "inf", "0x10MiB", "1048576.5"}) {
    CAPTURE(text);
    CHECK(!takes("pool.memory", text));
  }
  for (const char* text : {"5", "0s", "1m", "-5s", "11min", "1.0000001ms"}) {
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
  CHECK(!takes("pool.kv_format", "f32|f16"));
  CHECK(!takes("pool.kv_format", ""));
  CHECK(takes("pool.kv_format", "bf16"));
  CHECK(!takes("pool.kv_format", "fp16"));
  CHECK(takes("model.weights", "int8"));
  CHECK(!takes("model.weights", "f16"));
}
