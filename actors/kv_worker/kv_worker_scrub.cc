// Scrubbing by the KV-cache worker: verifies blocks in its memory again, first those that a remote
// reader suspects, then all others in order. A corrupt block is quarantined, so that no request
// finds it again.
#include "actors/kv_worker/kv_worker_core.h"

namespace troupe::actors {
namespace {

constexpr std::uint64_t scrub_timer = 4;

}  // namespace

void KvWorkerCore::scrub(Instant now, Effects& effects) {
  if (!scrub_.on() || scrub_.running() || now < scrub_.due()) return;
  CheckBlocks work = scrub_.next(now, pool_);
  if (const auto round = scrub_.take_round())
    effects.count(Metric::scrub_round_seconds, static_cast<double>(round->us) * 1e-6);
  if (work.blocks.empty()) return effects.set_timer(scrub_timer, scrub_.due());
  effects.start(scrub_job_ = next_serial_++, std::move(work));
}

// A refused job says nothing about the blocks.
void KvWorkerCore::on_scrubbed(Instant now, const JobResult& result, Effects& effects) {
  scrub_job_ = 0;
  const std::vector<std::uint64_t> bad = scrub_.end(now, result, pool_);
  if (const auto* checked = std::get_if<BlockCheckResult>(&result))
    effects.count(Metric::blocks_scrubbed, static_cast<double>(checked->ok.size()));
  for (const std::uint64_t generation : bad) {
    const auto found = pool_.ready_after(generation - 1, 1);
    if (!found.empty() && found[0]->generation == generation) quarantine(*found[0], "memory", effects);
  }
  effects.set_timer(scrub_timer, scrub_.due());
}

}  // namespace troupe::actors
