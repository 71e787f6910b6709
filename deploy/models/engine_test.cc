#include "deploy/models/engine.h"

#include <doctest/doctest.h>

#include <set>
#include <tuple>

#include "deploy/models/model_families.h"
#include "kernels/checkpoint/model.h"
#include "kernels/testing/test_folder.h"

namespace troupe::deploy {
namespace {

kernels::DecoderConfig small_decoder_config() {
  kernels::DecoderConfig config;
  config.layers = 1, config.hidden = 16, config.heads = 2, config.kv_heads = 1, config.head_dim = 8;
  config.intermediate = 24, config.vocabulary = 20, config.positions_max = 32;
  return config;
}

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
  CHECK(versions.size() == count);
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

TEST_CASE("engine: model.weights auto is the format of the checkpoint's matrices, and f32 on a GPU") {
  const kernels::DecoderModel model = kernels::random_decoder(small_decoder_config(), 1);
  for (const auto& [stored, device, expected] : {std::tuple{kernels::StoredAs::bf16, "cpu", "bf16"},
                                                 {kernels::StoredAs::f32, "cpu", "f32"},
                                                 {kernels::StoredAs::f16, "cpu", "f32"},
                                                 {kernels::StoredAs::bf16, "cuda", "f32"}}) {
    const kernels::TestFolder folder;
    kernels::write_decoder(model, folder.path(), stored);
    Config config;
    config.set("model.device", device);
    config.set("model.weights", "auto");
    resolve_weights(config.model, folder.path());
    CHECK(word_of(config.model.weights) == expected);
    config.set("model.weights", "int8");
    resolve_weights(config.model, folder.path());
    CHECK(word_of(config.model.weights) == "int8");
  }
}

TEST_CASE("engine: a model described with auto weights costs what its format does") {
  kernels::DecoderModel model = kernels::random_decoder(small_decoder_config(), 1);
  const kernels::TestFolder folder;
  kernels::write_decoder(model, folder.path(), kernels::StoredAs::bf16);
  Config config;
  config.set("model.weights", "auto");
  CHECK(family_of(all_families(), folder.path()).describe(folder.path(), config).shape.weight_bytes == 2);
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
