// Opens a model's engine, the part that computes its passes, as configured: device, number formats,
// cores and working memory.
#include "deploy/models/engine.h"

#include <algorithm>
#include <charconv>

#include "deploy/models/device_engine.h"
#include "kernels/checkpoint/stored_format.h"
#include "kernels/decoder/unconstrained.h"
#include "runtime/profiling/process_limits.h"

namespace troupe::deploy {
namespace {

constexpr std::uint32_t device_executors = 2;  // one copies while the other computes

using Beams = InferenceSettings::Beams;

// Returns a setting; 0 stands for one per core that this process may use.
std::uint32_t count_or_cores(std::uint32_t setting) { return setting > 0 ? setting : usable_cores(); }

bool drops_unknown_paths(Beams beams) { return beams == Beams::unconstrained || beams == Beams::plain; }

}  // namespace

DeviceChoice device_choice(const ModelSettings& settings) {
  const std::string& text = settings.device;
  const std::size_t colon = std::min(text.find(':'), text.size());
  DeviceChoice choice{text.substr(0, colon)};
  const bool known = choice.kind == "cpu" || choice.kind == "cuda" || choice.kind == "emulated";
  bool good = known && (colon == text.size() || choice.kind == "cuda");
  if (good && colon < text.size()) {
    const char* const end = text.data() + text.size();
    const auto [stopped, error] = std::from_chars(text.data() + colon + 1, end, choice.number);
    good = error == std::errc() && stopped == end && choice.number >= 0;
  }
  if (!good) throw ConfigError("model.device is " + text + "; expected cpu, cuda or cuda:N");
  return choice;
}

void resolve_weights(ModelSettings& settings, const std::filesystem::path& directory) {
  using Weights = ModelSettings::Weights;
  if (settings.weights != Weights::auto_) return;
  const bool halves = device_choice(settings).on_cpu() && kernels::has_bf16_matrices(directory);
  settings.weights = halves ? Weights::bf16 : Weights::f32;
}

// The words of pool.kv_format and model.weights, once it is resolved, are the formats' names.
kernels::DecoderOptions decoder_options(const Config& config) {
  const Beams beams = config.inference.beams;
  return {.page_tokens = config.pool.page_tokens,
          .kv = kernels::find_kv_format(word_of(config.pool.kv_format)).value(),
          .weights = kernels::find_weight_format(word_of(config.model.weights)).value(),
          .cores = count_or_cores(config.inference.cores),
          .executors = executors_of(config),
          .memory_bytes = config.inference.memory_max,
          .batch_tokens = config.inference.batch_tokens_max,
          .beams = beams == Beams::copied || beams == Beams::plain ? kernels::BeamPaths::copied
                   : beams == Beams::tree                          ? kernels::BeamPaths::tree
                                                                   : kernels::BeamPaths::together,
          .sort_all = beams == Beams::sorted || beams == Beams::plain};
}

kernels::ItemRows items_of(const ModelSettings& settings) {
  if (settings.tables == ModelSettings::Tables::memory) return kernels::ItemRows::in_memory;
  if (!device_choice(settings).on_cpu())
    throw ConfigError("model.tables is " + std::string(word_of(settings.tables)) + ", with model.device " +
                      settings.device + "; expected memory, or model.device cpu");
  return kernels::ItemRows::apart;
}

std::string layout_version(const Config& config) {
  const kernels::DecoderOptions options = decoder_options(config);
  const std::string weights =
      device_choice(config.model).on_cpu()
          ? std::string(format_name(options.weights)) + kernels::weight_variant(options.weights, options.kv)
          : std::string(word_of(config.model.device_format)) + " on a GPU";
  return std::string(format_name(options.kv)) + " head-major, page_tokens " +
         std::to_string(options.page_tokens) + ", weights " + weights;
}

std::uint32_t executors_of(const Config& config) {
  const std::uint32_t setting = config.inference.executors;
  return setting > 0 || device_choice(config.model).on_cpu() ? count_or_cores(setting) : device_executors;
}

actors::ComputePort::MakePages arena_pages(const PoolSettings& settings) {
  return actors::ComputePort::arena_pages(settings.verify_on_read);
}

Engine open_engine(const Config& config, kernels::DecoderModel model) {
  const DeviceChoice choice = device_choice(config.model);
  const Beams beams = config.inference.beams;
  if (!choice.on_cpu() && beams != Beams::together)
    throw ConfigError("inference.beams is " + std::string(word_of(beams)) + "; expected together on a GPU");
  if (!choice.on_cpu()) return open_device_engine(choice, config, std::move(model));
  auto decoder = kernels::make_cpu_decoder(std::move(model), decoder_options(config));
  return {drops_unknown_paths(beams) ? kernels::unconstrained(std::move(decoder)) : std::move(decoder),
          arena_pages(config.pool)};
}

}  // namespace troupe::deploy
