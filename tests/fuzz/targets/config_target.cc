// Parses a single node's configuration. Accepted values are within the settings' ranges; an error names
// its place.
#include "runtime/config/config.h"
#include "tests/fuzz/targets/target.h"

namespace troupe::fuzz {
namespace {

void run(Input input) {
  try {
    const Config config = read_config(std::string(text_of(input)), "config.yaml");
    TROUPE_CHECK(config.pool.page_tokens >= 1 && config.pool.page_tokens <= 256, "out of range");
    TROUPE_CHECK(config.cluster.heartbeat.us > 0, "out of range");
  } catch (const ConfigError& error) {
    const std::string_view words = error.what();
    TROUPE_CHECK(words.starts_with("config.yaml") && words.find("; expected ") != words.npos,
                 "no place, or no word");
    check_words(words, 8'192);
  }
}

std::vector<std::string> seeds() {
  return {"pool:\n  memory: 1GB\n  page_tokens: 16\n  verify_on_read: true\n  placement: \"hash\"\n",
          "router: {policy: planner, candidates_max: 100}\nhttp: {port: 8080, timeout: 10s}\n",
          "# nothing\n",
          "node: &a {data_dir: x}\ninference: *a\n",
          "a: b\n---\nc: d\n",
          "pool:\n  memory: 1TB\n  memory: 2GB\n"};
}

}  // namespace

const Target config_target{"config", run, seeds};

}  // namespace troupe::fuzz
