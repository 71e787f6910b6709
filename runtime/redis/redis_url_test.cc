#include "runtime/redis/redis_url.h"

#include <doctest/doctest.h>

#include "runtime/config/config.h"

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

TEST_CASE("redis url: only the host is required") {
  CHECK(parse_redis_url("redis://shop") == RedisAddress{"shop", 6379, "", "", 0});
  CHECK(parse_redis_url("redis://shop/") == RedisAddress{"shop", 6379, "", "", 0});
  CHECK(parse_redis_url("redis://10.0.0.7:7000/12") == RedisAddress{"10.0.0.7", 7000, "", "", 12});
  CHECK(parse_redis_url("redis://[::1]:7000") == RedisAddress{"::1", 7000, "", "", 0});
  CHECK(describe(parse_redis_url("redis://u:secret@[::1]:7000/3")) == "redis://[::1]:7000/3");
}

TEST_CASE("redis url: rediss means TLS") {
  RedisAddress secure{"shop", 6379, "", "", 0};
  CHECK(parse_redis_url("redis://shop") == secure);
  secure.tls = true;
  CHECK(parse_redis_url("rediss://shop") == secure);
  CHECK(describe(secure) == "rediss://shop:6379/0");
}

TEST_CASE("redis url: a login is a password with or without a user, of any bytes") {
  CHECK(parse_redis_url("redis://:pass@shop") == RedisAddress{"shop", 6379, "", "pass", 0});
  CHECK(parse_redis_url("redis://ann:p%40%3a%2f@shop/1") == RedisAddress{"shop", 6379, "ann", "p@:/", 1});
  CHECK(parse_redis_url("redis://ann:p@ss@shop") == RedisAddress{"shop", 6379, "ann", "p@ss", 0});
}

TEST_CASE("redis url: an error names the fault and what was expected") {
  CHECK(fault("http://shop") ==
        "redis://…: another scheme; expected redis://[[user]:password@]host[:port][/database]");
  CHECK(fault("redis://shop:70000") ==
        "redis://…: a port that is invalid; expected 1..65535, and an @ after a password");
  for (const char* url : {"redis://shop:", "redis://shop:7x", "redis://shop:0"})
    CHECK(fault(url).find("a port that is invalid") != std::string::npos);
  CHECK(fault("redis://shop/one") ==
        "redis://…: a database that is invalid; expected 0..1000000, and an @ after a password");
  CHECK(fault("redis://") != "");
  CHECK(fault("redis://:7000").find("no host") != std::string::npos);
  CHECK(fault("redis://[::1").find("without a ]") != std::string::npos);
  CHECK(fault("redis://[::1]x").find("after the ]") != std::string::npos);
  CHECK(fault("redis://a b").find("blank") != std::string::npos);
  CHECK(fault("redis://ann@shop").find("without a password") != std::string::npos);
}

TEST_CASE("redis url: an error is one line, whatever the address contains") {
  for (const char* url :
       {"redis://a:6\n\x1b", "redis://a/6\n\x1b", "redis://a\n\x1b", "redis://a:\n\x1b@b:x"}) {
    CHECK(fault(url) != "");
    CHECK(fault(url).find_first_of("\n\x1b") == std::string::npos);
  }
}

TEST_CASE("redis url: no error reveals the password") {
  for (const char* url : {"redis://ann:secret%@shop", "redis://ann:secret@shop:x", "redis://ann:secret@",
                          "rediss://ann:secret@shop:x", "x://ann:secret@shop", "redis://ann:secret@shop/x",
                          "redis://ann:secret", "redis://:secret", "redis://ann:secret/0",
                          "redis://shop/secret", "redis://ann:se/secret", "redis://[::1]secret",
                          "redis://[secret", "redis://se cret", "redis://secret@"}) {
    CHECK(fault(url) != "");
    CHECK(fault(url).find("secret") == std::string::npos);
  }
}
