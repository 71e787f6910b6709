#include "deploy/node/memory_needs.h"

#include <doctest/doctest.h>

#include "kernels/checkpoint/safetensors.h"
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

TEST_CASE("memory needs: a node without a pool that exceeds what is free is refused by what it has") {
  const MemoryNeeds needs{.caches = 64 * mib, .requests = 8 * mib, .rest = 64 * mib};
  CHECK(fault(needs, {200 * mib, 64 * mib, "/x/memory.max"}) == "");
  CHECK(fault(needs, {200 * mib, 65 * mib, "/x/memory.max"}) ==
        "this node needs 64 MiB of features.cache_memory, 8 MiB of http.memory_max and 64 MiB for everything "
        "else; 135 MiB are free of the cgroup's memory limit of 200 MiB (/x/memory.max); expected a higher "
        "limit, or less for the others");
}

TEST_CASE("memory needs: weights that exceed what is free of the limit are refused before they are read") {
  const kernels::TestFolder folder;
  const std::vector<float> table(mib / 2), matrix(mib / 4);  // 2 MiB and 1 MiB as float32
  const auto write = [&](const char* name, kernels::StoredAs stored_as) {
    const std::vector<kernels::NamedTensor> tensors{{"item_embedding.weight", {mib / 2}, table},
                                                    {"layer", {mib / 4}, matrix}};
    kernels::write_safetensors(folder.path() / name, tensors, stored_as);
  };
  write("model.safetensors", kernels::StoredAs::bf16);
  folder.write("notes.txt", std::string(4 * mib, 'x'));
  folder.write("damaged.safetensors", std::string(4 * mib, 'x'));  // which reading refuses
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
            ": the weights take 3 MiB as float32; 2 MiB are free of the cgroup's memory limit of 4 MiB "
            "(/x/memory.max); "
            "expected a higher limit, or a smaller model");
  models[0].config.set("model.tables", "mapped");  // the table stays on disk
  CHECK(said({4 * mib, 3 * mib, "/x/memory.max"}) == "");
  CHECK(said({4 * mib, 3 * mib + 1, "/x/memory.max"}) != "");
  models[0].config.set("model.tables", "memory");
  write("model.safetensors", kernels::StoredAs::f32);
  CHECK(said({4 * mib, mib, "/x/memory.max"}) == "");
  CHECK(said({4 * mib, mib + 1, "/x/memory.max"}) != "");
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
  roles.router = false, roles.worker = true;
  CHECK(memory_needs(config, models, roles).caches == 0);
  models.front()->config.set("model.device", "cuda");
  CHECK(memory_needs(config, models, roles).passes == 5 * mib);
  roles.router = true, roles.worker = false;
  models.front()->config.set("features.item_memory", "13MiB");
  CHECK(memory_needs(config, models, roles).caches == 14 * mib);
  models.front()->config.set("features.items", "cached");
  CHECK(memory_needs(config, models, roles).caches == 27 * mib);
  const MemoryNeeds router = memory_needs(config, models, roles);
  CHECK(router.pool == 0);
  CHECK(router.passes == 0);
}

}  // namespace
}  // namespace troupe::deploy
