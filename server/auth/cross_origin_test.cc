#include "server/auth/cross_origin.h"

#include <doctest/doctest.h>

using namespace troupe;
using namespace troupe::server;

namespace cross_origin_test {

std::string code_of(const std::optional<Refusal>& refusal) { return refusal ? refusal->code : ""; }

std::string host_fault(const std::string& host, const std::string& list, bool loopback) {
  return code_of(reject_if_unknown_host(host, ServedHosts::parse(list, loopback)));
}

std::string origin_fault(const std::string& method, const BrowserHeaders& headers,
                         const std::string& list = "") {
  return code_of(reject_if_foreign_origin(method, headers, ServedHosts::parse(list, true)));
}

std::string list_fault(const std::string& list) {
  try {
    ServedHosts::parse(list, true);
    return "";
  } catch (const HostsError& error) {
    return error.what();
  }
}

TEST_SUITE("cross origin") {
  TEST_CASE("hosts: on loopback only names that no other machine's DNS answers for are served") {
    for (const char* host : {"", "localhost", "localhost:8080", "LOCALHOST.", "shop.localhost:1", "127.0.0.1",
                             "127.9.9.9:8080", "[::1]", "[::1]:8080", "192.168.1.5:80", "[fd00::5]"})
      CHECK_MESSAGE(host_fault(host, "", true) == "", host);
    for (const char* host :
         {"evil.example", "evil.example:8080", "x", "localhost.evil.example", "127.0.0.1.evil.example",
          "evil-localhost", "[::1].evil.example", "[evil]", "127.0.0.1@evil.example", "[::1", "a:b:c"})
      CHECK_MESSAGE(host_fault(host, "", true) == "unknown_host", host);
  }

  TEST_CASE("hosts: a server that other machines reach serves any name unless there is a list") {
    CHECK(host_fault("shop.example", "", false) == "");
    for (const bool loopback : {false, true}) {
      const std::string list = " Shop.example , shop.internal:8080";
      CHECK(host_fault("shop.example", list, loopback) == "");
      CHECK(host_fault("SHOP.EXAMPLE.:443", list, loopback) == "");
      CHECK(host_fault("shop.internal:8080", list, loopback) == "");
      CHECK(host_fault("shop.internal", list, loopback) == "unknown_host");
      CHECK(host_fault("other.example", list, loopback) == "unknown_host");
      CHECK(host_fault("10.0.0.1:8080", list, loopback) == "");
    }
  }

  TEST_CASE("hosts: a malformed list is refused") {
    CHECK(list_fault("") == "");
    CHECK(list_fault("a.example, [::1]:80,10.0.0.1,") == "");
    for (const char* list : {",", "http://a.example", "a b", "a:port", "a:", "*", "a,,b", "[::1", "a:123456"})
      CHECK_MESSAGE(list_fault(list).starts_with("http.hosts has \""), list);
  }

  TEST_CASE("origins: a write that a browser sends for another site is refused") {
    for (const char* method : {"POST", "PUT", "DELETE", "PATCH", "post", ""}) {
      CAPTURE(method);
      CHECK(origin_fault(method, {"localhost:8080", "http://evil.example", ""}) == "foreign_origin");
      CHECK(origin_fault(method, {"localhost:8080", "null", ""}) == "foreign_origin");
      CHECK(origin_fault(method, {"localhost:8080", "http://localhost:3000", ""}) == "foreign_origin");
      CHECK(origin_fault(method, {"localhost:8080", "http://localhost", ""}) == "foreign_origin");
      CHECK(origin_fault(method, {"localhost:8080", "ftp://localhost:8080", ""}) == "foreign_origin");
      CHECK(origin_fault(method, {"", "http://", ""}) == "foreign_origin");
      CHECK(origin_fault(method, {"localhost:8080", "", "cross-site"}) == "foreign_origin");
      CHECK(origin_fault(method, {"localhost:8080", "", "same-site"}) == "foreign_origin");
      CHECK(origin_fault(method, {"localhost:8080", "http://localhost:8080", "Cross-Site"}) ==
            "foreign_origin");
    }
  }

  TEST_CASE("origins: own pages, other clients, reads and listed sites are served") {
    CHECK(origin_fault("POST", {"localhost:8080", "", ""}) == "");
    CHECK(origin_fault("POST", {"localhost:8080", "http://LOCALHOST:8080", ""}) == "");
    CHECK(origin_fault("POST", {"shop.example", "https://shop.example", "same-origin"}) == "");
    CHECK(origin_fault("POST", {"inner:1", "https://shop.example", "same-origin"}) == "");
    CHECK(origin_fault("POST", {"localhost:8080", "", "none"}) == "");
    for (const char* method : {"GET", "HEAD", "OPTIONS"})
      CHECK(origin_fault(method, {"localhost:8080", "http://evil.example", "cross-site"}) == "");
    const BrowserHeaders shop{"inner:1", "https://shop.example", "cross-site"};
    CHECK(origin_fault("POST", shop, "shop.example") == "");
    CHECK(origin_fault("POST", shop, "shop.example:8443") == "foreign_origin");
    CHECK(origin_fault("POST", {"inner:1", "https://shop.example:8443", ""}, "shop.example") ==
          "foreign_origin");
  }

  TEST_CASE("origins: a browser's write has no type that a form may have") {
    const BrowserHeaders own{"localhost", "http://localhost", "same-origin"}, none{"localhost", "", ""};
    for (const char* type : {"text/plain", "Text/Plain;charset=UTF-8", "application/x-www-form-urlencoded",
                             " multipart/form-data; boundary=x"}) {
      CAPTURE(type);
      CHECK(code_of(reject_if_form_body("POST", type, own)) == "form_body");
      CHECK(code_of(reject_if_form_body("POST", type, none)) == "");
      CHECK(code_of(reject_if_form_body("GET", type, own)) == "");
    }
    for (const char* type : {"", "application/json", "application/x-ndjson; charset=utf-8"})
      CHECK(code_of(reject_if_form_body("PUT", type, own)) == "");
  }
}

}  // namespace cross_origin_test
