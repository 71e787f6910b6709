// Opens a model's engine, the part that computes its passes, as configured: device, number formats,
// cores and working memory.
#include "deploy/models/engine.h"

#include <algorithm>
#include <charconv>
#include <thread>

#include "deploy/models/device_engine.h"
#include "kernels/decoder/unconstrained.h"

namespace troupe::deploy {
namespace {

constexpr std::uint32_t device_executors = 2;  // one copies while the other computes

// Returns a setting; 0 stands for one per core.
std::uint32_t count_or_cores(const Config& config, const char* setting) {
  const auto asked = static_cast<std::uint32_t>(config.integer(setting));
  return asked > 0 ? asked : std::max(1u, std::thread::hardware_concurrency());
}

}  // namespace

DeviceChoice device_choice(const Config& config) {
  const std::string& text = config.text("model.device");
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

// The choices of these settings are the formats' names.
kernels::DecoderOptions decoder_options(const Config& config) {
  const std::string& beams = config.text("inference.beams");
  return {.page_tokens = static_cast<std::uint32_t>(config.integer("pool.page_tokens")),
          .kv = kernels::find_kv_format(config.text("pool.kv_format")).value(),
          .weights = kernels::find_weight_format(config.text("model.weights")).value(),
          .cores = count_or_cores(config, "inference.cores"),
          .executors = executors_of(config),
          .memory_bytes = static_cast<std::size_t>(config.size_bytes("inference.memory_max")),
          .batch_tokens = static_cast<std::uint32_t>(config.integer("inference.batch_tokens_max")),
          .beams = beams == "copied" || beams == "plain" ? kernels::BeamPaths::copied
                   : beams == "tree"                     ? kernels::BeamPaths::tree
                                                         : kernels::BeamPaths::together,
          .sort_all = beams == "sorted" || beams == "plain"};
}

kernels::ItemRows items_of(const Config& config) {
  if (config.text("model.tables") == "memory") return kernels::ItemRows::in_memory;
  if (!device_choice(config).on_cpu())
    throw ConfigError("model.tables is " + config.text("model.tables") + ", with model.device " +
                      config.text("model.device") + "; expected memory, or model.device cpu");
  return kernels::ItemRows::apart;
}

std::string layout_version(const Config& config) {
  const kernels::DecoderOptions options = decoder_options(config);
  const std::string weights =
      device_choice(config).on_cpu()
          ? std::string(format_name(options.weights)) + kernels::weight_variant(options.weights)
          : config.text("model.device_format") + " on a GPU";
  return std::string(format_name(options.kv)) + " head-major, page_tokens " +
         std::to_string(options.page_tokens) + ", weights " + weights;
}

std::uint32_t executors_of(const Config& config) {
  const bool asked = config.integer("inference.executors") > 0;
  return asked || device_choice(config).on_cpu() ? count_or_cores(config, "inference.executors")
                                                 : device_executors;
}

actors::ComputePort::MakePages arena_pages(const Config& config) {
  return actors::ComputePort::arena_pages(config.boolean("pool.verify_on_read"));
}

Engine open_engine(const Config& config, kernels::DecoderModel model) {
  const DeviceChoice choice = device_choice(config);
  const std::string& beams = config.text("inference.beams");
  if (!choice.on_cpu() && beams != "together")
    throw ConfigError("inference.beams is " + beams + "; expected together on a GPU");
  if (!choice.on_cpu()) return open_device_engine(choice, config, std::move(model));
  auto decoder = kernels::make_cpu_decoder(std::move(model), decoder_options(config));
  return {beams == "unconstrained" || beams == "plain" ? kernels::unconstrained(std::move(decoder))
                                                       : std::move(decoder),
          arena_pages(config)};
}

}  // namespace troupe::deploy
