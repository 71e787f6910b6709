#include "runtime/config/units.h"

#include <doctest/doctest.h>

#include <string>

using namespace troupe;

TEST_SUITE("units") {
  TEST_CASE("units: a size with an i is a power of 1024, without it a power of 1000") {
    CHECK(parse_size("16GiB") == 16 * 0x1p30);
    CHECK(parse_size("16Gi") == 16 * 0x1p30);
    CHECK(parse_size("16GB") == 16e9);
    CHECK(parse_size("16G") == 16e9);
    CHECK(parse_size("512Mi") == 512 * 0x1p20);
    CHECK(parse_size("512 MB") == 512e6);
    CHECK(parse_size("1.5Ti") == 1.5 * 0x1p40);
    CHECK(parse_size("64kb") == 64e3);
    CHECK(parse_size("64Ki") == 64 * 0x1p10);
    CHECK(parse_size("7") == 7);
    CHECK(parse_size("7B") == 7);
    for (const char* text : {"", "GiB", "G", "1Gx", "1iB", "1GG", "-1G", "1 000MB", "1.2.3G", "nan", "inf",
                             "0x1M", "1G ", "1  G"})
      CHECK_MESSAGE(!parse_size(text), text);
  }

  TEST_CASE("units: the parts of a duration are added") {
    CHECK(parse_duration_us("250us") == 250);
    CHECK(parse_duration_us("250\u00b5s") == 250);
    CHECK(parse_duration_us("200ms") == 200e3);
    CHECK(parse_duration_us("1.5s") == 1.5e6);
    CHECK(parse_duration_us("5m") == 300e6);
    CHECK(parse_duration_us("5min") == 300e6);
    CHECK(parse_duration_us("1h30m") == 5400e6);
    CHECK(parse_duration_us("1h30min15s") == 5415e6);
    CHECK(parse_duration_us("2d") == 2 * 86400e6);
    CHECK(parse_duration_us("0s") == 0);
    for (const char* text : {"", "5", "s", "5M", "5 sec", "-5s", "1h30", "1hm", "1..5s", "5s ", "h1"})
      CHECK_MESSAGE(!parse_duration_us(text), text);
  }
}
