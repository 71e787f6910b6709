#include "server/observability/page.h"

#include <doctest/doctest.h>

#include <string>

using namespace troupe::server;

TEST_SUITE("the live page") {
  TEST_CASE("is whole, and small enough to be sent with every question for it") {
    CHECK(page_text().starts_with("<!doctype html>"));
    CHECK(page_text().ends_with("</html>\n"));
    CHECK(page_text().size() < 100'000);
  }

  TEST_CASE("writes what comes from outside as text: nothing in it makes HTML or code of a string") {
    for (const char* word :
         {"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "DOMParser", "eval(", "Function(",
          "setTimeout('", "setTimeout(\"", "srcdoc", "javascript:", ".href", "createContextualFragment"})
      CHECK_MESSAGE(page_text().find(word) == std::string_view::npos, word);
  }

  TEST_CASE("needs nothing from elsewhere, and has no code in attributes, which its policy would not run") {
    for (const char* word : {"https:", "src=", "@import", "url(", " onclick", " onload", " style="})
      CHECK_MESSAGE(page_text().find(word) == std::string_view::npos, word);
    CHECK(page_text().find("http:") == page_text().find("http://www.w3.org/2000/svg"));
  }

  TEST_CASE("is allowed by its sums alone") {
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
