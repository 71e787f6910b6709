#pragma once
// Sizes and times of a node in a pool-split experiment: the cost model's times for a history that is
// computed or reused, and the host link's for rows that are not in memory.
#include <cstdint>
#include <string>

#include "placement/cost/cost_model.h"

namespace troupe::sim {

struct SplitSizes {
  std::string device = "A100-80G", host_link = "pcie4";
  double efficiency = 0;  // of the device; 0 = the profile's
  std::uint32_t layers = 6, width = 512, heads = 4, candidates = 100, new_events = 10;
  std::uint32_t tables = 16;  // rows per event
  double row_bytes = 1'024;   // 512 numbers of two bytes
  double gather = 1;          // share of the host link's bandwidth that gathered rows reach
  double memory_gb = 80;      // of a node's pool
  std::uint32_t pages = 16'384;
  std::uint32_t rows_per_page = 4;  // in the scaled-down model
};

class SplitTimes {
 public:
  explicit SplitTimes(const SplitSizes& sizes);

  double computed_us(std::uint32_t length) const;  // the request with its whole history
  // the request if its history's keys and values are in memory
  double reused_us(std::uint32_t length) const;
  double row_us() const { return row_us_; }  // per missing row of the scaled-down model
  double scaled_row_bytes() const { return row_scale_ * sizes_.row_bytes; }
  std::uint32_t kv_pages(std::uint32_t length) const;
  double page_bytes() const { return page_bytes_; }
  double rows_per_event() const { return rows_per_event_; }  // in the scaled-down model
  double row_scale() const { return row_scale_; }            // real rows per row of the scaled-down model
  const SplitSizes& sizes() const { return sizes_; }

 private:
  SplitSizes sizes_;
  placement::CostModel cost_;
  double page_bytes_, row_scale_, rows_per_event_, row_us_;
};

}  // namespace troupe::sim
