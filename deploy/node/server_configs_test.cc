#include "deploy/node/server_configs.h"

#include <doctest/doctest.h>

using namespace troupe;
using namespace troupe::deploy;

TEST_CASE("server configs: model.name has names separated by commas, and a wrong one is refused") {
  CHECK(model_names("").empty());
  CHECK(model_names("Qwen/Qwen3-Reranker-0.6B") == std::vector<std::string>{"Qwen/Qwen3-Reranker-0.6B"});
  CHECK(model_names("a/b, c") == std::vector<std::string>{"a/b", "c"});
  for (const char* wrong : {",", "a,", "a,,b", "a b", "a,a", "a\"b", "\x01"})
    CHECK_THROWS_WITH_AS(model_names(wrong), doctest::Contains("model.name has \""), ConfigError);
  CHECK_THROWS_AS(model_names(std::string(257, 'a')), ConfigError);
}
