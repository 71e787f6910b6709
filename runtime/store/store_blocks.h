#pragma once
// Persistent tier of one node's blocks: saves arena pages to a Store and loads them back. It is a
// cache on a disk that may corrupt data: a block that does not match its length, key and checksum
// is erased and counted, and the answer is a miss. A block that another job erased or saved anew
// while it was being loaded is a miss, too, and is no damage. Only blocks of the loaded model and layout are
// visible; others are erased when the port starts.
#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/actor/block_name.h"
#include "runtime/actor/ports.h"
#include "runtime/pool/page_arena.h"
#include "runtime/store/store.h"

namespace troupe {

// Thread-safe. The KV-cache worker's core protects the pages: it pins them during a save and
// reserves them during a load.
class BlockStorePort final : public Port {
 public:
  // `store` and `arena` must outlive the port. At most `bytes_max` bytes of pages are kept.
  BlockStorePort(Store& store, const PageArena& arena, const NameContext& context, std::uint64_t bytes_max);

  // Runs ListStored, SaveBlock, LoadBlocks and EraseBlocks. A full or failing disk gives
  // Saved{false}, a miss, or the refusal `storage_failed`, never a partial list. The next job tries
  // again.
  JobResult run(const Job& job, std::uint32_t slot) override;

  std::uint64_t quarantined() const { return quarantined_.load(); }  // damaged records found and erased
  std::uint64_t stored_bytes() const { return stored_bytes_.load(); }

 private:
  struct Header {
    StoredBlock block;
    std::uint32_t pages = 0;
  };
  enum class Part : char { bytes = 'b', header = 'h' };

  JobResult list();
  JobResult save(const SaveBlock& job);
  JobResult load(const LoadBlocks& job);
  JobResult erase(const EraseBlocks& job);

  std::string key(Part part, const BlockName& name) const;
  std::uint64_t size(std::uint32_t pages) const { return std::uint64_t{pages} * arena_.page_bytes(); }
  std::string encode(const SaveBlock& job, std::string_view key) const;
  static std::optional<Header> decode(std::string_view key, std::string_view value);
  Store::Read read_header(const BlockName& name, Header& header) const;
  BlockLoad load_one(const LoadBlocks::One& one);
  BlockLoad try_load(const LoadBlocks::One& one);
  Store::Read load_bytes(const LoadBlocks::One& one, std::uint64_t checksum);
  std::optional<StoreFailure> erase_one(const BlockName& name);
  std::optional<StoreFailure> erase_keys(const std::string& header_key);
  void quarantine(const BlockName& name);
  void erase_foreign();
  template <class Pages>
  bool in_arena(const Pages& pages) const;

  Store& store_;
  const PageArena& arena_;
  const std::string prefix_;  // prefix of every key: hash of model and layout
  const std::uint64_t bytes_max_;
  std::mutex writing_;  // keeps stored_bytes_ consistent with the store
  std::atomic<std::uint64_t> stored_bytes_ = 0, quarantined_ = 0;
};

}  // namespace troupe
