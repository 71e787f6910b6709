// Runs passes on the device whose reused blocks are repaired (RcLLM §III-C): chosen tokens are
// computed again, all others take their block's keys and values. The host chooses the tokens from
// downloaded measurements.
#include "kernels/cuda/engine/device_repairs.h"

#include <algorithm>

#include "kernels/base/check.h"

namespace troupe::kernels::cuda {
namespace {

constexpr std::uint32_t no_row = ~0u;

void allocate_mass(DeviceMemory& memory, std::size_t bytes) {
  if (memory.size_bytes() < bytes) memory = DeviceMemory(bytes + bytes / 2);
}

}  // namespace

void DeviceRepairs::run(DecoderPass& pass, const PassCall& call, const DecoderBatch& batch,
                        const PassPlanner& plans) {
  const Step step{pass, call, batch, plans};
  start(step);
  PassRows rows = pass.begin(call);
  const std::uint32_t layers = weights_->config.layers;
  for (std::uint32_t layer = 0; layer < layers; ++layer) {
    const bool last = layer + 1 == layers;
    pass.make_heads(call, rows, layer);
    if (layer == 1 && choices_.needs_divergence()) compare(step);
    ended_.clear();
    choices_.choose_after_keys(layer, ended_);
    if (!last) end_rows(step, rows, rows.queries);
    if (choices_.fills(layer)) fill(step, layer);
    if (last) break;
    const bool needs_attention = layer == 0 && choices_.needs_attention();
    const std::uint16_t* mixed =
        pass.attend(call, rows, layer, needs_attention ? stats_.as<float>() : nullptr);
    if (needs_attention) {
      sum_received_attention(step, rows);
      ended_.clear();
      choices_.choose_after_attention(row_mass_, ended_);
      mixed = end_rows(step, rows, mixed);
    }
    pass.finish_layer(call, rows, layer, mixed);
  }
  if (call.shape.read_rows > 0) read(step, rows);
}

// Lists the tokens of the repaired segments and their addresses: the batch's spans of each block,
// one after the other.
void DeviceRepairs::start(const Step& step) {
  const DecoderBatch& batch = step.batch;
  batch_ = &batch;
  choices_.start(batch);
  set_ = nullptr;
  tokens_.clear(), first_token_.clear();
  for (const RepairedSpan& place : batch.reused_spans) {
    first_token_.push_back(size32(tokens_));
    std::uint32_t row = place.row;
    for (std::uint32_t s = place.span_begin; s < place.span_end; ++s) {
      const ContextSpan& span = batch.spans[s];
      for (std::uint32_t t = 0; t < span.tokens; ++t, ++row)
        tokens_.push_back({span.page != nullptr ? span.page + (span.slot + t) * layout_.vector_bytes()
                                                : step.plans.result().slots[span.row + t],
                           step.plans.result().slots[row],
                           span.rotation == 0 ? 0 : batch.rotation_distances[span.rotation - 1],
                           batch.positions[row]});
    }
    TROUPE_CHECK(row == place.row + place.tokens, "a block has as many tokens as its repaired segment");
  }
  tokens_parcel_.begin();
  tokens_at_ = tokens_parcel_.put(tokens_);
  tokens_parcel_.send(step.call.stream);
  if (choices_.needs_attention())
    allocate_mass(stats_, std::size_t{step.call.shape.rows} * weights_->config.heads * 2 * sizeof(float));
}

// Returns the address from which groups count their keys; the plan's own items count from the start
// of the heap.
const std::byte* const* DeviceRepairs::key_addresses(const Step& step) {
  return reinterpret_cast<const std::byte* const*>(step.call.plan.heap + keys_in_heap(step.plans.result()));
}

RepairLayer DeviceRepairs::of_layer(std::uint32_t layer) const {
  return {tokens_parcel_.at<RepairToken>(tokens_at_), weights_->rotations, layer};
}

void DeviceRepairs::compare(const Step& step) {
  allocate_mass(lengths_, tokens_.size() * sizeof(float));
  compare_tokens(layout_, of_layer(1), size32(tokens_), lengths_.as<float>(), step.call.stream);
  step.call.ended(&PassTimes::keys_values);
  host_floats_.resize(tokens_.size());
  step.call.stream.download(host_floats_.data(), lengths_.data(), tokens_.size() * sizeof(float));
  step.call.stream.synchronize();
  for (std::uint32_t place = 0; place < choices_.reused_spans(); ++place) {
    const std::span<float> lengths = choices_.divergence(place);
    std::copy_n(host_floats_.begin() + first_token_[place], lengths.size(), lengths.begin());
  }
}

// Sums the attention that the first layer's rows give to tokens of repaired segments.
void DeviceRepairs::sum_received_attention(const Step& step, const PassRows& rows) {
  list_mass_tiles(step);
  mass_parcel_.begin();
  const std::size_t at = mass_parcel_.put(mass_tiles_);
  mass_parcel_.send(step.call.stream);
  const std::size_t floats = mass_tiles_.size() * layout_.kv_heads * attend_key_tile;
  allocate_mass(mass_, floats * sizeof(float));
  AttendLayer layer = step.pass.attend_layer(rows, 0);
  layer.stats = stats_.as<float>();
  AttendPass keys = step.pass.attend_pass(rows);
  keys.addresses = key_addresses(step);
  attend_mass(layout_, keys, layer, mass_parcel_.at<MassTile>(at), size32(mass_tiles_), mass_.as<float>(),
              step.call.stream);
  step.call.ended(&PassTimes::attention);
  host_floats_.resize(floats);
  if (floats > 0) step.call.stream.download(host_floats_.data(), mass_.data(), floats * sizeof(float));
  step.call.stream.synchronize();
  sum_mass_tiles();
}

// Lists the keys that are tokens of repaired segments, for groups with rows that are measured, as
// tiles that start at a given key.
void DeviceRepairs::list_mass_tiles(const Step& step) {
  const DecoderBatch& batch = step.batch;
  std::vector<std::uint8_t> is_reused_span(batch.rows(), 0);
  for (const RepairedSpan& place : batch.reused_spans)
    std::fill_n(is_reused_span.begin() + place.row, place.tokens, std::uint8_t{1});
  mass_tiles_.clear(), mass_rows_.clear();
  for (std::size_t g = 0; g < batch.groups.size(); ++g) {
    const RowGroup& group = batch.groups[g];
    if (group.measured_from >= group.row_end) continue;
    const AttendGroup& seen = step.plans.groups()[g];
    const auto number = [&](std::uint32_t row) { return set_ == nullptr ? row : set_->index_of(row); };
    MassTile tile{number(std::max(group.measured_from, group.row_begin)), number(group.row_end),
                  seen.key_begin, seen.context_tokens};
    if (tile.row_begin == tile.row_end) continue;
    const std::uint32_t keys = seen.context_tokens + seen.tail_tokens;
    std::uint32_t key = 0, end = 0;  // of the current tile
    const auto add = [&](std::uint32_t row) {
      if (row != no_row && is_reused_span[row] == 0) row = no_row;
      if (row != no_row && key >= end) {
        tile.first = key, tile.count = std::min(attend_key_tile, keys - key);
        end = key + tile.count;
        mass_tiles_.push_back(tile);
        mass_rows_.resize(mass_tiles_.size() * attend_key_tile, no_row);
      }
      if (key < end) mass_rows_[(mass_tiles_.size() - 1) * attend_key_tile + key - tile.first] = row;
      ++key;
    };
    for (std::uint32_t s = group.span_begin; s < group.span_end; ++s)
      for (std::uint32_t t = 0; t < batch.spans[s].tokens; ++t)
        add(batch.spans[s].page != nullptr ? no_row : batch.spans[s].row + t);
    for (std::uint32_t row = group.row_begin; row < group.row_end; ++row) add(row);
  }
}

void DeviceRepairs::sum_mass_tiles() {
  row_mass_.assign(batch_->rows(), 0);
  for (std::size_t tile = 0; tile < mass_tiles_.size(); ++tile)
    for (std::size_t head = 0; head < layout_.kv_heads; ++head)
      for (std::size_t key = 0; key < attend_key_tile; ++key)
        if (const std::uint32_t row = mass_rows_[tile * attend_key_tile + key]; row != no_row)
          row_mass_[row] += host_floats_[(tile * layout_.kv_heads + head) * attend_key_tile + key];
}

// Removes the rows that end and moves the others together, along with `carried`, whose new address
// is returned.
const std::uint16_t* DeviceRepairs::end_rows(const Step& step, PassRows& rows, const std::uint16_t* carried) {
  if (ended_.empty()) return carried;
  std::ranges::sort(ended_);
  RowSet& next = sets_[set_ == &sets_[0] ? 1 : 0];
  remaining_rows(step.batch, set_, ended_, next);
  picked_.clear();
  for (const std::uint32_t row : next.rows) picked_.push_back(set_ == nullptr ? row : set_->index_of(row));
  set_ = &next;
  const PassRows before = rows;
  plan_rows(step, rows);
  step.pass.point_at_read_buffers(rows);
  step.pass.pick(step.call, before, carried, rows_parcel_.at<std::uint32_t>(0), rows);
  return rows.queries;
}

// Plans attention of the remaining rows over the pass's keys.
void DeviceRepairs::plan_rows(const Step& step, PassRows& rows) {
  groups_.clear();
  for (std::size_t g = 0; g < set_->groups.size(); ++g) {
    const RowSet::Range range = set_->groups[g];
    if (range.begin == range.end) continue;
    AttendGroup group = step.plans.groups()[g];
    group.row_begin = range.begin, group.row_end = range.end;
    groups_.push_back(group);
  }
  plan_attention(machine_, groups_, set_->begin, set_->end, attend_);
  positions_.clear(), slots_.clear();
  for (const std::uint32_t row : set_->rows) {
    positions_.push_back(step.batch.positions[row]);
    slots_.push_back(step.plans.result().slots[row]);
  }
  rows.count = rounded_rows(size32(set_->rows));
  step.call.stream.synchronize();  // nobody reads the last upload any more
  rows_parcel_.begin();
  rows_parcel_.put(picked_, rows.count);
  const std::size_t positions = rows_parcel_.put(positions_, rows.count),
                    slots = rows_parcel_.put(slots_, rows.count);
  const std::size_t begin = rows_parcel_.put(set_->begin, rows.count),
                    end = rows_parcel_.put(set_->end, rows.count);
  const std::size_t items = rows_parcel_.put(attend_.items), merges = rows_parcel_.put(attend_.merges);
  const std::size_t tiles = rows_parcel_.put(attend_.key_tiles);
  rows_parcel_.send(step.call.stream);
  rows.shape = {size32(attend_.items), size32(attend_.merges), attend_.tile_vectors};
  rows.addresses = key_addresses(step);
  rows.items = rows_parcel_.at<AttendItem>(items), rows.merges = rows_parcel_.at<AttendMerge>(merges);
  rows.key_tiles = rows_parcel_.at<KeyTile>(tiles);
  rows.visible_begin = rows_parcel_.at<std::uint32_t>(begin),
  rows.visible_end = rows_parcel_.at<std::uint32_t>(end);
  rows.positions = rows_parcel_.at<std::uint32_t>(positions), rows.slots = rows_parcel_.at<std::byte*>(slots);
}

// Copies keys and values from the blocks. The lists change at layers where another repair begins to
// fill.
void DeviceRepairs::fill(const Step& step, std::uint32_t layer) {
  const bool begins = std::ranges::any_of(
      batch_->repairs, [&](const BatchRepair& of) { return of.repair->exact_layers == layer; });
  if (begins) {
    list_fills(layer);
    step.call.stream.synchronize();
    fills_parcel_.begin();
    fills_at_ = fills_parcel_.put(fills_), numbers_at_ = fills_parcel_.put(numbers_);
    fills_parcel_.send(step.call.stream);
  }
  fill_tokens(layout_, of_layer(layer), fills_parcel_.at<FillItem>(fills_at_), size32(fills_),
              fills_parcel_.at<std::uint32_t>(numbers_at_), step.call.stream);
  step.call.ended(&PassTimes::keys_values);
}

void DeviceRepairs::list_fills(std::uint32_t layer) {
  fills_.clear(), numbers_.clear();
  for (std::uint32_t r = 0; r < batch_->repairs.size(); ++r) {
    const Repair& repair = *batch_->repairs[r].repair;
    if (layer < repair.exact_layers) continue;
    for (std::uint32_t budget = 0; budget < repair.budgets.size(); ++budget) list_fills_of_budget(r, budget);
  }
}

// Groups tokens by their offset in the segments. An offset at which no token was chosen uses all
// chosen tokens.
void DeviceRepairs::list_fills_of_budget(std::uint32_t repair, std::uint32_t budget) {
  const BatchRepair& of = batch_->repairs[repair];
  const std::size_t offsets = choices_.longest(repair);
  std::vector<std::vector<std::uint32_t>> chosen(offsets), filled(offsets);
  std::vector<std::uint32_t> all_chosen, rest;
  for (std::uint32_t p = of.reused_begin; p < of.reused_end; ++p) {
    if (batch_->reused_spans[p].budget != budget) continue;
    const std::span<const std::uint8_t> is_chosen = choices_.chosen(p);
    for (std::uint32_t t = 0; t < is_chosen.size(); ++t) {
      (is_chosen[t] != 0 ? chosen : filled)[t].push_back(first_token_[p] + t);
      if (is_chosen[t] != 0) all_chosen.push_back(first_token_[p] + t);
    }
  }
  for (std::size_t offset = 0; offset < offsets; ++offset)
    if (of.repair->mean && !chosen[offset].empty())
      add_fills(chosen[offset], filled[offset]);
    else
      rest.insert(rest.end(), filled[offset].begin(), filled[offset].end());
  if (!of.repair->mean) all_chosen.clear();
  add_fills(all_chosen, rest);
}

void DeviceRepairs::add_fills(const std::vector<std::uint32_t>& chosen,
                              const std::vector<std::uint32_t>& filled) {
  if (filled.empty()) return;
  FillItem item{size32(numbers_)};
  numbers_.insert(numbers_.end(), chosen.begin(), chosen.end());
  item.chosen_end = size32(numbers_);
  for (std::size_t first = 0; first < filled.size(); first += fill_tokens_max) {
    const auto begin = filled.begin() + static_cast<std::ptrdiff_t>(first);
    item.fill_begin = size32(numbers_);
    numbers_.insert(numbers_.end(), begin,
                    begin + std::min<std::ptrdiff_t>(fill_tokens_max, filled.end() - begin));
    item.fill_end = size32(numbers_);
    fills_.push_back(item);
  }
}

// Finishes the last layer for rows with a readout.
void DeviceRepairs::read(const Step& step, const PassRows& rows) {
  picked_.clear();
  for (const std::uint32_t row : step.batch.read.rows)
    picked_.push_back(set_ == nullptr ? row : set_->index_of(row));
  step.call.stream.synchronize();
  read_parcel_.begin();
  const std::size_t numbers = read_parcel_.put(picked_, step.call.shape.read_rows);
  read_parcel_.send(step.call.stream);
  PassRows read = step.pass.read_rows(step.call);
  read.state = rows.state, read.queries = rows.queries;
  step.pass.point_at_read_buffers(read);
  step.pass.pick(step.call, rows, rows.queries, read_parcel_.at<std::uint32_t>(numbers), read);
  const std::uint32_t last = weights_->config.layers - 1;
  step.pass.finish_layer(step.call, read, last, step.pass.attend(step.call, read, last));
  step.pass.read_out(step.call, read);
}

}  // namespace troupe::kernels::cuda
