#pragma once
// Runs passes with a repair on the device (base/repair.h). Measurements are downloaded; the host
// chooses tokens as for every backend (decoder/repair_choices.h) and plans attention for the rows
// that continue. So such a pass waits once or twice: after the first layer's attention and after
// the second layer's keys. Rows that end are removed, so later layers have fewer rows. Each of
// these layers then copies keys and values from the blocks to the removed rows' slots, where
// attention reads them like any others.
#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/cuda/engine/decoder_pass.h"
#include "kernels/cuda/engine/upload_buffer.h"
#include "kernels/cuda/kernels/attend_mass.h"
#include "kernels/cuda/kernels/repair.h"
#include "kernels/decoder/repair_choices.h"

namespace troupe::kernels::cuda {

class DeviceRepairs {
 public:
  DeviceRepairs(std::shared_ptr<const DeviceWeights> weights, const KvLayout& layout,
                const AttendMachine& machine)
      : weights_(std::move(weights)), layout_(layout), machine_(machine) {}

  // Enqueues a pass planned with repairs, whose plan is already being uploaded. Waits for the
  // stream in between.
  void run(DecoderPass& pass, const PassCall& call, const DecoderBatch& batch, const PassPlanner& plans);
  void list_chosen(std::size_t repair, std::vector<std::uint32_t>& out) const {
    choices_.list_chosen(repair, out);
  }

 private:
  // The arguments of the current pass.
  struct Step {
    DecoderPass& pass;
    const PassCall& call;
    const DecoderBatch& batch;
    const PassPlanner& plans;
  };
  static const std::byte* const* key_addresses(const Step& step);
  void start(const Step& step);
  void compare(const Step& step);
  void sum_received_attention(const Step& step, const PassRows& rows);
  void list_mass_tiles(const Step& step);
  void sum_mass_tiles();
  const std::uint16_t* end_rows(const Step& step, PassRows& rows, const std::uint16_t* carried);
  void plan_rows(const Step& step, PassRows& rows);
  void fill(const Step& step, std::uint32_t layer);
  void list_fills(std::uint32_t layer);
  void list_fills_of_budget(std::uint32_t repair, std::uint32_t budget);
  void add_fills(const std::vector<std::uint32_t>& chosen, const std::vector<std::uint32_t>& filled);
  void read(const Step& step, const PassRows& rows);
  RepairLayer of_layer(std::uint32_t layer) const;

  const std::shared_ptr<const DeviceWeights> weights_;
  const KvLayout layout_;
  const AttendMachine machine_;
  RepairChoices choices_;

  const DecoderBatch* batch_ = nullptr;
  UploadBuffer tokens_parcel_, rows_parcel_, fills_parcel_, mass_parcel_, read_parcel_;
  std::size_t tokens_at_ = 0, fills_at_ = 0, numbers_at_ = 0;
  DeviceMemory lengths_, stats_, mass_;
  std::vector<float> host_floats_;

  std::vector<RepairToken> tokens_;         // tokens of all repaired segments
  std::vector<std::uint32_t> first_token_;  // by repaired segment
  const RowSet* set_ = nullptr;             // rows that still take part; null = all
  RowSet sets_[2];
  std::vector<std::uint32_t> ended_, picked_, positions_;
  std::vector<std::byte*> slots_;
  std::vector<AttendGroup> groups_;
  AttendPlan attend_;
  std::vector<MassTile> mass_tiles_;
  std::vector<std::uint32_t> mass_rows_;  // by key of each tile: the batch's row, or none
  std::vector<float> row_mass_;
  std::vector<FillItem> fills_;
  std::vector<std::uint32_t> numbers_;  // indices of the tokens that fills refer to
};

}  // namespace troupe::kernels::cuda
