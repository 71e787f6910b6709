#include "runtime/network/certificates.h"

#include <doctest/doctest.h>

#include <ctime>
#include <stdexcept>

namespace troupe {
namespace certificates_test {

constexpr std::int64_t day_s = 86'400;

TEST_CASE("certificates: the validity is that of the certificate; of a chain, the first to expire counts") {
  const Certificate authority = make_authority("shop", 30);
  const Certificate node = make_certificate(authority, "node-1", 5);
  const std::int64_t now_s = std::time(nullptr);
  const auto days_left = [&](const std::string& pem) {
    return (validity_of(pem).until_s - now_s + day_s / 2) / day_s;
  };
  CHECK(days_left(authority.certificate) == 30);
  CHECK(days_left(node.certificate) == 5);
  CHECK(days_left(authority.certificate + node.certificate) == 5);
  CHECK(days_left(node.certificate + authority.certificate) == 5);
  CHECK(validity_of(node.certificate).from_s < now_s);  // for clocks that differ
  CHECK_THROWS_AS(validity_of("nonsense"), std::runtime_error);
  CHECK_THROWS_AS(validity_of(node.key), std::runtime_error);
  CHECK_NOTHROW(validity_of(node.certificate));  // earlier errors leave nothing behind
}

}  // namespace certificates_test
}  // namespace troupe
