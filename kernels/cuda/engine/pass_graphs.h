#pragma once
// Keeps recordings of passes by shape. The first pass of a shape runs unrecorded, which also loads
// its kernels and chooses its products' algorithms. The second pass is recorded; from then on a
// pass is one launch. The cache is bounded; the least recently used shape is dropped. A shape whose
// first pass could not be enqueued is not remembered, so that its one-time preparation never
// happens inside a recording. A shape that cannot be recorded always runs unrecorded.
#include <algorithm>
#include <functional>
#include <memory>
#include <vector>

#include "kernels/cuda/device/device.h"
#include "kernels/cuda/engine/pass_plan.h"

namespace troupe::kernels::cuda {

template <class Shape>
class ShapeGraphs {
 public:
  explicit ShapeGraphs(std::uint32_t most) : most_(most) {}

  // Runs the commands of `enqueue` for a pass of this shape, directly or from the recording.
  void run(const Shape& shape, Stream& stream, const std::function<void()>& enqueue) {
    Entry* const entry = find(shape);
    if (entry == nullptr) {
      enqueue();
      remember(shape);
      return;
    }
    entry->used = ++now_;
    if (entry->graph == nullptr && entry->recordable) record(*entry, stream, enqueue);
    if (entry->graph == nullptr)
      enqueue();
    else
      entry->graph->launch(stream);
  }

 private:
  struct Entry {
    Shape shape;
    std::uint64_t used = 0;  // time of the last use; larger is later
    std::unique_ptr<Graph> graph;
    bool recordable = true;
  };

  static void record(Entry& entry, Stream& stream, const std::function<void()>& enqueue) {
    try {
      entry.graph = std::make_unique<Graph>(stream, enqueue);
    } catch (const DeviceError&) {
      entry.recordable = false;
    }
  }

  Entry* find(const Shape& shape) {
    const auto found =
        std::find_if(entries_.begin(), entries_.end(), [&](auto& e) { return e.shape == shape; });
    return found == entries_.end() ? nullptr : &*found;
  }
  void remember(const Shape& shape) {
    if (most_ == 0) return;
    if (entries_.size() == most_)
      entries_.erase(std::min_element(entries_.begin(), entries_.end(),
                                      [](auto& a, auto& b) { return a.used < b.used; }));
    entries_.push_back({shape, ++now_, nullptr, true});
  }

  const std::uint32_t most_;
  std::uint64_t now_ = 0;
  std::vector<Entry> entries_;
};
using PassGraphs = ShapeGraphs<PassShape>;

}  // namespace troupe::kernels::cuda
