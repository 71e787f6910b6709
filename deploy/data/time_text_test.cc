#include "deploy/data/time_text.h"

#include <doctest/doctest.h>

using namespace troupe;
using namespace troupe::deploy;

namespace time_text_test {
namespace {

std::string read(std::string_view written, TimeForm form) {
  const auto time = read_time(written, form, "timestamp");
  if (const auto* refusal = std::get_if<Refusal>(&time))
    return refusal->code + ": " + refusal->what + "; expected " + refusal->expected;
  return std::to_string(std::get<WrittenTime>(time).seconds);
}

std::uint32_t nanoseconds(std::string_view written, TimeForm form) {
  return std::get<WrittenTime>(read_time(written, form, "timestamp")).nanoseconds;
}

}  // namespace

TEST_SUITE("time text") {
  TEST_CASE("time text: units are divided into whole seconds, and fractions are cut off") {
    CHECK(read("1588687728", TimeForm::whole_seconds) == "1588687728");
    CHECK(read("1588687728.923", TimeForm::seconds) == "1588687728");
    CHECK(read("1588687728923", TimeForm::milliseconds) == "1588687728");
    CHECK(read("1588687728923.7", TimeForm::milliseconds) == "1588687728");
    CHECK(read("1588687728923456", TimeForm::microseconds) == "1588687728");
    CHECK(read("1588687728923456789", TimeForm::nanoseconds) == "1588687728");
    CHECK(read("0", TimeForm::nanoseconds) == "0");
  }

  TEST_CASE("time text: numbers that are no times of this unit are refused") {
    CHECK(read("1588687728923", TimeForm::whole_seconds)
              .starts_with("bad_timestamp: timestamp is 1588687728923, which looks like milliseconds"));
    CHECK(read("1588687728923", TimeForm::seconds).find("looks like milliseconds") != std::string::npos);
    CHECK(
        read("1588687728923456", TimeForm::milliseconds) ==
        "bad_timestamp: timestamp is 1588687728923456; expected milliseconds since 1970, a number from 0 to "
        "1099511627776000");
    for (const TimeForm form : {TimeForm::whole_seconds, TimeForm::seconds, TimeForm::nanoseconds})
      for (const char* written : {"", "-1", "1.", ".5", "1.5.5", "1e9", " 1", "1 ", "+1", "01", "x", "0x10",
                                  "99999999999999999999"})
        CHECK_MESSAGE(read(written, form).find("expected") != std::string::npos, written);
    CHECK(read("1588687728.9", TimeForm::whole_seconds).find("expected") != std::string::npos);
    CHECK(read("2018-05-03 13:22:08", TimeForm::milliseconds) ==
          "bad_timestamp: timestamp is 2018-05-03 13:22:08; expected seconds since 1970, or :iso behind the "
          "column's name");
  }

  TEST_CASE("time text: what is below a second is known, for the order of events") {
    CHECK(nanoseconds("1588687728", TimeForm::whole_seconds) == 0);
    CHECK(nanoseconds("1588687728.923", TimeForm::seconds) == 923'000'000);
    CHECK(nanoseconds("1588687728923", TimeForm::milliseconds) == 923'000'000);
    CHECK(nanoseconds("1588687728923.75", TimeForm::milliseconds) == 923'750'000);
    CHECK(nanoseconds("1588687728923456", TimeForm::microseconds) == 923'456'000);
    CHECK(nanoseconds("1588687728923456789.9", TimeForm::nanoseconds) == 923'456'789);
    CHECK(nanoseconds("2018-05-03T13:22:08.5+02:00", TimeForm::iso) == 500'000'000);
    CHECK(nanoseconds("2018-05-03T13:22:08.1234567899Z", TimeForm::iso) == 123'456'789);
  }

  TEST_CASE("time text: refusals show the number as it is written, and the unit") {
    CHECK(read(".5", TimeForm::seconds) ==
          "bad_timestamp: timestamp is .5; expected seconds since 1970, a number from 0 on");
    CHECK(read("-0.5", TimeForm::seconds) ==
          "bad_timestamp: timestamp is -0.5; expected seconds since 1970, a number from 0 on");
    CHECK(
        read("99999999999999999999", TimeForm::milliseconds) ==
        "bad_timestamp: timestamp is 99999999999999999999; expected milliseconds since 1970, a number from 0 "
        "on");
  }

  TEST_CASE("time text: ISO 8601 with offsets, without one it is UTC") {
    for (const char* written :
         {"2018-05-03T13:22:08Z", "2018-05-03 13:22:08", "2018-05-03T13:22:08.999Z",
          "2018-05-03T15:22:08+02:00", "2018-05-03T15:22:08+0200", "2018-05-03T15:22:08+02",
          "2018-05-03T11:52:08-01:30", "2018-05-03T13:22:08,5", "2018-05-04T01:22:08+12"})
      CHECK_MESSAGE(read(written, TimeForm::iso) == "1525353728", written);
    CHECK(read("2018-05-03", TimeForm::iso) == "1525305600");
    CHECK(read("2018-05-03T13:22", TimeForm::iso) == "1525353720");
    CHECK(read("2020-02-29", TimeForm::iso) == "1582934400");
    CHECK(read("1970-01-01T00:00:00Z", TimeForm::iso) == "0");
    CHECK(read("2016-12-31T23:59:60Z", TimeForm::iso) == "1483228800");  // a leap second
  }

  TEST_CASE("time text: dates that do not exist, and other ways to write times, are refused") {
    for (const char* written : {"",
                                "2019-02-29",
                                "2018-13-01",
                                "2018-00-01",
                                "2018-04-31",
                                "2018-5-3",
                                "03.05.2018",
                                "2018-05-03T",
                                "2018-05-03T24:00",
                                "2018-05-03T13:60",
                                "2018-05-03T13:22:61",
                                "2018-05-03T13:22:08.",
                                "2018-05-03T13:22:08+",
                                "2018-05-03T13:22:08+2",
                                "2018-05-03T13:22:08 UTC",
                                "2018-05-03X13:22:08",
                                "2018-05-03Z",
                                "1525353728",
                                "20180503",
                                "2018-05-03T13:22.5",
                                "2018-05-03T13.5"})
      CHECK_MESSAGE(read(written, TimeForm::iso).find("expected a time of ISO 8601") != std::string::npos,
                    written);
    CHECK(read("1969-12-31T23:59:59Z", TimeForm::iso).find("expected a time from 1970") != std::string::npos);
    CHECK(read("1970-01-01T00:00:00+01:00", TimeForm::iso).find("expected a time from 1970") !=
          std::string::npos);
  }

  TEST_CASE("time text: what is shown reads back") {
    for (const std::int64_t seconds : {0LL, 1'525'353'728LL, 1'582'934'400LL, 4'102'444'799LL})
      CHECK(read(iso_text(seconds), TimeForm::iso) == std::to_string(seconds));
    CHECK(iso_text(1'525'353'728) == "2018-05-03T13:22:08Z");
  }

  TEST_CASE("time text: forms have names") {
    CHECK(time_form("ms") == TimeForm::milliseconds);
    CHECK(time_form("iso") == TimeForm::iso);
    CHECK_FALSE(time_form(""));
    CHECK_FALSE(time_form("sec"));
  }
}

}  // namespace time_text_test
