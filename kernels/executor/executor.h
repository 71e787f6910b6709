#pragma once
// What every model family looks like to those who run it: an executor answers several requests at a time,
// each a plan whose segments are computed now or taken from cached pages. What a family computes with, how
// many forward passes that takes, and what lies in a page are its own affair. Shapes and sources are checked
// (CHECK) by the executor; plans from outside go through find_fault first.
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

// Pages as everybody sees them who moves, counts and sums them: so many bytes for so many tokens of one
// block. `content` says what the family keeps there; layouts that differ in it are not each other's.
struct PageLayout {
  std::size_t bytes = 0;  // of a page
  std::uint32_t page_tokens = 0;
  std::string content;

  std::size_t page_bytes() const { return bytes; }
  std::size_t token_bytes() const { return bytes / page_tokens; }
  std::size_t pages_for(std::size_t tokens) const { return (tokens + page_tokens - 1) / page_tokens; }
  bool operator==(const PageLayout&) const = default;
};

enum class Source : std::uint8_t {
  compute,  // compute the segment; if `pages` is not empty, also leave there what others need of it
  cached    // take it from `pages`; its tokens are not computed
};

struct SegmentKv {
  Source source = Source::compute;
  std::vector<std::byte*>
      pages;  // layout.pages_for(tokens) addresses, 64-byte aligned; may be empty for compute
};

// Cached pages of a request that are still being filled, from their beginnings on.
class ComingPages {
 public:
  virtual ~ComingPages() = default;
  // Waits until the first `bytes` bytes of each of them are there. False: they will not be, and the pass is
  // in vain.
  virtual bool wait(std::size_t bytes) = 0;
};

// Thrown by run() when they will not be. The executor is as it was; what was to be left in pages is not.
struct PagesMissing : std::runtime_error {
  PagesMissing() : std::runtime_error("cached keys and values did not come") {}
};

// What a model computes with beside its weights, and makes of a state of the catalog. It never changes.
class CatalogAssets {
 public:
  virtual ~CatalogAssets() = default;
  // What a search may return: the identifiers of the items. Null: these assets have none.
  virtual std::shared_ptr<const PathIndex> paths() const { return nullptr; }
};

// Of a family that needs no more of a catalog than what its searches may return.
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
  // Of the catalog that the plan was made against; null: the plan needs none.
  std::shared_ptr<const CatalogAssets> assets = nullptr;
  // Not null: cached pages may be read only as far as these say. For executors that wait by layer.
  ComingPages* coming = nullptr;

  // What the plan's search may return where it does not say so itself; null: all tokens of the vocabulary.
  std::shared_ptr<const PathIndex> paths() const {
    return assets && plan->search.wants_index() ? assets->paths() : nullptr;
  }
};

struct Reply {
  std::vector<std::vector<float>> readouts;  // [readout][row], in plan order
  // Of the plan's search, the best first, at most as many as were asked for. Fewer: there are no more paths.
  std::vector<Beam> beams;
  // Of the plan's repair: the tokens that were chosen, by their numbers among all tokens of its places;
  // ascending.
  std::vector<std::uint32_t> chosen;
  // Not empty: this executor has no room for the request, however few run with it. What was found, what was
  // expected; the pages that it should have left are not to be used.
  std::string too_large;
};

// Where the time of passes went, in CPU seconds of all threads that took part; on a device in its own.
struct PassTimes {
  double planning = 0, embedding = 0, linear = 0, attention = 0, elementwise = 0, keys_values = 0,
         readout = 0, search = 0;
};

class Executor {
 public:
  virtual ~Executor() = default;
  virtual PlanLimits limits() const = 0;
  // What a plan within the limits has that this family does not take; empty: nothing. Plans from outside are
  // asked for it before they are run.
  virtual std::string fault(const Plan&) const { return ""; }
  virtual const PageLayout& layout() const = 0;
  // Whether run() heeds Request::coming, and waits for each layer before it reads it. The others want all
  // pages there.
  virtual bool waits_by_layer() const { return false; }
  // Computes all requests: replies[i] becomes the answer to batch[i], and its memory is used again. The
  // answer to each does not depend on the others (up to rounding). It may take as many passes as the
  // executor's bounds ask for; its working memory is its own, and within those. Not safe to call
  // from two threads at once; make one executor per lane with `share`.
  virtual void run(std::span<const Request> batch, std::vector<Reply>& replies) = 0;
  std::vector<Reply> run(std::span<const Request> batch) {
    std::vector<Reply> replies;
    run(batch, replies);
    return replies;
  }
  // From now on adds what passes take to *times, which outlives them; null stops it.
  virtual void measure(PassTimes* times) = 0;
  // The executor of that number over the same weights, with its own buffers. The first is number 0.
  virtual std::unique_ptr<Executor> share(std::uint32_t executor) const = 0;
};

// Tokens that are computed for a request: the sum over segments whose source is compute.
std::size_t computed_tokens(const Request& request);

}  // namespace troupe::kernels
