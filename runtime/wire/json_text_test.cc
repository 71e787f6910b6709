#include "runtime/wire/json_text.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <random>

using namespace troupe;

namespace {

std::string as_json(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

const std::string replaced = "\xef\xbf\xbd";

}  // namespace

TEST_CASE("JSON text: quotes, backslashes and control characters are escaped") {
  CHECK(as_json("a\"b\\c") == R"("a\"b\\c")");
  CHECK(as_json(std::string_view("\0\x1f\x7f\n\r\t", 6)) == R"("\u0000\u001f\u007f\n\r\t")");
  CHECK(as_json("é€😀") == "\"é€😀\"");
}

TEST_CASE("JSON text: each byte that is not UTF-8 is replaced, and later text is kept") {
  CHECK(as_json("a\xff"
                "b") == "\"a" + replaced + "b\"");
  CHECK(as_json("\xe2\x82") == "\"" + replaced + replaced + "\"");                 // truncated
  CHECK(as_json("\xc0\x80") == "\"" + replaced + replaced + "\"");                 // overlong
  CHECK(as_json("\xed\xa0\x80") == "\"" + replaced + replaced + replaced + "\"");  // surrogate
  CHECK(as_json("\xf4\x90\x80\x80").size() == 2 + 4 * 3);                          // above U+10FFFF
  CHECK(as_json("\xc3\"") == "\"" + replaced + "\\\"\"");
}

TEST_CASE("JSON text: any bytes become a JSON string") {
  const std::uint64_t seed = 5;
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 2000; ++round) {
    std::string text(random() % 12, ' ');
    for (char& c : text) c = static_cast<char>(random() % 3 ? 0x80 + random() % 0x80 : random());
    CHECK(nlohmann::json::accept(as_json(text)));
  }
}

TEST_CASE("JSON text: printable text has no control characters") {
  CHECK(printable("a\r\n\x1b[2J\x7f\tü") == "a???[2J??ü");
  CHECK(printable(std::string(1, '\0')) == "?");
}

TEST_CASE("JSON text: a terminal gets no control characters, no reordering and no other bytes") {
  CHECK(terminal_text("a\x1b[2J\x07\x7f\n\t\xc3\xbc") == "a\\u001b[2J\\u0007\\u007f\\u000a\\u0009\xc3\xbc");
  CHECK(terminal_text("\xc2\x9b"
                      "2J\xc2\xa0") == "\\u009b2J\xc2\xa0");  // C1 is a control sequence, too
  CHECK(terminal_text("\xe2\x80\xae"
                      "gpj\xe2\x81\xa6\xd8\x9c\xe2\x80\xa6") == "\\u202egpj\\u2066\\u061c\xe2\x80\xa6");
  CHECK(terminal_text("\xff\xc3") == "\\xff\\xc3");
  CHECK(terminal_text("a\nb\r", true) == "a\nb\\u000d");
  CHECK(terminal_text(std::string_view("\0", 1)) == "\\u0000");
}

TEST_CASE("JSON text: is_utf8 rejects overlong forms, surrogates and truncated characters") {
  CHECK(is_utf8(""));
  CHECK(is_utf8("aé€😀"));
  for (const char* bad : {"\xff", "a\x80", "\xe2\x82", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80"})
    CHECK_FALSE(is_utf8(bad));
}
