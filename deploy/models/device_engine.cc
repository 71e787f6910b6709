// Engine on CUDA, or on the emulated device if compiled with TROUPE_EMULATED.
#include "deploy/models/device_engine.h"

#include <algorithm>

#include "actors/inference/device_pages_port.h"
#include "deploy/models/device_absence.h"
#include "kernels/cuda/engine/climber.h"
#include "kernels/cuda/engine/decoder.h"
#include "kernels/cuda/engine/hstu.h"

namespace troupe::deploy {
namespace {

namespace cuda = kernels::cuda;

#ifdef TROUPE_EMULATED
constexpr const char* device_kind = "emulated";
#else
constexpr const char* device_kind = "cuda";
#endif
constexpr unsigned capability_min = 80;
constexpr std::uint32_t rows_min = 8192, logits_min = 1 << 20;
constexpr double free_share =
    0.5;  // fraction of free memory for pages; another model may need the other half

std::string name_of(const DeviceChoice& choice) {
  return "model.device " + choice.kind + ":" + std::to_string(choice.number);
}

cuda::HalfFormat half_format(const ModelSettings& settings) {
  return settings.device_format == ModelSettings::DeviceFormat::f16 ? cuda::HalfFormat::f16
                                                                    : cuda::HalfFormat::bf16;
}

// Batches are bounded by tokens; a larger request runs alone.
cuda::CudaDecoderOptions options_of(const DeviceChoice& choice, const Config& config,
                                    const kernels::DecoderConfig& model) {
  const kernels::DecoderOptions common = decoder_options(config);
  cuda::CudaDecoderOptions options{
      .device = choice.number, .page_tokens = common.page_tokens, .kv = common.kv};
  options.weights = half_format(config.model);
  options.rows_max = std::max(rows_min, config.inference.batch_tokens_max);
  options.logits_max = std::max(logits_min, config.router.candidates_max);
  options.search_tokens_max = options.rows_max;
#ifdef TROUPE_EMULATED  // the emulator fills all buffers with NaN on one core
  options.rows_max = 1024, options.keys_max = 1 << 14, options.logits_max = 1 << 12;
  options.plan_bytes_max = 1 << 20;
  options.search_tokens_max = 1024, options.search_logits_max = 1 << 14;
#endif
  options.search_logits_max = std::max(options.search_logits_max, cuda::search_logits_min(model));
  return options;
}

// Options of HSTU and Climber.
cuda::CudaRankerOptions ranker_options(const DeviceChoice& choice, const Config& config) {
  const kernels::DecoderOptions common = decoder_options(config);
  cuda::CudaRankerOptions options{
      .device = choice.number, .page_tokens = common.page_tokens, .kv = common.kv};
  options.weights = half_format(config.model);
  options.rows_max = std::max(rows_min, config.inference.batch_tokens_max);
#ifdef TROUPE_EMULATED
  options.rows_max = 1024, options.keys_max = 1 << 14, options.logits_max = 1 << 12;
  options.plan_bytes_max = 1 << 20;
#endif
  return options;
}

void check_weights(const ModelSettings& settings) {
  if (settings.weights != ModelSettings::Weights::f32)
    throw ConfigError("model.weights is " + std::string(word_of(settings.weights)) +
                      "; expected f32 on a GPU (which stores weights as model.device_format)");
}

// The driver may fail with an unspecific error where some of its devices are hidden.
int count_devices(const DeviceChoice& choice) {
  try {
    return cuda::device_count();
  } catch (const cuda::DeviceError& error) {
    const std::string why = why_no_device();
    throw ConfigError(name_of(choice) + ": " + error.what() + (why.empty() ? "" : ": " + why) +
                      "; expected cpu, or a GPU that this process can use");
  }
}

void check_device(const DeviceChoice& choice) {
  if (choice.kind != device_kind)
    throw ConfigError("model.device is " + choice.kind + "; expected cpu or " + device_kind);
  const int count = count_devices(choice);
  if (count == 0) {
    const std::string why = why_no_device();
    throw ConfigError(name_of(choice) + ": there is no CUDA device" +
                      (why.empty() ? " (CUDA_VISIBLE_DEVICES, or libcuda.so.1 is not found)" : ": " + why) +
                      "; expected cpu, or a machine with a GPU");
  }
  if (choice.number >= count)
    throw ConfigError(name_of(choice) + ": there are " + std::to_string(count) +
                      " devices; expected a smaller number");
  const cuda::DeviceProperties found = cuda::device_properties(choice.number);
  if (found.capability < capability_min)
    throw ConfigError(name_of(choice) + ": " + found.name + " has compute capability " +
                      std::to_string(found.capability) + "; expected " + std::to_string(capability_min) +
                      " or more");
}

void check_model(const DeviceChoice& choice, const ModelSettings& settings,
                 const kernels::DecoderConfig& model, const cuda::CudaDecoderOptions& options) {
  check_weights(settings);
  if (options.kv == kernels::KvFormat::f32)
    throw ConfigError("pool.kv_format is f32; expected bf16 or f16 on a GPU");
  if (const std::string fault = cuda::cuda_decoder_fault(model, options); !fault.empty())
    throw ConfigError(name_of(choice) + ": " + fault);
}

// Returns the number of device pages, at most the pool's: more would never be used.
std::uint32_t device_pages(const PoolSettings& settings, const PageArena& arena) {
  const std::size_t asked = settings.device_bytes;
  const std::size_t free = cuda::free_device_bytes();
  const std::size_t bytes =
      asked > 0 ? asked : static_cast<std::size_t>(free_share * static_cast<double>(free));
  const std::size_t pages = std::min(bytes / arena.page_bytes(), arena.pages());
  if (bytes > free || pages == 0)
    throw ConfigError(
        "pool.device_bytes is " + (asked > 0 ? std::to_string(asked) : "0 (half of the free memory)") +
        "; expected at least one page of " + std::to_string(arena.page_bytes()) + " bytes, and at most the " +
        std::to_string(free) + " bytes that the model leaves free on the device");
  return static_cast<std::uint32_t>(pages);
}

// Calls `make` and turns the device's errors into ConfigError.
template <class Make>
auto opened(const DeviceChoice& choice, const Make& make) {
  try {
    return make();
  } catch (const cuda::DeviceError& error) {
    throw ConfigError(name_of(choice) + ": " + error.what() +
                      "; expected a device with enough memory for the model, its executors and "
                      "pool.device_bytes, and a host that can page-lock pool.memory");
  }
}

actors::ComputePort::MakePages device_pages_of(const DeviceChoice& choice, const PoolSettings& settings) {
  return [=](PageArena& arena, std::uint32_t slots) {
    return opened(choice, [&] {
      cuda::use_device(choice.number);
      return std::make_unique<actors::DevicePages>(arena, choice.number, device_pages(settings, arena), slots,
                                                   settings.verify_on_read);
    });
  };
}

// `fault` and `make` are functions of kernels/cuda/engine/{hstu,climber}.h.
template <class Model>
Engine open_ranker(const DeviceChoice& choice, const Config& config, Model model, const auto& fault,
                   const auto& make) {
  check_device(choice);
  check_weights(config.model);
  const cuda::CudaRankerOptions options = ranker_options(choice, config);
  if (const std::string found = fault(model.config, options); !found.empty())
    throw ConfigError(name_of(choice) + ": " + found);
  return {opened(choice, [&] { return make(std::move(model), options); }),
          device_pages_of(choice, config.pool)};
}

}  // namespace

Engine open_device_engine(const DeviceChoice& choice, const Config& config, kernels::DecoderModel model) {
  check_device(choice);
  const cuda::CudaDecoderOptions options = options_of(choice, config, model.config);
  check_model(choice, config.model, model.config, options);
  return {opened(choice, [&] { return cuda::make_cuda_decoder(std::move(model), options); }),
          device_pages_of(choice, config.pool)};
}

Engine open_device_engine(const DeviceChoice& choice, const Config& config, kernels::HstuModel model) {
  return open_ranker(choice, config, std::move(model), cuda::cuda_hstu_fault, cuda::make_cuda_hstu);
}

Engine open_device_engine(const DeviceChoice& choice, const Config& config, kernels::ClimberModel model) {
  return open_ranker(choice, config, std::move(model), cuda::cuda_climber_fault, cuda::make_cuda_climber);
}

}  // namespace troupe::deploy
