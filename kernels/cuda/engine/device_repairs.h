#pragma once
// Passes with a repair on the device (base/repair.h). What is measured comes to the host, where tokens are
// chosen as for every backend (decoder/repair_choices.h) and attention is planned for the rows that go on; so
// such a pass waits once or twice on its way, behind the first layer's attention and the second layer's keys.
// Rows that end are picked away: the layers behind have fewer. Then each layer gives their places the keys
// and values of their blocks, where attention, which meets no difference, reads them with all others.
#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/cuda/engine/decoder_pass.h"
#include "kernels/cuda/engine/parcel.h"
#include "kernels/cuda/kernels/attend_mass.h"
#include "kernels/cuda/kernels/repair.h"
#include "kernels/decoder/repair_choices.h"

namespace troupe::kernels::cuda {

class DeviceRepairs {
 public:
  DeviceRepairs(std::shared_ptr<const DeviceWeights> weights, const KvLayout& layout,
                const AttendMachine& machine)
      : weights_(std::move(weights)), layout_(layout), machine_(machine) {}

  // Enqueues all of a pass that was planned so; the plan is on its way to the device. Waits for the stream in
  // between.
  void run(DecoderPass& pass, const PassCall& call, const DecoderBatch& batch, const PassPlanner& plans);
  void list_chosen(std::size_t repair, std::vector<std::uint32_t>& out) const {
    choices_.list_chosen(repair, out);
  }

 private:
  // Of the pass at hand.
  struct Step {
    DecoderPass& pass;
    const PassCall& call;
    const DecoderBatch& batch;
    const PassPlanner& plans;
  };
  static const std::byte* const* key_addresses(const Step& step);
  void start(const Step& step);
  void compare(const Step& step);
  void weigh(const Step& step, const PassRows& rows);
  void list_mass_tiles(const Step& step);
  void add_up_mass();
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
  Parcel tokens_parcel_, rows_parcel_, fills_parcel_, mass_parcel_, read_parcel_;
  std::size_t tokens_at_ = 0, fills_at_ = 0, numbers_at_ = 0;
  DeviceMemory lengths_, stats_, mass_;
  std::vector<float> host_floats_;

  std::vector<RepairToken> tokens_;         // of all places
  std::vector<std::uint32_t> first_token_;  // of each place
  const RowSet* set_ = nullptr;             // rows that still take part; null: all
  RowSet sets_[2];
  std::vector<std::uint32_t> ended_, picked_, positions_;
  std::vector<std::byte*> slots_;
  std::vector<AttendGroup> groups_;
  AttendPlan attend_;
  std::vector<MassTile> mass_tiles_;
  std::vector<std::uint32_t> mass_rows_;  // of each tile's keys: the batch's row, or none
  std::vector<float> row_mass_;
  std::vector<FillItem> fills_;
  std::vector<std::uint32_t> numbers_;  // of tokens that fills name
};

}  // namespace troupe::kernels::cuda
