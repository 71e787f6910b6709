#pragma once
// Rows of embedding tables on a simulated device: the production slab over the process's pages, in which a
// row stands for the model and the token that it is the row of. A pass holds what it reads until it ends. A
// row of another model or token, and one in whose page somebody else has written, changes what is computed
// with it, and is told.
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

// Of a row that is missed: of a shard whose page is not as it should be, it is another one.
struct RowSource {
  std::uint64_t wrong = 0;  // 0: it is right
  bool struck = false;      // bits of it flipped where it lay
};

class SimRows {
 public:
  // `pages` outlives it.
  SimRows(Pages& pages, std::uint32_t page_rows)
      : pages_(pages), slab_(page_rows, evicted_max), savings_(std::uint64_t{pages.count()} * page_rows) {}

  struct Reading {
    RowSlab::Batch batch;
    std::uint32_t model = 0;   // model_mark
    std::uint64_t wrong = 0;   // 0: all rows are right; else what the pass computes differs by it
    bool other_model = false;  // one is of another model
    bool overwritten = false;  // somebody else wrote where one was
    bool struck = false;       // one came from where bits had flipped
  };
  using FindRow = std::function<RowSource(std::uint32_t row)>;
  // `find`: of those that are missed; none: they are right.
  Reading begin(const std::string& model_version, std::span<const Token> tokens, const FindRow& find = {});
  // That would be missed now. Room is made for them as if they were read, and they are not counted.
  std::vector<std::uint32_t> missed(const std::string& model_version, std::span<const Token> tokens);
  // False: somebody wrote in their pages meanwhile.
  bool end(const Reading& reading, bool good);
  void drop(const std::string& model_version);
  RowPages change(const ChangeRowPages& change);
  RowsRefilled refill(const RefillRows& refill);
  const RowSlab& slab() const { return slab_; }
  RowTotals totals() const;

 private:
  static constexpr std::size_t evicted_max = 4'096;
  static constexpr std::uint64_t row_bytes = 64;
  static constexpr double row_us = 5;  // as what a row saves is weighed
  struct Stored {
    std::uint32_t model = 0, token = 0;
    std::uint32_t writing = 0;  // of its page
    RowSource source;
  };
  std::uint32_t number_of(const std::string& model_version);
  void write(const RowSlab::Row& row, std::uint32_t model, const RowSource& source = {});
  void look(const RowSlab::Row& row, Reading& reading) const;

  Pages& pages_;
  RowSlab slab_;
  actors::RowSavings savings_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, Stored> rows_;  // by page and slot
  std::map<std::string, std::uint32_t> numbers_;                    // of versions
  std::map<std::uint32_t, std::uint32_t> models_;                   // of numbers
  std::uint32_t last_number_ = 0;
  std::uint64_t refilled_ = 0;
};

}  // namespace troupe::sim
