#include "deploy/node/memory_needs.h"

#include <doctest/doctest.h>

#include "kernels/testing/test_folder.h"

namespace troupe::deploy {
namespace {

constexpr std::uint64_t mib = 1 << 20;

std::string fault(const MemoryNeeds& needs, const MemoryLimit& limit) {
  try {
    reject_if_too_large(needs, limit);
    return "";
  } catch (const ConfigError& error) {
    return error.what();
  }
}

TEST_CASE("memory needs: a pool that exceeds what is free of the cgroup's limit is refused by name") {
  const MemoryNeeds needs{
      .pool = 256 * mib, .passes = 128 * mib, .caches = 64 * mib, .requests = 8 * mib, .rest = 64 * mib};
  const std::string file = "/sys/fs/cgroup/memory.max";
  CHECK(fault(needs, {560 * mib, 40 * mib, file}) == "");
  CHECK(fault(needs, {560 * mib, 40 * mib + 1, file}) != "");
  CHECK(
      fault(needs, {512 * mib, 40 * mib, file}) ==
      "pool.memory is 256 MiB, beside 128 MiB of inference.memory_max, 64 MiB of features.cache_memory, 8 "
      "MiB of http.memory_max and 64 MiB for everything else; 472 MiB are free of the cgroup's memory limit "
      "of 512 MiB (/sys/fs/cgroup/memory.max) once the weights are read; expected pool.memory of at most "
      "208MiB, or a higher limit");
  MemoryNeeds advised = needs;
  advised.pool = 208 * mib;
  CHECK(fault(advised, {512 * mib, 40 * mib, file}) == "");
  CHECK(
      fault(needs, {200 * mib, 40 * mib, file}).ends_with("expected a higher limit, or less for the others"));
  CHECK(fault(needs, {200 * mib, 400 * mib, file}).find("0 MiB are free") != std::string::npos);
}

TEST_CASE("memory needs: weights that exceed what is free of the limit are refused before they are read") {
  const kernels::TestFolder folder;
  folder.write("model-00001-of-00002.safetensors", std::string(2 * mib, 'x'));
  folder.write("model-00002-of-00002.safetensors", std::string(mib, 'x'));
  folder.write("notes.txt", std::string(4 * mib, 'x'));
  std::vector<NamedModel> models{{"", {}}};
  models[0].config.set("model.directory", folder.path().string());
  const auto said = [&](const MemoryLimit& limit) -> std::string {
    try {
      reject_if_weights_too_large(models, limit);
      return "";
    } catch (const ConfigError& error) {
      return error.what();
    }
  };
  CHECK(said({4 * mib, mib, "/x/memory.max"}) == "");
  CHECK(said({4 * mib, mib + 1, "/x/memory.max"}) ==
        folder.path().string() +
            ": the weights have 3 MiB; 2 MiB are free of the cgroup's memory limit of 4 MiB (/x/memory.max); "
            "expected a higher limit, or a smaller model");
  models[0].config.set("model.tables", "mapped");
  CHECK(said({4 * mib, 3 * mib, "/x/memory.max"}) == "");
}

TEST_CASE("memory needs: every model has working memory on the CPU, and a cache where there is a router") {
  Config config;
  config.set("pool.memory", "3MiB");
  config.set("inference.memory_max", "5MiB");
  config.set("features.cache_memory", "7MiB");
  config.set("http.memory_max", "11MiB");
  ServedModels models;
  for (int i = 0; i < 2; ++i) {
    models.push_back(std::make_unique<ServedModel>());
    models.back()->config = config;
  }
  NodeRoles roles;
  const MemoryNeeds needs = memory_needs(config, models, roles);
  CHECK(needs.pool == 3 * mib);
  CHECK(needs.passes == 10 * mib);
  CHECK(needs.caches == 14 * mib);
  CHECK(needs.requests == 11 * mib);
  roles.router = false;
  CHECK(memory_needs(config, models, roles).caches == 0);
  models.front()->config.set("model.device", "cuda");
  CHECK(memory_needs(config, models, roles).passes == 5 * mib);
}

}  // namespace
}  // namespace troupe::deploy
