#pragma once
// Embedding rows on a simulated device. The production RowSlab decides where rows lie in the pages
// of the simulated process and which are evicted. A row is only a mark of its model and token. A
// pass holds the rows that it reads until it ends. A row of another model or token, or one whose
// page was overwritten, changes what is computed from it and is reported.
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "actors/inference/row_savings.h"
#include "runtime/actor/ports.h"
#include "runtime/pool/row_slab.h"
#include "sim/world/pages.h"

namespace troupe::sim {

// State of what a missed row was copied from. If the page of its shard was wrong, so is the row.
struct RowSource {
  std::uint64_t wrong = 0;  // 0 = right; otherwise mixed into the computed value
  bool struck = false;      // bits of it flipped in memory
};

class SimRows {
 public:
  // `pages` must outlive this object.
  SimRows(Pages& pages, std::uint32_t page_rows)
      : pages_(pages),
        slab_(page_rows, evicted_max),
        savings_(std::uint64_t{pages.count()} * page_rows),
        rows_(pages.count()) {}

  struct Reading {
    RowSlab::Batch batch;
    std::uint32_t model = 0;   // model_mark (pages.h): hash of the version
    std::uint64_t wrong = 0;   // 0 = all rows are right; otherwise mixed into the computed value
    bool other_model = false;  // a row belongs to another model
    bool overwritten = false;  // another writer changed the page of a row
    bool struck = false;       // a row came from flipped bits
  };
  using FindRow = std::function<RowSource(std::uint32_t row)>;
  // `find` returns the source of missed rows; null = all are right.
  Reading begin(const std::string& model_version, std::span<const Token> tokens, const FindRow& find = {});
  // Returns the rows that would be missed now. Allocates space for them like a read, but counts nothing.
  std::vector<std::uint32_t> missed(const std::string& model_version, std::span<const Token> tokens);
  // Releases the rows of a reading. `good`: the missed rows were filled and may be used from now
  // on. Returns false if somebody wrote to the rows' pages since `begin`.
  bool end(const Reading& reading, bool good);
  void drop(const std::string& model_version);
  RowPages change(const ChangeRowPages& change);
  RowsRefilled refill(const RefillRows& refill);
  const RowSlab& slab() const { return slab_; }
  RowTotals totals() const;

 private:
  static constexpr std::size_t evicted_max = 4'096;  // evicted rows that the slab remembers
  static constexpr std::uint64_t row_bytes = 64;
  static constexpr double row_us = 5;  // assumed time saved by a row that is in memory
  struct Stored {
    std::uint32_t model = 0, token = 0;
    std::uint32_t writing = 0;  // the page's write number when the row was written; 0 = never written
    RowSource source;
  };
  std::uint32_t number_of(const std::string& model_version);
  void write(const RowSlab::Row& row, std::uint32_t model, const RowSource& source = {});
  void look(const RowSlab::Row& row, Reading& reading) const;

  Pages& pages_;
  RowSlab slab_;
  actors::RowSavings savings_;
  std::vector<std::vector<Stored>> rows_;          // by page and slot; empty = no row of the page was written
  std::map<std::string, std::uint32_t> numbers_;   // number of each version
  std::map<std::uint32_t, std::uint32_t> models_;  // model_mark of each number
  std::uint32_t last_number_ = 0;
  std::uint64_t refilled_ = 0;
};

}  // namespace troupe::sim
