#pragma once
// Counts the requests that read a block while it is in flight from another node. When such a copy
// fails, or the block is forgotten meanwhile, no request finds the block any more. Its pages then
// stay until the last of these readers has released them.
#include <cstddef>
#include <cstdint>
#include <map>

#include "runtime/pool/page_pool.h"

namespace troupe::actors {

class InFlightReads {
 public:
  explicit InFlightReads(PagePool& pool) : pool_(pool) {}

  void begin(const BlockName& name, std::uint64_t generation);
  void end(std::uint64_t generation);
  // Keeps the pages of a failed or forgotten block for its readers. Returns false if there are
  // none.
  bool keep_pages(const BlockName& name, std::uint64_t generation);
  bool has_readers(std::uint64_t generation) const { return blocks_.contains(generation); }
  std::size_t blocks() const { return blocks_.size(); }

 private:
  struct Readers {
    BlockName name;
    std::uint32_t count = 0;
    // True if the copy failed or the block was forgotten: the last reader frees its pages.
    bool over = false;
  };

  PagePool& pool_;
  std::map<std::uint64_t, Readers> blocks_;  // by generation
};

}  // namespace troupe::actors
