#include "server/formats/tenant_name.h"

#include <doctest/doctest.h>

#include <string>

namespace troupe::server {
namespace tenant_name_test {

TEST_CASE("tenant name: names in UTF-8 are accepted, other bytes and control characters are not") {
  for (const char* good : {"", "acme", "caf\xc3\xa9", "a b", "\xf0\x9f\x98\x80", "\xc2\xa0"})
    CHECK_FALSE(find_tenant_fault(good).has_value());
  for (const std::string& bad :
       {std::string("caf\xe9"), std::string("a\tb"), std::string("a\nb"), std::string("a\0b", 3),
        std::string("\x7f"), std::string("\xc2\x85"), std::string("\xed\xa0\x80"), std::string("\xc0\xaf"),
        std::string("\xf0\x9f\x98")}) {
    REQUIRE(find_tenant_fault(bad).has_value());
    CHECK(find_tenant_fault(bad)->code == "bad_tenant");
  }
}

}  // namespace tenant_name_test
}  // namespace troupe::server
