#pragma once
// The decoder behind one interface for every backend: several plans in one forward pass, each segment either
// computed or taken from cached pages, computed segments optionally kept in pages. Shapes and sources are checked
// (CHECK) here; plans from outside go through find_fault first.
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/base/number_formats.h"
#include "kernels/base/plan.h"
#include "kernels/checkpoint/model.h"
#include "kernels/operations/kv_layout.h"

namespace troupe::kernels {

enum class Source : std::uint8_t {
  compute,   // compute keys and values; if `pages` is not empty, also leave them there
  cached     // read keys and values from `pages`; the segment's tokens are not computed
};

struct SegmentKv {
  Source source = Source::compute;
  std::vector<std::byte*> pages;   // layout.pages_for(tokens) addresses, 64-byte aligned; may be empty for compute
};

// One request of a batch. A cached segment must not have a readout.
struct Request {
  const Plan* plan = nullptr;
  std::vector<SegmentKv> kv;               // one per segment
};

struct Logits {
  std::vector<std::vector<float>> readouts;   // [readout][row], in plan order
};

// Where the time of forward passes went, in CPU seconds of all threads that took part.
struct ForwardTimes {
  double planning = 0, embedding = 0, linear = 0, attention = 0, elementwise = 0, keys_values = 0, readout = 0;
};

class Decoder {
 public:
  virtual ~Decoder() = default;
  virtual const DecoderConfig& config() const = 0;
  virtual const KvLayout& layout() const = 0;
  // Computes all requests in one pass: logits[i] becomes the answer to batch[i], and its memory is used again. The
  // result of each does not depend on the others (up to rounding). Not safe to call from two threads at once; make
  // one decoder per executor with `share`.
  virtual void forward(std::span<const Request> batch, std::vector<Logits>& logits) = 0;
  std::vector<Logits> forward(std::span<const Request> batch) {
    std::vector<Logits> logits;
    forward(batch, logits);
    return logits;
  }
  // From now on adds what passes take to *times, which outlives them; null stops it.
  virtual void measure(ForwardTimes* times) = 0;
  // The executor of that number over the same packed weights, with its own buffers. The first is number 0; others
  // are spread over the memory nodes of the machine.
  virtual std::unique_ptr<Decoder> share(std::uint32_t executor) const = 0;
};

struct DecoderOptions {
  std::uint32_t page_tokens = 4;
  KvFormat kv = KvFormat::f32;
  WeightFormat weights = WeightFormat::f32;
  // Cores that a decoder and those shared from it may use. A pass runs on the thread that calls forward, and is
  // split among the cores that no other pass keeps busy at the time.
  std::uint32_t cores = 1;
  // Executors that there will be, this decoder and those shared from it. Where there are at least as many as the
  // machine has memory nodes, each stays on one, with the threads that run its passes: a thread that calls forward
  // is kept on the node's CPUs from then on.
  std::uint32_t executors = 1;
};

// What else int8 weights mean on this CPU, for the names of blocks: they have 7 bits where its products of bytes
// are summed in 16 bits. Empty for float32.
std::string weight_variant(WeightFormat format);

// CPU backend. Takes the weights (packs them once, keeps no second copy).
std::unique_ptr<Decoder> make_cpu_decoder(DecoderModel model, const DecoderOptions& options);

// Tokens that `forward` computes for a request: the sum over segments whose source is compute.
std::size_t computed_tokens(const Request& request);

}  // namespace troupe::kernels
