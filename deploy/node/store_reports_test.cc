#include "deploy/node/store_reports.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>

#include "runtime/store/store_rows.h"
#include "runtime/testing/store_test_folder.h"

using namespace troupe;
using namespace troupe::deploy;
namespace fs = std::filesystem;

namespace {

// Store whose process was killed and whose write-ahead log is lost.
struct LostLog {
  TestFolder live, folder;

  LostLog() {
    Store store(live.path());
    for (std::uint64_t version = 1; version <= 3; ++version) {
      const Change counter{Column::meta, "profiles", encode_counter(version, "profiles")};
      REQUIRE_FALSE(store.mark().reserve(VersionKind::profiles, version));
      REQUIRE_FALSE(store.write({&counter, 1}, Durability::synced));
      store.mark().acknowledge(VersionKind::profiles, version);
    }
    fs::copy(live.path(), folder.path(), fs::copy_options::recursive);
    fs::remove(folder.newest("rocksdb", ".log"));
  }
};

}  // namespace

TEST_SUITE("store reports") {
  TEST_CASE_FIXTURE(
      LostLog, "what was lost at the opening is said at once, with its versions, and where the rest lies") {
    Store store(folder.path(), {.on_damage = OnDamage::start});
    std::multimap<std::string, std::map<std::string, std::string>> said;
    MetricRegistry metrics;
    report_store_health(
        [&](LogLevel, std::string_view, std::string_view event, std::span<const LogField> fields) {
          auto& line = said.emplace(event, std::map<std::string, std::string>{})->second;
          for (const LogField& field : fields) line[std::string(field.name)] = field.value;
        },
        &metrics, store);
    REQUIRE(said.count("store_lost") == 1);
    const auto& lost = said.find("store_lost")->second;
    CHECK(lost.at("of") == "users");
    CHECK(lost.at("first_version") == "1");
    CHECK(lost.at("last_version") == "3");
    CHECK(said.count("store_damaged") >= 1);
    CHECK(said.count("store_set_aside") == 1);
    CHECK(said.count("store_lost_more") == 0);

    std::vector<StatusField> fields;
    add_health(store.health(), fields);
    const auto losses = std::ranges::find(fields, "store_losses", &StatusField::name);
    REQUIRE(losses != fields.end());
    CHECK(losses->value == "1");
  }

  TEST_CASE("store reports: an undamaged store reports nothing, and needs no log or metrics") {
    const TestFolder folder;
    Store store(folder.path());
    report_store_health({}, nullptr, store);
    std::vector<StatusField> fields;
    add_health(store.health(), fields);
    CHECK(fields.empty());
  }
}
