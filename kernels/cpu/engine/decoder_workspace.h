#pragma once
// Per-thread state of a forward pass: working memory, and the times of the parts that the thread
// computed.
#include <vector>

#include "kernels/base/thread_clock.h"
#include "kernels/cpu/engine/decoder_buffer.h"
#include "kernels/decoder/decoder.h"
#include "kernels/operations/attend.h"

namespace troupe::kernels {

struct Workspace {
  FloatBuffer normed;              // [rows of a chunk] × hidden
  FloatBuffer gate_up, activated;  // [rows of a chunk] × 2*intermediate, intermediate
  AttendScratch attend;
  std::vector<KvRun> context, tail;
  std::vector<float*> logits;
  FloatBuffer dots;  // for beams: [rows of a block] × vocabulary rows of a part
  PassTimes times;
};

// Adds the CPU time of its scope to a part of the times; does nothing if `part` is null.
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
