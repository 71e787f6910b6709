#pragma once
// Zip archives as torch.save writes them: every entry is stored without compression. The reader trusts
// nothing: each size, offset and name of the directory is checked against the file before a byte of an
// entry is used. Entries may not overlap, so that an archive never holds more bytes than its file.
// Archives over 4 GiB (zip64) are read, too.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "kernels/base/errors.h"

namespace troupe::deploy {

struct ZipEntry {
  std::uint64_t offset = 0, size = 0;  // bytes of the data in the file
  std::uint32_t checksum = 0;          // CRC-32 of the data
};

// A parsed view of a file's bytes, which must outlive it.
class ZipArchive {
 public:
  // `file` is for errors. Throws kernels::LoadError.
  ZipArchive(std::filesystem::path file, std::span<const std::byte> bytes);

  static bool begins_like_one(std::span<const std::byte> bytes);

  const std::map<std::string, ZipEntry, std::less<>>& entries() const { return entries_; }
  bool has(std::string_view name) const { return entries_.contains(name); }
  // Returns the data of an entry. Throws kernels::LoadError if there is none or its checksum differs.
  std::span<const std::byte> read(std::string_view name) const;

 private:
  std::filesystem::path file_;
  std::span<const std::byte> bytes_;
  std::map<std::string, ZipEntry, std::less<>> entries_;
  // Offsets of entries whose checksum was compared: many tensors may be views of one entry.
  mutable std::set<std::uint64_t> checked_;
};

}  // namespace troupe::deploy
