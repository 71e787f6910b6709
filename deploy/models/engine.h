#pragma once
// Opens the configured engine. On the CPU, decoders use the arena's own pages; on a GPU, they use
// copies of them (actors/inference/device_pages_port.h). The number formats of the engine are part
// of the blocks' names, so blocks of one format are never read as another.
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "actors/inference/compute_port.h"
#include "kernels/checkpoint/embedding_table.h"
#include "kernels/decoder/decoder.h"
#include "runtime/config/config.h"

namespace troupe::deploy {

// Parsed model.device, such as "cpu", "cuda" or "cuda:1".
struct DeviceChoice {
  std::string kind = "cpu";
  int number = 0;
  bool on_cpu() const { return kind == "cpu"; }
};
DeviceChoice device_choice(const ModelSettings& settings);  // throws ConfigError

// Sets model.weights to the format that auto stands for with this model directory: bf16 if its
// matrices are stored in BF16 and the device is a CPU, otherwise f32. Other values stay. Throws
// LoadError for faulty files.
void resolve_weights(ModelSettings& settings, const std::filesystem::path& directory);
// Returns the configured options of the CPU's decoder. model.weights must be resolved. A GPU uses their page
// size and format of keys and values, too.
kernels::DecoderOptions decoder_options(const Config& config);
// Describes everything that a block depends on besides the checkpoint. Blocks with different
// descriptions must have different names.
std::string layout_version(const Config& config);
// Returns where the rows of the item embedding are kept (model.tables). Throws ConfigError for
// anything but memory on a GPU.
kernels::ItemRows items_of(const ModelSettings& settings);
// Number of batches that run at the same time.
std::uint32_t executors_of(const Config& config);

struct Engine {
  std::unique_ptr<kernels::Executor> executor;
  actors::ComputePort::MakePages make_pages;
};
// Returns a factory of arena pages, for engines on the CPU.
actors::ComputePort::MakePages arena_pages(const PoolSettings& settings);
// Opens a decoder. Throws ConfigError if the device does not exist or cannot run this model as
// configured.
Engine open_engine(const Config& config, kernels::DecoderModel model);

}  // namespace troupe::deploy
