#pragma once
// Provides the pages with the keys and values of a pass to the decoder that computes it: pages of
// the node's arena, or copies of them on a device.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/actor/ports.h"
#include "runtime/pool/page_arena.h"

namespace troupe::actors {

// A block of a request: a segment with a grant to read or write.
struct PassBlock {
  const BatchSegmentKv* kv = nullptr;
  std::uint32_t segment = 0;
  std::vector<std::byte*> pages;  // for the decoder, in token order
  bool corrupt = false;           // the bytes do not match the checksum; `pages` is empty
  std::uint64_t checksum = 0;     // of the bytes that the pass wrote
};
using PassBlocks = std::vector<PassBlock>;  // of one request

// Thread-safe; one pass at a time per executor slot. Exceptions are errors of the device.
class PassPages {
 public:
  virtual ~PassPages() = default;
  // Provides pages for the first of these requests, as many as fit at once, and returns their
  // number; the caller runs the rest in later passes. Fills `pages`, or sets `corrupt`, of each of
  // their blocks. If not even the first request fits now, waits for passes of other executor slots.
  // Returns 0 if it can never fit. Adds what it did to `use`.
  virtual std::size_t begin(std::span<PassBlocks> requests, std::uint32_t slot, DeviceUse& use) = 0;
  // Called after a successful pass over those requests. On return, what it wrote is in the arena,
  // with checksums.
  virtual void keep(std::span<PassBlocks> requests, std::uint32_t slot, DeviceUse& use) = 0;
  // Called after each pass. On return, no page is used for it any more. `failed` means that the
  // device failed and its memory is not trusted.
  virtual void end(std::uint32_t slot, bool failed) noexcept = 0;
};

// Uses the arena's own pages.
class ArenaPages final : public PassPages {
 public:
  // With `verify`, all bytes read are verified against their checksum, not only those whose grant
  // asks for it. `arena` outlives the object.
  ArenaPages(PageArena& arena, bool verify) : arena_(arena), verify_(verify) {}
  std::size_t begin(std::span<PassBlocks> requests, std::uint32_t slot, DeviceUse& use) override;
  void keep(std::span<PassBlocks> requests, std::uint32_t slot, DeviceUse& use) override;
  void end(std::uint32_t, bool) noexcept override {}

 private:
  PageArena& arena_;
  const bool verify_;
};

}  // namespace troupe::actors
