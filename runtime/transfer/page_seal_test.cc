#include "runtime/transfer/page_seal.h"

#include <doctest/doctest.h>

#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {
namespace page_seal_test {

std::span<const std::uint8_t> bytes(std::string_view text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

struct Sealed {
  Seal seal{};
  std::vector<std::uint8_t> text;
};
Sealed sealed(PageSealer& sealer, std::string_view beside, const std::vector<std::string_view>& parts) {
  std::vector<PageSealer::Part> spans;
  std::size_t total = 0;
  for (const auto& part : parts) {
    spans.push_back(bytes(part));
    total += part.size();
  }
  Sealed made;
  made.text.resize(total);
  made.seal = sealer.seal(bytes(beside), spans, made.text.data());
  return made;
}
std::string opened(PageOpener& opener, const Sealed& sealed, std::string_view beside) {
  std::string to(sealed.text.size(), '?');
  return opener.open(sealed.seal, bytes(beside), sealed.text, reinterpret_cast<std::uint8_t*>(to.data()))
             ? to
             : "not opened";
}

TEST_SUITE("page_seal") {
  TEST_CASE("page seal: parts sealed together open as one text, and are unreadable before") {
    const SealKeys keys = generate_seal_keys();
    PageSealer sealer(keys.replies, PageSealer::Nonces::counted);
    PageOpener opener(keys.replies);
    for (int i = 0; i < 3; ++i) {  // one cipher for all
      const Sealed made = sealed(sealer, "head", {"keys and values", "", " of a user"});
      CHECK(std::string(made.text.begin(), made.text.end()).find("user") == std::string::npos);
      CHECK(opened(opener, made, "head") == "keys and values of a user");
    }
    CHECK(opened(opener, sealed(sealer, "a refusal", {}), "a refusal").empty());
  }

  TEST_CASE("page seal: a changed bit, another head or another key does not open; later messages do") {
    const SealKeys keys = generate_seal_keys();
    PageSealer sealer(keys.requests, PageSealer::Nonces::drawn);
    PageOpener opener(keys.requests), other(keys.replies);
    const Sealed made = sealed(sealer, "head", {"page 7"});
    for (std::size_t at = 0; at < made.seal.size() + made.text.size(); ++at) {
      Sealed damaged = made;
      (at < made.seal.size() ? damaged.seal[at] : damaged.text[at - made.seal.size()]) ^= 4;
      CHECK(opened(opener, damaged, "head") == "not opened");
    }
    CHECK(opened(opener, made, "Head") == "not opened");
    CHECK(opened(opener, made, "") == "not opened");
    CHECK(opened(other, made, "head") == "not opened");
    Sealed shorter = made;
    shorter.text.pop_back();
    CHECK(opened(opener, shorter, "head") == "not opened");
    CHECK(opened(opener, made, "head") == "page 7");
  }

  TEST_CASE("page seal: nonces never repeat, and processes have different keys") {
    const SealKeys keys = generate_seal_keys();
    for (const auto nonces : {PageSealer::Nonces::counted, PageSealer::Nonces::drawn}) {
      std::set<std::vector<std::uint8_t>> seen;
      PageSealer first(keys.requests, nonces);
      for (int i = 0; i < 1'000; ++i) {
        const Seal seal = sealed(first, "", {"the same"}).seal;
        seen.emplace(seal.begin(), seal.begin() + seal_nonce_bytes);
      }
      CHECK(seen.size() == 1'000);
      if (nonces == PageSealer::Nonces::counted) continue;
      PageSealer second(keys.requests, nonces);  // of another process
      const Seal seal = sealed(second, "", {"the same"}).seal;
      CHECK(seen.emplace(seal.begin(), seal.begin() + seal_nonce_bytes).second);
    }
    CHECK_FALSE(keys == generate_seal_keys());
    CHECK_FALSE(keys.requests == keys.replies);
  }
}

}  // namespace page_seal_test
}  // namespace troupe
