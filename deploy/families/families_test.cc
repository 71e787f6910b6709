#include "deploy/families/families.h"

#include <doctest/doctest.h>

#include "kernels/base/test_folder.h"

using namespace troupe;
using namespace troupe::deploy;

namespace {

std::string error_of(const std::string& config) {
  const kernels::TestFolder folder;
  folder.write("config.json", config);
  return kernels::load_error_of([&] { family_of(all_families(), folder.path()); });
}

}  // namespace

TEST_SUITE("families") {
  TEST_CASE("a model's family is that of its model_type; one without, or of another, is refused with the known ones") {
    CHECK(error_of(R"({"model_type":"llama"})").empty());
    for (const char* config : {R"({})", R"({"model_type":"bert"})"}) {
      const std::string error = error_of(config);
      CHECK(error.find("model_type") != std::string::npos);
      CHECK(error.find("expected one of \"qwen2\", ") != std::string::npos);
    }
  }
}
