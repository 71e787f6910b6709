#pragma once
// The interface of every model architecture: an executor answers several requests at a time, each a
// plan whose segments are computed now or taken from cached pages. Each architecture decides what
// it computes with, how many forward passes that takes, and what lies in a page. The executor
// CHECKs shapes and sources; plans from outside must pass validate first.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/base/path_index.h"
#include "kernels/base/plan.h"

namespace troupe::kernels {

// The layout of pages as seen by code that moves, counts and checksums them: so many bytes for so
// many tokens of one block. `content` names what the architecture keeps there; layouts that differ
// in it are incompatible.
struct PageLayout {
  std::size_t bytes = 0;  // size of a page
  std::uint32_t page_tokens = 0;
  std::string content;

  std::size_t page_bytes() const { return bytes; }
  std::size_t token_bytes() const { return bytes / page_tokens; }
  std::size_t pages_for(std::size_t tokens) const { return (tokens + page_tokens - 1) / page_tokens; }
  bool operator==(const PageLayout&) const = default;
};

enum class Source : std::uint8_t {
  compute,  // compute the segment; if `pages` is not empty, also leave there what later requests need of it
  cached    // take it from `pages`; its tokens are not computed
};

struct SegmentKv {
  Source source = Source::compute;
  std::vector<std::byte*>
      pages;  // layout.pages_for(tokens) addresses, 64-byte aligned; may be empty for compute
};

// Cached pages of a request that are still in flight, each filled from its beginning.
class PagesInFlight {
 public:
  virtual ~PagesInFlight() = default;
  // Waits until the first `bytes` bytes of each page have arrived. Returns false if they will not
  // arrive; the pass is then abandoned.
  virtual bool wait(std::size_t bytes) = 0;
};

// Thrown by run() when pages will not arrive. The executor stays usable; pages that the pass should
// have filled are not filled.
struct PagesNotArrived : std::runtime_error {
  PagesNotArrived() : std::runtime_error("cached keys and values did not arrive") {}
};

// Data that a model computes with beside its weights, made from one state of the catalog.
// Immutable.
class CatalogAssets {
 public:
  virtual ~CatalogAssets() = default;
  // Returns the identifiers of the items, which a search may return; null: these assets have none.
  virtual std::shared_ptr<const PathIndex> paths() const { return nullptr; }
};

// Assets of an architecture that needs only the paths of its searches from a catalog.
class PathAssets final : public CatalogAssets {
 public:
  explicit PathAssets(std::shared_ptr<const PathIndex> paths) : paths_(std::move(paths)) {}
  std::shared_ptr<const PathIndex> paths() const override { return paths_; }

 private:
  const std::shared_ptr<const PathIndex> paths_;
};

// One request of a batch. A cached segment must not have a readout.
struct Request {
  const Plan* plan = nullptr;
  std::vector<SegmentKv> kv;  // one per segment
  // Assets of the catalog that the plan was made against; null: the plan needs none.
  std::shared_ptr<const CatalogAssets> assets = nullptr;
  // Not null: cached pages are in flight; wait for them before reading. Only for executors that
  // wait by layer.
  PagesInFlight* in_flight = nullptr;

  // Returns the paths that the plan's search may return if the plan itself does not name them;
  // null: any tokens of the vocabulary.
  std::shared_ptr<const PathIndex> paths() const {
    return assets && plan->search.wants_index() ? assets->paths() : nullptr;
  }
};

struct Reply {
  std::vector<std::vector<float>> readouts;  // [readout][row], in plan order
  // Results of the plan's search, best first, at most as many as were asked for; fewer if there are
  // no more paths.
  std::vector<Beam> beams;
  // Tokens that the plan's repair chose, ascending: numbers among the tokens of all its spans.
  std::vector<std::uint32_t> chosen;
  // Not empty: the request is too large for this executor even alone. Says what was found and what
  // was expected; pages that the request should have filled must not be used.
  std::string too_large;
};

// CPU seconds of passes by part, over all threads that took part; on a device, device seconds.
struct PassTimes {
  double planning = 0, embedding = 0, linear = 0, attention = 0, elementwise = 0, keys_values = 0,
         readout = 0, search = 0;
};

class Executor {
 public:
  virtual ~Executor() = default;
  virtual PlanLimits limits() const = 0;
  // Returns what this architecture does not accept of a plan within the limits; empty: nothing.
  // Plans from outside must pass it before they run.
  virtual std::string fault(const Plan&) const { return ""; }
  virtual const PageLayout& layout() const = 0;
  // Returns true if run() waits for Request::in_flight before it reads a layer. Other executors need
  // all pages filled.
  virtual bool waits_by_layer() const { return false; }
  // Computes all requests: replies[i] becomes the answer to batch[i], and its memory is reused. An
  // answer does not depend on the other requests (up to rounding). May take as many passes as the
  // executor's limits require; it allocates its own working memory, within those limits. Not safe
  // to call from two threads at once; make one executor per thread with `share`.
  virtual void run(std::span<const Request> batch, std::vector<Reply>& replies) = 0;
  std::vector<Reply> run(std::span<const Request> batch) {
    std::vector<Reply> replies;
    run(batch, replies);
    return replies;
  }
  // Adds the times of later passes to *times, which must outlive them; null stops measuring.
  virtual void measure(PassTimes* times) = 0;
  // Returns executor number `executor` over the same weights, with its own buffers. This one is
  // number 0.
  virtual std::unique_ptr<Executor> share(std::uint32_t executor) const = 0;
};

// Counts the tokens that are computed for a request: the sum over segments whose source is compute.
std::size_t computed_tokens(const Request& request);
std::size_t computed_tokens(std::span<const Request> requests);  // of all of them

}  // namespace troupe::kernels
