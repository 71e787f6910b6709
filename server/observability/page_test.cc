#include "server/observability/page.h"

#include <doctest/doctest.h>

#include <string>

using namespace troupe::server;

TEST_SUITE("live page") {
  TEST_CASE("live page: it is complete and small enough to be sent for every request") {
    CHECK(page_text().starts_with("<!doctype html>"));
    CHECK(page_text().ends_with("</html>\n"));
    CHECK(page_text().size() < 100'000);
  }

  TEST_CASE("live page: it writes outside text only as text, never as HTML or code") {
    for (const char* word :
         {"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "DOMParser", "eval(", "Function(",
          "setTimeout('", "setTimeout(\"", "srcdoc", "javascript:", ".href", "createContextualFragment"})
      CHECK_MESSAGE(page_text().find(word) == std::string_view::npos, word);
  }

  TEST_CASE("live page: it loads nothing from elsewhere and has no code in attributes") {
    for (const char* word : {"https:", "src=", "@import", "url(", " onclick", " onload", " style="})
      CHECK_MESSAGE(page_text().find(word) == std::string_view::npos, word);
    CHECK(page_text().find("http:") == page_text().find("http://www.w3.org/2000/svg"));
  }

  TEST_CASE("live page: the policy allows only its own hashes") {
    const std::string policy = page_security();
    CHECK(policy.starts_with("default-src 'none'; script-src 'sha256-"));
    CHECK(policy.find("unsafe") == std::string::npos);
    CHECK(policy.find("frame-ancestors 'none'") != std::string::npos);
    // printf 'a' | openssl dgst -sha256 -binary | base64
    CHECK(
        security_of("<style>a</style><script>a</script>")
            .find(
                "script-src 'sha256-ypeBEsobvcr6wjGzmiPcTaeG7/gUfE5yuYB3ha/uSLs='; style-src 'sha256-ypeB") !=
        std::string::npos);
  }
}
