// Makes the table entry of decoders (Qwen2, Qwen3 and Llama checkpoints): recognises their folders,
// describes them, and loads them onto a CPU or GPU.
#include "deploy/models/decoder_family.h"

#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "deploy/models/cost_shape.h"
#include "deploy/models/request_numbers.h"
#include "kernels/cpu/engine/pass_memory.h"
#include "kernels/decoder/decoder.h"

namespace troupe::deploy {
namespace {

ModelFacts describe_decoder(const std::filesystem::path& directory, const Config& config) {
  const kernels::DecoderConfig model = kernels::read_decoder_config(directory);
  const kernels::DecoderOptions options = decoder_options(config);
  ModelFacts facts{plan_limits(model), page_layout(model, options),
                   cost_shape(model, options.weights, options.kv, 1)};
  if (!device_choice(config.model).on_cpu()) return facts;
  const kernels::PassMemory memory = pass_memory(model, options);
  facts.pass_tokens_max = memory.tokens_max;
  facts.token_bytes = memory.row_bytes;
  return facts;
}

OpenedModel open_decoder(const std::filesystem::path& directory, const Config& config) {
  auto model = std::make_shared<kernels::DecoderModel>(kernels::read_decoder(directory));
  std::string version = model->version;
  return {std::move(version),
          [model, config](const WrapTable&) { return open_engine(config, std::move(*model)); },
          {}};
}

// Computes the logits of the last token of {"tokens": [...]}, a plain causal prompt.
nlohmann::json decoder_logits(const std::filesystem::path& directory, const nlohmann::json& request) {
  const kernels::PlanLimits limits = plan_limits(kernels::read_decoder_config(directory));
  const std::vector<std::int64_t> numbers = request_integers(request, "tokens", {0, limits.vocabulary - 1});
  kernels::Plan plan;
  plan.segments.push_back(
      {kernels::SegmentKind::user, std::vector<kernels::Token>(numbers.begin(), numbers.end()), 0, {}});
  std::vector<kernels::Token> rows(static_cast<std::size_t>(limits.vocabulary));
  std::iota(rows.begin(), rows.end(), 0);
  plan.readouts.push_back({0, static_cast<std::uint32_t>(numbers.size() - 1), std::move(rows)});
  if (const std::string fault = validate(plan, limits); !fault.empty())
    throw std::invalid_argument("tokens: " + fault);
  kernels::DecoderModel model = kernels::read_decoder(directory);
  const std::string version = model.version;
  const std::unique_ptr<kernels::Executor> decoder =
      kernels::make_cpu_decoder(std::move(model), {.page_tokens = 16});
  const kernels::Request prompt{&plan, {{}}};
  return {{"model_version", version},
          {"tokens", plan.segments[0].tokens},
          {"logits", decoder->run({&prompt, 1}).at(0).readouts.at(0)}};
}

}  // namespace

ModelFamily decoder_family() {
  return {"decoder", {"qwen2", "qwen3", "llama"}, describe_decoder, open_decoder, decoder_logits};
}

}  // namespace troupe::deploy
