#pragma once
// Per-thread state of a forward pass: working memory, so that threads neither allocate nor share
// it, and the CPU time of each kind of work (PassTimes).
#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "kernels/base/thread_clock.h"
#include "kernels/cpu/engine/decoder_buffer.h"
#include "kernels/decoder/decoder.h"
#include "kernels/operations/attend.h"

namespace troupe::kernels {

struct Workspace {
  FloatBuffer normed;              // [rows of a chunk] × hidden; a chunk is computed by one thread
  FloatBuffer gate_up, activated;  // [rows of a chunk] × 2*intermediate, intermediate
  AttendScratch attend;
  std::vector<KvRun> context, tail;  // keys and values of the current attention
  std::vector<float*> logits;        // [state of a readout]: where its logits are written
  FloatBuffer dots;                  // beam search: logits of a few rows for one slice of the vocabulary
  PassTimes times;
};

// Gives every worker the capacity that any of them needed so far, of each vector that a function in `of`
// returns of a worker. Which worker takes which part is chance: without this, one that takes its first
// large part in a late pass would allocate there. Memory that is never touched takes no pages.
template <class Worker, class... Of>
void share_capacity(std::span<Worker> workers, Of... of) {
  const auto reserve = [&](auto one) {
    std::size_t most = 0;
    for (Worker& w : workers) most = std::max(most, one(w).capacity());
    for (Worker& w : workers) one(w).reserve(most);
  };
  (reserve(of), ...);
}

// The same of what attention needs in any family, and of the further vectors.
template <class Worker, class... Of>
void share_attention_capacity(std::span<Worker> workers, Of... further) {
  share_capacity(
      workers, [](Worker & w) -> auto& { return w.attend.floats; },
      [](Worker & w) -> auto& { return w.context; }, [](Worker & w) -> auto& { return w.tail; }, further...);
}

inline void share_capacity(std::span<Workspace> workers) {
  share_attention_capacity(
      workers, [](Workspace & w) -> auto& { return w.logits; });
  std::size_t dots = 0;
  for (const Workspace& w : workers) dots = std::max(dots, w.dots.floats());
  for (Workspace& w : workers) w.dots.reserve(dots);
}

// Adds the workers' times to `times`, and starts theirs again.
template <class Worker>
void collect_times(std::span<Worker> workers, PassTimes& times) {
  for (Worker& w : workers) {
    for (const auto part :
         {&PassTimes::planning, &PassTimes::embedding, &PassTimes::linear, &PassTimes::attention,
          &PassTimes::elementwise, &PassTimes::keys_values, &PassTimes::readout, &PassTimes::search})
      times.*part += w.times.*part;
    w.times = {};
  }
}

// Adds the CPU time of its scope to one member of PassTimes; does nothing if `part` is null.
class PartTimer {
 public:
  explicit PartTimer(double* part) : part_(part), begin_(part != nullptr ? thread_cpu_seconds() : 0) {}
  ~PartTimer() {
    if (part_ != nullptr) *part_ += thread_cpu_seconds() - begin_;
  }
  PartTimer(const PartTimer&) = delete;
  PartTimer& operator=(const PartTimer&) = delete;

 private:
  double* part_;
  double begin_;
};

}  // namespace troupe::kernels
