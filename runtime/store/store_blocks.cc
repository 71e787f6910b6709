// Saves cached keys and values to the node's disk and loads them back, so that a restart or an
// eviction does not lose them. A block that does not match its checksum counts as a miss and is
// erased.
#include "runtime/store/store_blocks.h"

#include <algorithm>
#include <cstring>

#include "runtime/store/store_record.h"

namespace troupe {
namespace {

constexpr std::size_t prefix_bytes = 16;

std::string prefix_of(const NameContext& context) {
  const BlockName hash = block_name(context, "", {}, 0, {});
  return {reinterpret_cast<const char*>(hash.bytes.data()), prefix_bytes};
}

const std::string beyond_all_keys(64, '\xff');

// Returns the smallest key above all keys with this prefix.
std::string after_prefix(std::string prefix) {
  while (!prefix.empty() && prefix.back() == '\xff') prefix.pop_back();
  if (prefix.empty()) return beyond_all_keys;
  prefix.back() = static_cast<char>(static_cast<unsigned char>(prefix.back()) + 1);
  return prefix;
}

std::optional<BlockName> name_in(std::string_view key) {
  BlockName name;
  if (key.size() != prefix_bytes + 1 + name.bytes.size()) return {};
  std::memcpy(name.bytes.data(), key.data() + prefix_bytes + 1, name.bytes.size());
  return name;
}

Refusal bad_pages() {
  return {RefusalKind::internal, "bad_pages", "a page outside the arena, or no page at all",
          "block store port", "pages of the arena"};
}

Refusal storage_failed(std::string what) {
  return {RefusalKind::unavailable, "storage_failed", std::move(what), "block store",
          "a working disk with free space"};
}

BlockSaveResult full(std::string why) { return {false, std::move(why), false, true}; }

}  // namespace

BlockStorePort::BlockStorePort(Store& store, const PageArena& arena, const NameContext& context,
                               std::uint64_t bytes_max)
    : store_(store), arena_(arena), prefix_(prefix_of(context)), bytes_max_(bytes_max) {
  erase_foreign();
  list();  // erases corrupt headers and sums up the others
}

JobResult BlockStorePort::run(const Job& job, std::uint32_t) {
  try {
    if (std::holds_alternative<ListStored>(job)) return list();
    if (const auto* what = std::get_if<SaveBlock>(&job)) return save(*what);
    if (const auto* what = std::get_if<LoadBlocks>(&job)) return load(*what);
    if (const auto* what = std::get_if<EraseBlocks>(&job)) return erase(*what);
    return Refusal{RefusalKind::internal, "wrong_port", "this job is not about stored blocks",
                   "block store port", "ListStored, SaveBlock, LoadBlocks, EraseBlocks"};
  } catch (const std::exception& error) {  // out of memory
    return Refusal{RefusalKind::internal, "port_failed", error.what(), "block store port",
                   "to finish the job"};
  }
}

// ---- keys and headers ----

std::string BlockStorePort::key(Part part, const BlockName& name) const {
  std::string key = prefix_ + static_cast<char>(part);
  return key.append(reinterpret_cast<const char*>(name.bytes.data()), name.bytes.size());
}

std::string BlockStorePort::encode(const SaveBlock& job, std::string_view key) const {
  RecordWriter writer(RecordType::block);
  writer.u32(static_cast<std::uint32_t>(job.block.kind)).text(job.block.owner).u32(job.block.tokens);
  writer.u64(job.block.checksum).u32(static_cast<std::uint32_t>(job.pages.size()));
  return writer.seal(key);
}

std::optional<BlockStorePort::Header> BlockStorePort::decode(std::string_view key, std::string_view value) {
  const auto name = name_in(key);
  auto reader = RecordReader::open(RecordType::block, key, value);
  if (!name || !reader) return {};
  Header header;
  const std::uint32_t kind = reader->u32();
  header.block = {*name, static_cast<SegmentKind>(kind), reader->text()};
  header.block.tokens = reader->u32();
  header.block.checksum = reader->u64();
  header.pages = reader->u32();
  if (!reader->complete() || kind > static_cast<std::uint32_t>(SegmentKind::beam)) return {};
  return header;
}

Store::Read BlockStorePort::read_header(const BlockName& name, Header& header) const {
  const std::string at = key(Part::header, name);
  std::optional<Header> found;
  const Store::Read read =
      store_.read(Column::blocks, at, [&](std::string_view value) { found = decode(at, value); });
  if (read == Store::Read::found && !found) return Store::Read::corrupt;
  if (found) header = *found;
  return read;
}

template <class Pages>
bool BlockStorePort::in_arena(const Pages& pages) const {
  return !pages.empty() &&
         std::ranges::all_of(pages, [&](std::uint32_t page) { return page < arena_.pages(); });
}

// ---- jobs ----

JobResult BlockStorePort::list() {
  StoredList list;
  std::vector<std::string> bad;
  std::uint64_t bytes = 0;
  const std::lock_guard lock(writing_);
  const std::string prefix = prefix_ + static_cast<char>(Part::header);
  const bool whole = store_.scan(Column::blocks, prefix, after_prefix(prefix),
                                 [&](std::string_view key, std::string_view value) {
                                   if (auto header = decode(key, value)) {
                                     bytes += size(header->pages);
                                     list.blocks.push_back(std::move(header->block));
                                   } else {
                                     bad.emplace_back(key);
                                   }
                                   return true;
                                 });
  stored_bytes_ = whole ? bytes : std::max<std::uint64_t>(stored_bytes_, bytes);
  quarantined_ += bad.size();
  for (const std::string& key : bad) erase_keys(key);
  if (!whole) return storage_failed("reading the list of blocks failed");
  return list;
}

JobResult BlockStorePort::save(const SaveBlock& job) {
  if (!in_arena(job.pages)) return bad_pages();
  if (checksum_pages(arena_, job.pages) != job.block.checksum)
    return BlockSaveResult{false, "the pages do not match their checksum", true};
  const std::lock_guard lock(writing_);
  Header old;
  const std::uint64_t replaced = read_header(job.block.name, old) == Store::Read::found ? size(old.pages) : 0;
  const std::uint64_t bytes = stored_bytes_ - replaced + size(static_cast<std::uint32_t>(job.pages.size()));
  if (bytes > bytes_max_) return full("the tier is full: " + std::to_string(bytes_max_) + " bytes");

  const std::string header_key = key(Part::header, job.block.name);
  std::vector<std::string_view> pages;
  for (const std::uint32_t page : job.pages)
    pages.emplace_back(reinterpret_cast<const char*>(arena_.page(page)), arena_.page_bytes());
  const Change changes[] = {{Column::blocks, key(Part::bytes, job.block.name), "", std::move(pages)},
                            {Column::blocks, header_key, encode(job, header_key)}};
  if (const auto failure = store_.write(changes, Durability::buffered)) {
    if (failure->fault == StoreFault::disk_full) return full(failure->why);
    return BlockSaveResult{false, failure->why};
  }
  stored_bytes_ = bytes;
  return BlockSaveResult{true};
}

JobResult BlockStorePort::load(const LoadBlocks& job) {
  for (const LoadBlocks::One& one : job.blocks)
    if (!in_arena(one.pages)) return bad_pages();
  BlockLoadResult loaded;
  for (const LoadBlocks::One& one : job.blocks) loaded.found.push_back(load_one(one));
  return loaded;
}

// A header and bytes of different saves, or a header whose bytes were erased since, look like damage.
// The second look keeps other jobs from writing.
BlockLoad BlockStorePort::load_one(const LoadBlocks::One& one) {
  const BlockLoad first = try_load(one);
  if (first != BlockLoad::corrupt) return first;
  const std::lock_guard lock(writing_);
  const BlockLoad found = try_load(one);
  if (found == BlockLoad::corrupt) quarantine(one.name);
  return found;
}

BlockLoad BlockStorePort::try_load(const LoadBlocks::One& one) {
  Header header;
  Store::Read read = read_header(one.name, header);
  if (read == Store::Read::found) {
    const StoredBlock& block = header.block;
    if (block.tokens != one.tokens || block.checksum != one.checksum || header.pages != one.pages.size())
      return BlockLoad::gone;  // sound, but not the requested block
    read = load_bytes(one, block.checksum);
    if (read == Store::Read::missing) return BlockLoad::corrupt;  // a header without bytes
  }
  if (read == Store::Read::missing) return BlockLoad::gone;
  return read == Store::Read::found ? BlockLoad::sound : BlockLoad::corrupt;
}

// Sums the pages after the copy: only the bytes that arrived count.
Store::Read BlockStorePort::load_bytes(const LoadBlocks::One& one, std::uint64_t checksum) {
  const std::size_t page_bytes = arena_.page_bytes();
  bool sound = false;
  const Store::Read read =
      store_.read(Column::blocks, key(Part::bytes, one.name), [&](std::string_view bytes) {
        if (bytes.size() != one.pages.size() * page_bytes) return;
        for (std::size_t i = 0; i < one.pages.size(); ++i)
          std::memcpy(arena_.page(one.pages[i]), bytes.data() + i * page_bytes, page_bytes);
        sound = checksum_pages(arena_, one.pages) == checksum;
      });
  return read == Store::Read::found && !sound ? Store::Read::corrupt : read;
}

JobResult BlockStorePort::erase(const EraseBlocks& job) {
  const std::lock_guard lock(writing_);
  for (const BlockName& name : job.names)
    if (const auto failure = erase_one(name)) return storage_failed(std::string(describe(failure->fault)));
  return BlockEraseResult{};
}

std::optional<StoreFailure> BlockStorePort::erase_one(const BlockName& name) {
  Header header;
  const Store::Read read = read_header(name, header);
  if (read == Store::Read::missing) return {};
  if (auto failure = erase_keys(key(Part::header, name))) return failure;
  if (read == Store::Read::found) stored_bytes_ -= size(header.pages);
  return {};
}

std::optional<StoreFailure> BlockStorePort::erase_keys(const std::string& header_key) {
  std::string bytes_key = header_key;
  bytes_key[prefix_bytes] = static_cast<char>(Part::bytes);
  const Change changes[] = {{Column::blocks, header_key}, {Column::blocks, std::move(bytes_key)}};
  return store_.write(changes, Durability::buffered);
}

// Requires writing_.
void BlockStorePort::quarantine(const BlockName& name) {
  ++quarantined_;
  erase_one(name);  // if the disk refuses, the block is found damaged again later
}

// ---- blocks of other models ----

void BlockStorePort::erase_foreign() {
  const std::string after = after_prefix(prefix_);
  const auto erase = [&](std::string_view from, std::string_view to) {
    bool any = false;  // an erased range slows every later read a little
    store_.scan(Column::blocks, from, to, [&](std::string_view, std::string_view) { return !(any = true); });
    if (any) store_.erase_range(Column::blocks, from, to);
  };
  erase("", prefix_);
  erase(after, beyond_all_keys);
}

}  // namespace troupe
