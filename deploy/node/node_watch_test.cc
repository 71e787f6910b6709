#include "deploy/node/node_watch.h"

#include <doctest/doctest.h>

#include <filesystem>

#include "kernels/testing/test_folder.h"
#include "runtime/actor/metrics.h"

namespace troupe::deploy {
namespace node_watch_test {

constexpr std::int64_t day = 86'400;
constexpr std::uint64_t gib = std::uint64_t{1} << 30;

struct Bench {
  MetricRegistry metrics;
  std::vector<std::string> lines;
  NodeWatch watch;

  explicit Bench(std::vector<WatchedFolder> folders = {})
      : watch(std::move(folders), metrics,
              [this](LogLevel, std::string_view, std::string_view event, std::span<const LogField>) {
                lines.emplace_back(event);
              }) {}
};
using Lines = std::vector<std::string>;

TEST_SUITE("node watch") {
  TEST_CASE("node watch: a disk fills when less than a tenth and less than 50 GiB are free") {
    CHECK(describe_fill("/d", {100 * gib, 10 * gib}) == "");
    CHECK(describe_fill("/d", {100 * gib, 9 * gib}) == "the disk of /d fills: 9.0 GiB of 100.0 GiB are free");
    CHECK(describe_fill("/d", {10'000 * gib, 60 * gib}) == "");
    CHECK(describe_fill("/d", {10'000 * gib, 49 * gib}) != "");
    CHECK(describe_fill("/d", {gib, 0}) != "");
  }

  TEST_CASE(
      "node watch: a certificate has to be renewed in the last 14 days, or the last fifth of its life") {
    const auto left = [](std::int64_t life, std::int64_t left) {
      return describe_expiry("node", {0, life}, life - left);
    };
    CHECK(left(825 * day, 14 * day) == "");
    CHECK(left(825 * day, 13 * day).find("in 13 days") != std::string::npos);
    CHECK(left(day, day / 5) == "");
    CHECK(left(day, day / 5 - 60).find("in 4 hours") != std::string::npos);
    CHECK(left(825 * day, 0).starts_with("the certificate of node expired at 1972-04-05"));
    CHECK(left(825 * day, -day).find("expired") != std::string::npos);
  }

  TEST_CASE("node watch: metrics tell the space of the folders that exist") {
    const kernels::TestFolder folder;
    Bench b({{"data", folder.path()}, {"log", folder.path() / "none"}, {"log", ""}});
    b.watch.look(0);
    const auto space = disk_space(folder.path());
    REQUIRE(space);
    CHECK(space->free_bytes <= space->bytes);
    CHECK(b.metrics.value(Metric::disk_bytes, "data") == static_cast<double>(space->bytes));
    CHECK(b.metrics.value(Metric::disk_bytes, "log") > 0);  // "" is the current folder
    CHECK_FALSE(disk_space(folder.path() / "none"));
  }

  TEST_CASE("node watch: a certificate is told of once a day, and when it is renewed") {
    Bench b;
    b.watch.set("http", {0, 100 * day});
    b.watch.look(50 * day);
    CHECK(b.watch.degraded().empty());
    CHECK(b.metrics.value(Metric::certificate_expires, "http") == 50 * day);
    CHECK(b.metrics.value(Metric::certificate_lifetime, "http") == 100 * day);
    for (std::int64_t now = 90 * day; now < 92 * day; now += 10) b.watch.look(now);
    CHECK(b.lines == Lines{"certificate_expires", "certificate_expires"});
    REQUIRE(b.watch.degraded().size() == 1);
    CHECK(b.watch.degraded()[0].starts_with("the certificate of http expires at "));
    b.watch.set("http", {90 * day, 190 * day});
    for (int i = 0; i < 3; ++i) b.watch.look(92 * day);
    CHECK(b.lines == Lines{"certificate_expires", "certificate_expires", "certificate_renewed"});
    CHECK(b.watch.degraded().empty());
    b.watch.set("http", {0, 90 * day});
    b.watch.look(92 * day);
    CHECK(b.metrics.value(Metric::certificate_expires, "http") == -2 * day);
    CHECK(b.watch.degraded().size() == 1);
  }

  TEST_CASE("node watch: something around its limit does not flood the log") {
    Bench b;
    std::int64_t now = 90 * day;
    for (int i = 0; i < 60; ++i, now += 10) {
      b.watch.set("node", {0, i % 2 == 0 ? 95 * day : 200 * day});
      b.watch.look(now);
    }
    CHECK(b.lines == Lines{"certificate_expires", "certificate_renewed"});
    b.watch.set("node", {0, 95 * day});
    b.watch.look(now);
    CHECK(b.lines.size() == 3);
  }

  TEST_CASE("node watch: it looks at its start, and stops at once") {
    Bench b;
    b.watch.set("http", {0, 1});
    b.watch.start();
    CHECK(b.watch.degraded().size() == 1);
    b.watch.stop();
    b.watch.stop();
  }
}

}  // namespace node_watch_test
}  // namespace troupe::deploy
