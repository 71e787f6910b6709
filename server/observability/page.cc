// Computes the content security policy of the live status page: only the page's own script and
// style, named by their hashes, may run.
#include "server/observability/page.h"

#include <openssl/evp.h>

#include <array>

#include "kernels/base/check.h"

namespace troupe::server {

namespace {

// Returns the text between `<tag>` and `</tag>`, which is exactly what browsers hash.
std::string_view inside(std::string_view html, std::string_view tag) {
  const std::string open = "<" + std::string(tag) + ">", close = "</" + std::string(tag) + ">";
  const std::size_t begin = html.find(open) + open.size(), end = html.find(close, begin);
  TROUPE_CHECK(html.find(open) != html.npos && end != html.npos, "the page has one style and one script");
  TROUPE_CHECK(html.find(open, begin) == html.npos, "the page has one of each");
  return html.substr(begin, end - begin);
}

// "'sha256-…'"
std::string sum_of(std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> sum{};
  unsigned size = 0;
  TROUPE_CHECK(EVP_Digest(text.data(), text.size(), sum.data(), &size, EVP_sha256(), nullptr) == 1,
               "SHA-256 is available");
  std::array<unsigned char, 64> words{};
  const int letters = EVP_EncodeBlock(words.data(), sum.data(), static_cast<int>(size));
  return "'sha256-" + std::string(words.begin(), words.begin() + letters) + "'";
}

}  // namespace

std::string security_of(std::string_view html) {
  return "default-src 'none'; script-src " + sum_of(inside(html, "script")) + "; style-src " +
         sum_of(inside(html, "style")) +
         "; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
}

const std::string& page_security() {
  static const std::string policy = security_of(page_text());
  return policy;
}

}  // namespace troupe::server
