#pragma once
// Converts a ClimberBatch to the plain arrays that a pass of Climber uploads. The device's rows are
// the batch's rows with gaps: each tower has its histories and then its candidates, each starting
// at a multiple of 16 rows, where products may begin.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/climber/climber_batch.h"
#include "kernels/cuda/engine/upload_buffer.h"
#include "kernels/cuda/kernels/attend.h"

namespace troupe::kernels::cuda {

inline constexpr std::uint32_t climber_row_step = 16;

struct ClimberBounds {
  std::uint32_t rows = 0;  // including gaps
  std::uint32_t keys = 0;  // keys seen by groups of rows, summed over the groups
};

// Rows of one tower on the device.
struct ClimberTowerRows {
  // Histories start at `begin`; both ranges include the gap behind them.
  std::uint32_t begin = 0, candidates = 0, end = 0;
};

class ClimberPassPlan {
 public:
  // `scratch`: pages for as many tokens as there may be rows.
  ClimberPassPlan(const ClimberConfig& config, const KvLayout& layout, const AttendMachine& machine,
                  const ClimberBounds& bounds, std::span<std::byte* const> scratch);

  // Plans the batch. Returns an empty string, or which bound the batch exceeds; then there is no
  // plan.
  std::string plan(const ClimberBatch& batch);

  // Results, valid until the next plan.
  std::span<const ClimberTowerRows> towers() const { return towers_; }
  std::uint32_t rows() const { return towers_.back().end; }
  std::uint32_t candidates() const { return candidates_; }  // per tower, including the gap
  // Uploads the plan; the stream must have been synchronized since the last call.
  void send(Stream& stream);
  // Device addresses, valid after `send`. `last`: only candidates.
  AttendPass attention(bool last) const;
  const std::uint32_t* tokens() const { return upload_.at<std::uint32_t>(at_.tokens); }
  const std::uint32_t* actions() const { return upload_.at<std::uint32_t>(at_.actions); }
  const std::uint32_t* positions() const { return upload_.at<std::uint32_t>(at_.positions); }
  const std::uint32_t* scale_rows() const { return upload_.at<std::uint32_t>(at_.scale_rows); }
  std::byte* const* slots() const { return upload_.at<std::byte*>(at_.slots); }
  std::byte* const* cleared() const { return upload_.at<std::byte*>(at_.cleared); }
  const std::uint32_t* cleared_count() const { return upload_.at<std::uint32_t>(at_.cleared_count); }

 private:
  struct UploadOffsets {
    std::size_t tokens, actions, positions, scale_rows, slots, cleared, cleared_count, begin, end, keys;
    std::size_t items[2], tiles[2], merges[2];
  };

  void place_towers(const ClimberBatch& batch);
  void fill_rows(const ClimberBatch& batch);
  void list_keys(const ClimberBatch& batch);

  const ClimberConfig& c_;
  const KvLayout layout_;
  const AttendMachine machine_;
  const ClimberBounds bounds_;
  const std::vector<std::byte*> scratch_;
  std::vector<std::uint32_t> first_position_;  // first row of each tower in the table of all positions

  std::vector<ClimberTowerRows> towers_;
  std::uint32_t candidates_ = 0;
  std::vector<std::uint32_t> row_at_;  // device row of each batch row
  std::vector<std::uint32_t> tokens_, actions_, positions_, scale_rows_, begin_, end_;
  std::vector<std::byte*> slots_, cleared_;
  std::vector<const std::byte*> keys_;
  std::vector<AttendGroup> groups_, last_groups_;
  AttendPlan attend_[2];
  UploadBuffer upload_;
  UploadOffsets at_{};
};

}  // namespace troupe::kernels::cuda
