#include "actors/inference/loaded_models_port.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <system_error>

#include "kernels/decoder/decoder.h"

namespace troupe::actors {
namespace loaded_models_port_test {

std::unique_ptr<kernels::Executor> decoder(std::uint32_t layers = 1) {
  kernels::DecoderConfig config;
  config.family = kernels::Family::llama;
  config.layers = layers, config.hidden = 16, config.heads = 2, config.kv_heads = 2, config.head_dim = 8;
  config.intermediate = 24, config.vocabulary = 40, config.positions_max = 100;
  return kernels::make_cpu_decoder(kernels::random_decoder(config, 1), {.page_tokens = 4});
}

LoadedModels models(LoadVersion load_version) { return {decoder(), "one", 3, std::move(load_version), {}}; }

TEST_CASE("loaded models: each model has an executor for every slot, and \"\" is the first model") {
  LoadedModels m = models([](const std::string&) { return decoder(); });
  CHECK(m.find("one")->executors.size() == 3);
  CHECK(m.find("") == m.find("one"));
  CHECK(m.find("two") == nullptr);
  CHECK(std::holds_alternative<ModelChanged>(m.load("two")));
  CHECK(m.find("two")->executors.size() == 3);
}

TEST_CASE("loaded models: a dropped model lives until its last batch ends") {
  LoadedModels m = models({});
  std::shared_ptr<LoadedModels::Model> used = m.find("one");
  const std::weak_ptr<LoadedModels::Model> watched = used;
  m.drop("one");
  CHECK(m.find("one") == nullptr);
  CHECK_FALSE(watched.expired());
  used.reset();
  CHECK(watched.expired());
}

TEST_CASE("loaded models: without a loader, or with another page layout, a load is refused") {
  CHECK(std::get<Refusal>(models({}).load("two")).code == "models_fixed");
  LoadedModels m = models([](const std::string&) { return decoder(2); });
  CHECK(std::get<Refusal>(m.load("two")).code == "other_layout");
  CHECK(m.find("two") == nullptr);
}

TEST_CASE(
    "loaded models: a file that cannot be opened as it is, is a final refusal; other failures are not") {
  const auto kind = [](std::errc error) {
    LoadedModels m = models([error](const std::string&) -> LoadedModel {
      throw std::filesystem::filesystem_error("status", "two", std::make_error_code(error));
    });
    return std::get<Refusal>(m.load("two")).kind;
  };
  for (const std::errc lasting : {std::errc::filename_too_long, std::errc::not_a_directory,
                                  std::errc::too_many_symbolic_link_levels, std::errc::permission_denied})
    CHECK(kind(lasting) == RefusalKind::unprocessable);
  for (const std::errc passing : {std::errc::io_error, std::errc::too_many_files_open})
    CHECK(kind(passing) == RefusalKind::unavailable);
}

}  // namespace loaded_models_port_test
}  // namespace troupe::actors
