#pragma once
// Bounds the share of its time for which a thread that serves sockets runs actors itself. Running the
// actor that a message or pages wake on the thread that has read them costs less than waking another
// thread. But the sockets wait meanwhile: after each run there is a pause of half its length, in which
// other threads run the actors. So at most two thirds of the thread's time go to actors.
#include <chrono>

namespace troupe {

class InlineRuns {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // Returns false during the pause after a run.
  bool may_run(Time now) const { return now >= pause_ends_; }
  void note_run(Time begin, Time end) { pause_ends_ = end + (end - begin) / 2; }

 private:
  Time pause_ends_;
};

}  // namespace troupe
