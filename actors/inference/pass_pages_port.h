#pragma once
// Where the keys and values of a pass are, for the decoder that computes it: in the node's arena itself, or
// on a device, whose copies the arena's pages are brought to and from.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/actor/ports.h"
#include "runtime/pool/page_arena.h"

namespace troupe::actors {

// One block of a request: a segment that is granted for reading or writing.
struct PassBlock {
  const BatchSegmentKv* kv = nullptr;
  std::uint32_t segment = 0;
  std::vector<std::byte*> pages;  // for the decoder, in token order
  bool corrupt = false;           // the bytes to be read are not those of the checksum: there are no pages
  std::uint64_t checksum = 0;     // of what the pass wrote
};
using PassBlocks = std::vector<PassBlock>;  // of one request

// Thread-safe; one pass at a time per lane. What throws is an error of the device.
class PassPages {
 public:
  virtual ~PassPages() = default;
  // Finds pages for the first of these requests, as many as there is room for at once. Where not even the
  // first has room now, it waits for passes of other lanes; 0: it can never have.
  virtual std::size_t begin(std::span<PassBlocks> requests, std::uint32_t lane, DeviceUse& use) = 0;
  // The pass over those requests went well: what it wrote is in the arena, and summed, when this returns.
  virtual void keep(std::span<PassBlocks> requests, std::uint32_t lane, DeviceUse& use) = 0;
  // Whatever became of the pass: nobody touches pages for it any more when this returns. `failed`: the device
  // did, and what is in its memory is not to be trusted.
  virtual void end(std::uint32_t lane, bool failed) noexcept = 0;
};

// The arena's own pages.
class ArenaPages final : public PassPages {
 public:
  // `verify`: all bytes that are to be read are checked against their checksum, not only those of which that
  // is asked. `arena` outlives it.
  ArenaPages(PageArena& arena, bool verify) : arena_(arena), verify_(verify) {}
  std::size_t begin(std::span<PassBlocks> requests, std::uint32_t lane, DeviceUse& use) override;
  void keep(std::span<PassBlocks> requests, std::uint32_t lane, DeviceUse& use) override;
  void end(std::uint32_t, bool) noexcept override {}

 private:
  PageArena& arena_;
  const bool verify_;
};

}  // namespace troupe::actors
