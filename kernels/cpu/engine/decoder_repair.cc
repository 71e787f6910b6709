// Plans with a repair on the CPU (base/repair.h). All tokens of their spans begin as rows; those
// that are not chosen end in an early layer. The remaining rows move together, so that linear
// layers and attention compute only these. At each layer the ended rows get their block's keys and
// values in the pass's LayerKv, so attention reads them in one run with all others. Operations: a
// row that ends saves those of all later layers; what remains is copying its keys and values, 2 per
// number, 8 with a mean.
#include <algorithm>

#include "kernels/cpu/engine/decoder.h"

namespace troupe::kernels {
namespace {

constexpr std::size_t spans_at_once = 8;

}  // namespace

// Called after a layer's keys and values are made, before attention.
void CpuDecoder::repair_keys(Team::Pass& pass, std::uint32_t layer) {
  const std::size_t parts = (repairs_.reused_spans() + spans_at_once - 1) / spans_at_once;
  const double operations = 8.0 * static_cast<double>(2 * kv_width() * batch_->rows());
  const auto for_places = [&](auto&& work) {
    pass.run(parts, operations, [&](std::size_t part, std::uint32_t worker) {
      Workspace& w = workspaces_[worker];
      PartTimer timer(timed(w, &PassTimes::keys_values));
      const std::size_t end = std::min<std::size_t>((part + 1) * spans_at_once, repairs_.reused_spans());
      for (std::size_t reused = part * spans_at_once; reused < end; ++reused)
        work(static_cast<std::uint32_t>(reused), w.context);
    });
  };
  if (layer == 1 && repairs_.needs_divergence())
    for_places([&](std::uint32_t reused, std::vector<KvRun>& runs) { repairs_.compare(reused, runs); });
  ended_.clear();
  repairs_.choose_after_keys(layer, ended_);
  if (!is_last(layer)) end_rows(pass, KeptOutputs::queries);
  if (!repairs_.fills(layer)) return;
  pass.run(repairs_.means(), operations, [&](std::size_t mean, std::uint32_t worker) {
    PartTimer timer(timed(workspaces_[worker], &PassTimes::keys_values));
    repairs_.find_mean(mean, layer, workspaces_[worker].context);
  });
  for_places([&](std::uint32_t reused, std::vector<KvRun>& runs) { repairs_.fill(reused, layer, runs); });
}

// Called after the first layer's attention.
void CpuDecoder::repair_after_attention(Team::Pass& pass) {
  if (is_last(0)) return;
  repairs_.sum_mass(set_ != nullptr ? some_rows_ : all_rows_);
  ended_.clear();
  repairs_.choose_after_attention(ended_);
  end_rows(pass, KeptOutputs::mixed);
}

void CpuDecoder::end_rows(Team::Pass& pass, KeptOutputs carried) {
  if (ended_.empty()) return;
  std::ranges::sort(ended_);
  RowSet& next = some_[set_ == &some_[0] ? 1 : 0];
  remaining_rows(*batch_, set_, ended_, next);
  keep_rows(next, carried);
  std::vector<std::uint32_t>& positions = ended_;
  positions.clear();
  for (const std::uint32_t row : next.rows) positions.push_back(batch_->positions[row]);
  some_rope_.gather(positions);
  cut_attention(*batch_, set_, c_.heads, c_.kv_heads, pass.workers(), some_rows_);
  set_chunks(pass.workers());
}

void CpuDecoder::note_chosen(std::span<Reply> replies) {
  for (std::size_t r = 0; r < batch_->repairs.size(); ++r)
    repairs_.list_chosen(r, replies[batch_->repairs[r].request].chosen);
}

}  // namespace troupe::kernels
