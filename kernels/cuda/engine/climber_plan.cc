// Converts the plan of a Climber pass to the plain arrays that the device reads. Pads each tower's
// rows to multiples of 16, where matrix products may begin.
#include "kernels/cuda/engine/climber_plan.h"

#include "kernels/base/check.h"
#include "kernels/cuda/engine/pass_plan.h"

namespace troupe::kernels::cuda {
namespace {

std::uint32_t with_gap(std::uint32_t rows) {
  return (rows + climber_row_step - 1) / climber_row_step * climber_row_step;
}

std::string climber_beyond(const char* what, std::size_t found, std::size_t most) {
  return "a pass of " + std::to_string(found) + " " + what + "; expected at most " + std::to_string(most);
}

}  // namespace

ClimberPassPlan::ClimberPassPlan(const ClimberConfig& config, const KvLayout& layout,
                                 const AttendMachine& machine, const ClimberBounds& bounds,
                                 std::span<std::byte* const> scratch)
    : c_(config),
      layout_(layout),
      machine_(machine),
      bounds_(bounds),
      scratch_(scratch.begin(), scratch.end()) {
  TROUPE_CHECK(scratch.size() == layout.pages_for(bounds.rows), "scratch pages hold every row");
  std::uint32_t first = 0;
  for (const ClimberTower& tower : c_.towers) {
    first_position_.push_back(first);
    first += tower.positions + 1;
  }
}

std::string ClimberPassPlan::plan(const ClimberBatch& batch) {
  place_towers(batch);
  if (rows() > bounds_.rows) return climber_beyond("rows", rows(), bounds_.rows);
  fill_rows(batch);
  list_keys(batch);
  if (keys_.size() > bounds_.keys) return climber_beyond("keys", keys_.size(), bounds_.keys);
  plan_attention(machine_, groups_, begin_, end_, attend_[0]);
  plan_attention(machine_, last_groups_, begin_, end_, attend_[1]);
  return "";
}

void ClimberPassPlan::place_towers(const ClimberBatch& batch) {
  towers_.clear();
  candidates_ = with_gap(batch.candidates);
  row_at_.resize(batch.rows());
  std::uint32_t next = 0;
  for (const ClimberRows& rows : batch.towers) {
    ClimberTowerRows& tower = towers_.emplace_back();
    tower.begin = next;
    tower.candidates = next + with_gap(rows.candidates - rows.begin);
    next = tower.end = tower.candidates + candidates_;
    for (std::uint32_t row = rows.begin; row < rows.end; ++row)
      row_at_[row] =
          row < rows.candidates ? tower.begin + row - rows.begin : tower.candidates + row - rows.candidates;
  }
}

// Fills the rows' arrays. Kept rows have slots in their pages, other rows in scratch pages.
void ClimberPassPlan::fill_rows(const ClimberBatch& batch) {
  for (auto* numbers : {&tokens_, &actions_, &positions_, &scale_rows_, &begin_, &end_})
    numbers->assign(rows(), 0);
  slots_.assign(rows(), nullptr);
  cleared_.clear();
  for (const KeptSegment& kept : batch.kept)
    place_kept(layout_, kept, slots_.data() + row_at_[kept.row], cleared_);
  std::uint32_t scratch = 0;
  for (const ClimberGroup& group : batch.groups)
    for (std::uint32_t row = group.row_begin; row < group.row_end; ++row) {
      const std::uint32_t at = row_at_[row];
      tokens_[at] = static_cast<std::uint32_t>(batch.tokens[row]), actions_[at] = batch.actions[row];
      positions_[at] = first_position_[group.tower] + batch.positions[row];
      scale_rows_[at] = (group.tower * c_.scenarios + group.scenario) * c_.layers;
      begin_[at] = batch.visible_begin[row], end_[at] = batch.visible_end[row];
      if (slots_[at] != nullptr) continue;
      slots_[at] =
          scratch_[scratch / layout_.page_tokens] + scratch % layout_.page_tokens * layout_.vector_bytes();
      ++scratch;
    }
}

void ClimberPassPlan::list_keys(const ClimberBatch& batch) {
  keys_.clear(), groups_.clear(), last_groups_.clear();
  for (const ClimberGroup& group : batch.groups) {
    const std::uint32_t first = size32(keys_), row = row_at_[group.row_begin];
    for (std::uint32_t s = group.span_begin; s < group.span_end; ++s) {
      const ContextSpan& span = batch.spans[s];
      for (std::uint32_t t = 0; t < span.tokens; ++t)
        keys_.push_back(span.page != nullptr ? span.page + (span.slot + t) * layout_.vector_bytes()
                                             : slots_[row_at_[span.row + t]]);
    }
    const std::uint32_t context = size32(keys_) - first, tail = group.row_end - group.row_begin;
    keys_.insert(keys_.end(), slots_.begin() + row, slots_.begin() + row + tail);
    groups_.push_back({row, row + tail, first, context, tail});
    if (group.candidates) last_groups_.push_back(groups_.back());
  }
}

void ClimberPassPlan::send(Stream& stream) {
  upload_.begin();
  at_.tokens = upload_.put(tokens_), at_.actions = upload_.put(actions_),
  at_.positions = upload_.put(positions_);
  at_.scale_rows = upload_.put(scale_rows_), at_.slots = upload_.put(slots_);
  at_.cleared = upload_.put(cleared_),
  at_.cleared_count = upload_.put(std::vector<std::uint32_t>{size32(cleared_)});
  at_.begin = upload_.put(begin_), at_.end = upload_.put(end_), at_.keys = upload_.put(keys_);
  for (const int last : {0, 1}) {
    at_.items[last] = upload_.put(attend_[last].items);
    at_.tiles[last] = upload_.put(attend_[last].key_tiles);
    at_.merges[last] = upload_.put(attend_[last].merges);
  }
  upload_.send(stream);
}

AttendPass ClimberPassPlan::attention(bool last) const {
  const AttendPlan& plan = attend_[last ? 1 : 0];
  return {.addresses = upload_.at<const std::byte*>(at_.keys),
          .items = upload_.at<AttendItem>(at_.items[last ? 1 : 0]),
          .key_tiles = upload_.at<KeyTile>(at_.tiles[last ? 1 : 0]),
          .merges = upload_.at<AttendMerge>(at_.merges[last ? 1 : 0]),
          .visible_begin = upload_.at<std::uint32_t>(at_.begin),
          .visible_end = upload_.at<std::uint32_t>(at_.end),
          .item_count = size32(plan.items),
          .merge_count = size32(plan.merges),
          .tile_vectors = plan.tile_vectors};
}

}  // namespace troupe::kernels::cuda
