#pragma once
// Declares the compiled versions of span attention (attend.h), for the files that compile them and
// the one that chooses.
#include <cstdint>
#include <span>

#include "kernels/cuda/kernels/attend.h"

namespace troupe::kernels::cuda {

// Byte offsets of a layer's keys and values from a token's address.
struct KvOffsets {
  std::uint32_t keys;         // to the layer's first head
  std::uint32_t head_stride;  // from head to head
  std::uint32_t values;       // from a key to its value
  std::uint32_t kv_heads;
};

KvOffsets offsets_of(const KvLayout& layout, std::uint32_t layer);

// A version per softening, head size, key format and query tile. `run` launches the items, not
// the merges.
struct DeviceAttendVersion {
  ScorePolicy softening;
  std::uint32_t head_dim;
  KvFormat format;
  std::uint32_t tile_vectors;
  std::uint32_t shared_bytes;  // per block
  bool wgmma;                  // else mma.sync
  std::uint32_t resident;      // blocks that fit a multiprocessor's registers
  void (*run)(const AttendPass&, const AttendLayer&, const KvOffsets&, Stream&);
};

// For head_dim 64 and 128 on sm_90a; empty if the build leaves that architecture out.
std::span<const DeviceAttendVersion> hopper_attend_versions();

}  // namespace troupe::kernels::cuda
