#pragma once
// The persistent tier of one node's blocks: pages of the arena go to a Store and come back. It is a cache on
// a disk that may lie: whatever does not match its length, key and checksum is erased and counted, and the
// answer is a miss. Only blocks of the loaded model and layout are ever seen; those of others are erased at
// the start.
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

// Thread-safe. Pages are the core's to guard: pinned while saved, reserved while loaded.
class BlockStorePort final : public Port {
 public:
  // `store` and `arena` must outlive the port. At most `bytes_max` bytes of pages are kept.
  BlockStorePort(Store& store, const PageArena& arena, const NameContext& context, std::uint64_t bytes_max);

  // ListStored, SaveBlock, LoadBlocks and EraseBlocks. A disk that is full or fails answers Saved{false}, a
  // miss, or a refusal `storage_failed` (never a part of the list); the next job tries again.
  JobResult run(const Job& job, std::uint32_t lane) override;

  std::uint64_t quarantined() const { return quarantined_.load(); }  // bad records found and erased
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
  bool load_one(const LoadBlocks::One& one);
  Store::Read load_bytes(const LoadBlocks::One& one, std::uint64_t checksum);
  std::optional<StoreFailure> erase_one(const BlockName& name);
  std::optional<StoreFailure> erase_keys(const std::string& header_key);
  void quarantine(const BlockName& name);
  void erase_foreign();
  template <class Pages>
  bool in_arena(const Pages& pages) const;

  Store& store_;
  const PageArena& arena_;
  const std::string prefix_;  // of every key: the model's and the layout's hash
  const std::uint64_t bytes_max_;
  std::mutex writing_;  // so that stored_bytes_ follows the store
  std::atomic<std::uint64_t> stored_bytes_ = 0, quarantined_ = 0;
};

}  // namespace troupe
