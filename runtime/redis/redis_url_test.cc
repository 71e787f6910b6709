#include "runtime/redis/redis_url.h"

#include <doctest/doctest.h>

#include "runtime/settings/config.h"

using namespace troupe;

namespace {

std::string fault(std::string_view url) {
  try {
    parse_redis_url(url);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("an address has a host; the rest has defaults") {
  CHECK(parse_redis_url("redis://shop") == RedisAddress{"shop", 6379, "", "", 0});
  CHECK(parse_redis_url("redis://shop/") == RedisAddress{"shop", 6379, "", "", 0});
  CHECK(parse_redis_url("redis://10.0.0.7:7000/12") == RedisAddress{"10.0.0.7", 7000, "", "", 12});
  CHECK(parse_redis_url("redis://[::1]:7000") == RedisAddress{"::1", 7000, "", "", 0});
  CHECK(describe(parse_redis_url("redis://u:secret@[::1]:7000/3")) == "redis://[::1]:7000/3");
}

TEST_CASE("a login is a password with or without a user, in which anything may stand") {
  CHECK(parse_redis_url("redis://:pass@shop") == RedisAddress{"shop", 6379, "", "pass", 0});
  CHECK(parse_redis_url("redis://ann:p%40%3a%2f@shop/1") == RedisAddress{"shop", 6379, "ann", "p@:/", 1});
  CHECK(parse_redis_url("redis://ann:p@ss@shop") == RedisAddress{"shop", 6379, "ann", "p@ss", 0});
}

TEST_CASE("what is wrong is named, and what was expected") {
  CHECK(fault("http://shop") ==
        "redis://…: another scheme; expected redis://[[user]:password@]host[:port][/database]");
  CHECK(fault("rediss://shop").find("TLS") != std::string::npos);
  CHECK(fault("redis://shop:70000") == "redis://…: port \"70000\"; expected 1..65535");
  CHECK(fault("redis://shop:").find("port \"\"") != std::string::npos);
  CHECK(fault("redis://shop:7x").find("port \"7x\"") != std::string::npos);
  CHECK(fault("redis://shop/one") == "redis://…: database \"one\"; expected 0..1000000");
  CHECK(fault("redis://") != "");
  CHECK(fault("redis://:7000").find("no host") != std::string::npos);
  CHECK(fault("redis://[::1").find("without a ]") != std::string::npos);
  CHECK(fault("redis://[::1]x").find("after the ]") != std::string::npos);
  CHECK(fault("redis://a b").find("blank") != std::string::npos);
  CHECK(fault("redis://ann@shop").find("without a password") != std::string::npos);
}

TEST_CASE("a fault is one line, whatever the address holds") {
  CHECK_THROWS_WITH_AS(parse_redis_url("redis://a:6\n\x1b"), doctest::Contains("port \"6??\""), ConfigError);
}

TEST_CASE("no fault tells the password") {
  for (const char* url : {"redis://ann:secret%@shop", "redis://ann:secret@shop:x", "redis://ann:secret@",
                          "rediss://ann:secret@shop", "x://ann:secret@shop", "redis://ann:secret@shop/x"}) {
    CHECK(fault(url) != "");
    CHECK(fault(url).find("secret") == std::string::npos);
  }
}
