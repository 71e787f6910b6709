#pragma once
// The inference worker's device: runs batches of plans on decoders, reading and writing key-value pages of
// the node's arena in place. A request that is wrong, or whose pages are, fails alone; cached pages are
// checked against their checksum before use and computed again if they do not match (promise 2). It holds
// several models at a time, all of one page layout, and changes them while batches of others run.
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "kernels/decoder.h"
#include "runtime/page_arena.h"
#include "runtime/ports.h"

namespace troupe::actors {

class ComputePort final : public Port {
 public:
  // The decoder of a model version; throws kernels::LoadError or std::bad_alloc. Called on a lane's thread.
  using Loader = std::function<std::unique_ptr<kernels::Decoder>(const std::string& model_version)>;

  // `lanes`: batches at a time. One executor per lane and model, all over the model's packed weights. `arena`
  // outlives the port. Without a loader the port keeps the one model.
  ComputePort(std::unique_ptr<kernels::Decoder> decoder, std::string model_version, PageArena& arena,
              std::uint32_t lanes, bool verify_on_read, Loader loader = {});

  // That its host has to give it: with a loader one more than there are batches at a time, so that a load
  // does not keep a batch waiting.
  std::uint32_t lanes() const { return lanes_; }

  // Thread-safe, one call at a time per lane.
  JobResult run(const Job& job, std::uint32_t lane) override;

 private:
  struct Prepared;
  using Executors = std::vector<std::unique_ptr<kernels::Decoder>>;  // [lane]

  std::shared_ptr<Executors> executors_of(std::unique_ptr<kernels::Decoder> decoder) const;
  std::shared_ptr<Executors> find(const std::string& model_version) const;
  JobResult load(const std::string& model_version);
  JobResult drop(const std::string& model_version);
  BatchDone run_batch(const RunBatch& batch, std::uint32_t lane) const;
  void run_model(const RunBatch& batch, std::span<const std::size_t> requests, kernels::Decoder& decoder,
                 BatchDone& done) const;
  void prepare(const BatchRequest& request, const kernels::DecoderConfig& config, Prepared& prepared,
               BatchReply& reply) const;
  void prepare_pages(const BatchRequest& request, Prepared& prepared, BatchReply& reply) const;
  void collect(const BatchRequest& request, const kernels::Logits& logits, BatchReply& reply) const;

  const std::string first_version_;
  const kernels::KvLayout layout_;
  PageArena& arena_;
  const std::uint32_t lanes_;
  const bool verify_on_read_;
  const Loader loader_;
  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Executors>> models_;  // guarded by mutex_
};

}  // namespace troupe::actors
