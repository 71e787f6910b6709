#pragma once
// What each thread of a forward pass has for itself: working memory, and the times of the parts it did.
#include <time.h>

#include <vector>

#include "kernels/attend.h"
#include "kernels/cpu/decoder_buffer.h"
#include "kernels/decoder.h"

namespace troupe::kernels {

struct Workspace {
  FloatBuffer normed;              // [rows of a chunk] × hidden
  FloatBuffer gate_up, activated;  // [rows of a chunk] × 2*intermediate, intermediate
  AttendScratch attend;
  std::vector<KvRun> context;
  std::vector<float*> logits;
  ForwardTimes times;
};

// Adds the CPU time of one stretch of work to a part of the times; nothing where `part` is null. CPU time, so
// that other programs on the machine do not count; reading it takes some 0.2 us.
class PartTimer {
 public:
  explicit PartTimer(double* part) : part_(part), begin_(part != nullptr ? now() : 0) {}
  ~PartTimer() {
    if (part_ != nullptr) *part_ += now() - begin_;
  }
  PartTimer(const PartTimer&) = delete;
  PartTimer& operator=(const PartTimer&) = delete;

 private:
  static double now() {
    timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
  }

  double* part_;
  double begin_;
};

}  // namespace troupe::kernels
