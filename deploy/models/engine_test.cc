#include "deploy/models/engine.h"

#include <doctest/doctest.h>

#include <set>

namespace troupe::deploy {
namespace {

TEST_CASE("layout version: blocks of other formats, page sizes or weights never share a name") {
  std::set<std::string> versions;
  std::size_t count = 0;
  for (const std::string_view kv : kernels::kv_format_names)
    for (const std::string_view weights : kernels::weight_format_names)
      for (const char* page_tokens : {"4", "8"}) {
        Config config;
        config.set("pool.kv_format", std::string(kv));
        config.set("model.weights", std::string(weights));
        config.set("pool.page_tokens", page_tokens);
        versions.insert(layout_version(config));
        ++count;
      }
  for (const char* kv : {"f16", "bf16"})
    for (const char* half : {"f16", "bf16"}) {
      Config config;
      config.set("model.device", "cuda");
      config.set("pool.kv_format", kv);
      config.set("model.device_format", half);
      versions.insert(layout_version(config));
      ++count;
    }
  CHECK(versions.size() == count);
}

TEST_CASE("decoder options: follow the settings, and 0 cores means all") {
  Config config;
  const kernels::DecoderOptions plain = decoder_options(config);
  CHECK(plain.kv == kernels::KvFormat::f32);
  CHECK(plain.weights == kernels::WeightFormat::f32);
  CHECK(plain.page_tokens == 4);
  CHECK(plain.cores >= 1);
  config.set("pool.kv_format", "bf16");
  config.set("model.weights", "int8");
  config.set("inference.cores", "3");
  const kernels::DecoderOptions changed = decoder_options(config);
  CHECK(changed.kv == kernels::KvFormat::bf16);
  CHECK(changed.weights == kernels::WeightFormat::int8);
  CHECK(changed.cores == 3);
}

TEST_CASE("engine: baselines of beam search run on the CPU alone") {
  Config config;
  CHECK(decoder_options(config).beams == kernels::BeamPaths::together);
  config.set("inference.beams", "copied");
  CHECK(decoder_options(config).beams == kernels::BeamPaths::copied);
  CHECK_FALSE(decoder_options(config).sort_all);
  config.set("inference.beams", "tree");
  CHECK(decoder_options(config).beams == kernels::BeamPaths::tree);
  config.set("inference.beams", "sorted");
  CHECK(decoder_options(config).beams == kernels::BeamPaths::together);
  CHECK(decoder_options(config).sort_all);
  config.set("inference.beams", "plain");
  CHECK(decoder_options(config).beams == kernels::BeamPaths::copied);
  CHECK(decoder_options(config).sort_all);
  config.set("model.device", "emulated");
  CHECK_THROWS_WITH(open_engine(config, {}), doctest::Contains("inference.beams is plain"));
}

TEST_CASE("executors: two on a device by default") {
  Config config;
  config.set("model.device", "cuda:3");
  CHECK(device_choice(config.model).number == 3);
  CHECK(executors_of(config) == 2);
  config.set("inference.executors", "5");
  CHECK(executors_of(config) == 5);
}

}  // namespace
}  // namespace troupe::deploy
