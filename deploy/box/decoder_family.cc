#include "deploy/box/decoder_family.h"

#include <memory>
#include <utility>

#include "deploy/box/cost_shape.h"
#include "kernels/cpu/engine/pass_memory.h"
#include "kernels/decoder/decoder.h"

namespace troupe::deploy {
namespace {

ModelFacts describe_decoder(const std::filesystem::path& directory, const Config& config) {
  const kernels::DecoderConfig model = kernels::read_decoder_config(directory);
  const kernels::DecoderOptions options = decoder_options(config);
  ModelFacts facts{plan_limits(model), page_layout(model, options),
                   cost_shape(model, options.weights, options.kv, 1)};
  if (!device_choice(config).on_cpu()) return facts;
  const kernels::PassMemory memory = pass_memory(model, options);
  facts.pass_tokens_max = memory.tokens_max;
  facts.token_bytes = memory.row_bytes;
  return facts;
}

OpenedModel open_decoder(const std::filesystem::path& directory, const Config& config) {
  auto model = std::make_shared<kernels::DecoderModel>(kernels::read_decoder(directory));
  std::string version = model->version;
  return {std::move(version), [model, config] { return open_engine(config, std::move(*model)); }, {}};
}

}  // namespace

Family decoder_family() { return {"decoder", {"qwen2", "qwen3", "llama"}, describe_decoder, open_decoder}; }

}  // namespace troupe::deploy
