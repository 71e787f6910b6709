#pragma once
// The inference worker takes plans, gets hold of the blocks that they may reuse, and runs them on its device
// in batches. A plan that has to wait for blocks does not hold up one that has not; a plan whose time is over
// is refused before it costs anything.
//
// A batch is formed when a lane is free, of plans that are ready, first come first, serving before
// background:
//   - at most ⌈ready / free lanes⌉ plans, so that idle lanes share what waits (one plan each while lanes are
//   idle);
//   - at most `batch_tokens_max` newly computed tokens (BAT §5.1: max-batched-tokens), but at least one plan;
//   - background plans only when no serving plan is ready, at most `background_max` at a time. Such a plan
//   asks for its blocks when it has its turn, and then runs next: otherwise serving plans would wait for
//   blocks whose writer waits for them to pass.
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/core.h"

namespace troupe::actors {

struct InferenceConfig {
  NodeId node = 1;
  std::uint64_t first_id = 1;        // of its requests; another one at each start of the process
  std::uint32_t lanes = 1;           // executors of the compute port
  std::uint32_t background_max = 1;  // background plans that have begun and not ended
  std::uint32_t queue_max = 256;     // serving plans that are not running yet; more are refused
  std::uint32_t background_queue_max = 16;
  std::uint32_t batch_tokens_max = 4'000;
  std::uint32_t batch_requests_max = 32;
  Duration block_wait{100'000};    // for blocks that others compute; at most half of a plan's time
  Duration acquire_grace{20'000};  // beyond that, for the KV-cache worker's answer
  Duration lease{30'000'000};      // the KV-cache worker's: grants are not used past half of it
};

class InferenceCore final : public Core {
 public:
  explicit InferenceCore(InferenceConfig config);
  void step(Instant now, const Event& event, Effects& effects) override;

 private:
  using Serial = std::uint64_t;
  enum class State : std::uint8_t { arrived, acquiring, ready, running };
  struct Task {
    Address from;
    Execute plan;  // its segments and readouts move into the batch
    State state = State::arrived;
    bool holds_grants = false;  // blocks were acquired and not released
    Instant received, deadline, ready_at, started;
    std::vector<BlockWant> wants;                     // one per name
    std::vector<std::optional<std::size_t>> want_of;  // per segment
    std::vector<std::size_t> writer_of;               // per want: the first segment of that name
    std::vector<BlockGrant> grants;                   // per want
    std::uint32_t new_tokens = 0;                     // that are computed, given the grants
  };
  using Queue = std::deque<Serial>;  // may name tasks that have ended

  void on_message(Instant now, const Received& received, Effects& effects);
  void on_execute(Instant now, Address from, const Execute& plan, Effects& effects);
  static void collect_wants(Task& task);
  void begin(Instant now, Serial serial, Task& task, Effects& effects);
  void acquire(Instant now, Serial serial, Task& task, Effects& effects);
  void on_acquired(Instant now, Address from, const BlocksAcquired& acquired, Effects& effects);
  void on_timer(Instant now, std::uint64_t timer, Effects& effects);
  void make_ready(Instant now, Serial serial, Task& task);
  static bool is_reused(const Task& task, std::size_t segment);

  void run_ready(Instant now, Effects& effects);
  bool begin_background(Instant now, Effects& effects);
  std::vector<Serial> take_batch(Instant now, Queue& queue, Effects& effects);
  void drop_ended(Instant now, Queue& queue, Effects& effects);
  void start_batch(Instant now, const std::vector<Serial>& batch, Effects& effects);
  BatchRequest batch_request(Task& task) const;
  void on_batch_done(Instant now, const Done& done, Effects& effects);
  void finish(Instant now, Serial serial, const BatchReply& reply, std::int64_t compute_us, Effects& effects);

  void refuse(Serial serial, Refusal refusal, Effects& effects);  // and ends the task
  void release(Serial serial, Task& task, std::vector<BlockOutcome> outcomes, Effects& effects);
  void end(Serial serial);
  void lose(NodeId node, Effects& effects);
  std::uint32_t& waiting(Priority priority) { return waiting_[priority == Priority::background]; }
  StatusReply status(RequestId id) const;
  Address kv_worker() const { return {config_.node, Role::kv_worker}; }

  InferenceConfig config_;
  Serial next_serial_;  // of a task or a job
  std::map<Serial, Task> tasks_;
  std::map<std::pair<Address, RequestId>, Serial> serials_;
  Queue serving_, background_;                     // ready tasks
  Queue background_arrived_;                       // that have not begun
  std::uint32_t background_begun_ = 0;             // and not ended
  std::map<Serial, std::vector<Serial>> batches_;  // running jobs
  std::uint32_t waiting_[2] = {0, 0};              // tasks not running yet: serving, background
  std::uint32_t told_depth_ = 0;                   // of the serving queue, as last counted
  std::uint64_t executed_ = 0;
};

}  // namespace troupe::actors
