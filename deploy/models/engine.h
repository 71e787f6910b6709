#pragma once
// What a box computes with, as configured: decoders on the CPU over the arena's own pages, or on a device
// with copies of them (actors/inference/device_pages_port.h). The formats of either are in the names of
// blocks, so that blocks of one are never taken for those of another.
#include <cstdint>
#include <memory>
#include <string>

#include "actors/inference/compute_port.h"
#include "kernels/checkpoint/embedding_table.h"
#include "kernels/decoder/decoder.h"
#include "runtime/config/config.h"

namespace troupe::deploy {

// model.device: "cpu", "cuda", "cuda:1".
struct DeviceChoice {
  std::string kind = "cpu";
  int number = 0;
  bool on_cpu() const { return kind == "cpu"; }
};
DeviceChoice device_choice(const Config& config);  // throws ConfigError

// The CPU's decoder as configured. Its page size and the format of keys and values hold on a device too.
kernels::DecoderOptions decoder_options(const Config& config);
// What a block depends on beside the checkpoint: blocks that differ in it must not have the same name.
std::string layout_version(const Config& config);
// model.tables: where the rows of a model's item embedding are. Throws ConfigError on a device, which has
// them in its memory.
kernels::ItemRows items_of(const Config& config);
// Batches at a time.
std::uint32_t executors_of(const Config& config);

struct Engine {
  std::unique_ptr<kernels::Executor> executor;
  actors::ComputePort::MakePages make_pages;
};
// Pages in the arena, for what computes on the CPU.
actors::ComputePort::MakePages arena_pages(const Config& config);
// Of a decoder. Throws ConfigError if there is no such device, or if it cannot run this model as configured.
Engine open_engine(const Config& config, kernels::DecoderModel model);

}  // namespace troupe::deploy
