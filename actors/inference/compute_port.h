#pragma once
// The inference worker's device: runs batches of plans on a decoder, reading and writing key-value pages of
// the node's arena in place. A request that is wrong, or whose pages are, fails alone; cached pages are
// checked against their checksum before use and computed again if they do not match (promise 2).
#include <memory>
#include <vector>

#include "kernels/decoder.h"
#include "runtime/page_arena.h"
#include "runtime/ports.h"

namespace troupe::actors {

class ComputePort final : public Port {
 public:
  // One executor per lane, all over the decoder's packed weights. `arena` outlives the port.
  ComputePort(std::unique_ptr<kernels::Decoder> decoder, PageArena& arena, std::uint32_t lanes,
              bool verify_on_read);

  JobResult run(const Job& job, std::uint32_t lane) override;

 private:
  struct Prepared;
  BatchDone run_batch(const RunBatch& batch, kernels::Decoder& decoder);
  void prepare(const BatchRequest& request, Prepared& prepared, BatchReply& reply) const;
  void prepare_pages(const BatchRequest& request, Prepared& prepared, BatchReply& reply) const;
  void collect(const BatchRequest& request, const kernels::Logits& logits, BatchReply& reply) const;

  PageArena& arena_;
  bool verify_on_read_;
  std::vector<std::unique_ptr<kernels::Decoder>> executors_;  // [lane]
};

}  // namespace troupe::actors
