// Reads the directory of a zip archive and checks it against the file.
#include "deploy/convert/zip_archive.h"

#include <zlib.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "deploy/convert/byte_cursor.h"
#include "kernels/checkpoint/json_file.h"

namespace troupe::deploy {
namespace {

using kernels::in_quotes;
using kernels::throw_load_error;

constexpr std::uint32_t local_mark = 0x04034b50, entry_mark = 0x02014b50, end_mark = 0x06054b50;
constexpr std::uint32_t end64_mark = 0x06064b50, locator64_mark = 0x07064b50;
constexpr std::uint64_t end_bytes = 22, locator64_bytes = 20, comment_bytes_max = 65535;
constexpr std::uint16_t sizes64 = 1;  // extra field with 64-bit sizes and offset
constexpr std::uint64_t entries_max = 1 << 20;
constexpr std::size_t name_bytes_max = 1024;

// Position and length of the directory of entries.
struct Directory {
  std::uint64_t offset = 0, size = 0, entries = 0;
  bool operator==(const Directory&) const = default;
};

// One entry of the directory, before its local header was looked at.
struct ListedEntry {
  std::string name;
  std::uint64_t header = 0, size = 0, stored = 0;  // `stored`: bytes in the file
  std::uint32_t checksum = 0;
  std::uint16_t flags = 0, method = 0;
};

class DirectoryReader {
 public:
  DirectoryReader(const std::filesystem::path& file, std::span<const std::byte> bytes)
      : file_(file), bytes_(bytes) {}

  Directory find() const {
    const std::uint64_t end = find_end();
    ByteCursor cursor(bytes_, end + 4);
    const auto disk = *cursor.take<std::uint16_t>(), first_disk = *cursor.take<std::uint16_t>();
    const auto here = *cursor.take<std::uint16_t>(), all = *cursor.take<std::uint16_t>();
    const auto size = *cursor.take<std::uint32_t>(), offset = *cursor.take<std::uint32_t>();
    Directory directory{offset, size, all};
    std::uint64_t limit = end;
    const bool is_wide = all == 0xffff || size == 0xffffffff || offset == 0xffffffff;
    if (is_wide || has_locator(end)) {  // torch.save always writes a zip64 end record
      limit = find_end64(end);
      const Directory wide = directory64(limit);
      if (!is_wide && wide != directory) damaged("has two end records that differ", "one directory");
      directory = wide;
    } else if (disk != 0 || first_disk != 0 || here != all) {
      damaged("is one of several volumes", "an archive in one file");
    }
    if (directory.offset > limit || directory.size > limit - directory.offset)
      damaged("has a directory that leaves the file", "a directory of entries before the end record");
    if (directory.offset + directory.size != limit)
      damaged("has bytes between its directory and its end record", "none");
    if (directory.entries > entries_max)
      damaged("lists " + std::to_string(directory.entries) + " entries",
              "at most " + std::to_string(entries_max));
    return directory;
  }

  std::vector<ListedEntry> entries(const Directory& directory) const {
    ByteCursor cursor(bytes_.first(directory.offset + directory.size), directory.offset);
    std::vector<ListedEntry> listed;
    for (std::uint64_t i = 0; i < directory.entries; ++i) listed.push_back(entry(cursor));
    if (cursor.left() != 0) damaged("has bytes behind the entries of its directory", "none");
    return listed;
  }

  [[noreturn]] void damaged(const std::string& wrong, const std::string& expected) const {
    throw_load_error(file_, "the zip archive " + wrong, expected);
  }

 private:
  std::uint64_t find_end() const {
    if (bytes_.size() < end_bytes) damaged("ends before its end record", "a whole file of torch.save");
    const std::uint64_t last = bytes_.size() - end_bytes;
    const std::uint64_t first = last > comment_bytes_max ? last - comment_bytes_max : 0;
    for (std::uint64_t at = last + 1; at-- > first;)
      if (number_at<std::uint32_t>(bytes_, at) == end_mark &&
          number_at<std::uint16_t>(bytes_, at + 20) == last - at)
        return at;
    damaged("has no end record, as if it were cut", "a whole file of torch.save");
  }

  bool has_locator(std::uint64_t end) const {
    return end >= locator64_bytes &&
           number_at<std::uint32_t>(bytes_, end - locator64_bytes) == locator64_mark;
  }

  std::uint64_t find_end64(std::uint64_t end) const {
    const std::uint64_t locator = end < locator64_bytes ? 0 : end - locator64_bytes;
    if (!has_locator(end)) damaged("needs 64-bit sizes and has no record of them", "a zip64 end record");
    const auto at = number_at<std::uint64_t>(bytes_, locator + 8).value_or(0);
    if (at > locator || locator - at < 56 || number_at<std::uint32_t>(bytes_, at) != end64_mark ||
        number_at<std::uint64_t>(bytes_, at + 4) != locator - at - 12)  // size of what follows in it
      damaged("has its zip64 end record at byte " + std::to_string(at), "the record before its locator");
    return at;
  }

  Directory directory64(std::uint64_t at) const {
    const auto here = *number_at<std::uint64_t>(bytes_, at + 24);
    const auto all = *number_at<std::uint64_t>(bytes_, at + 32);
    if (here != all) damaged("is one of several volumes", "an archive in one file");
    return {*number_at<std::uint64_t>(bytes_, at + 48), *number_at<std::uint64_t>(bytes_, at + 40), all};
  }

  template <class Number>
  Number field(ByteCursor& cursor) const {
    const auto number = cursor.take<Number>();
    if (!number) damaged("has a directory that ends early", "as many entries as it announces");
    return *number;
  }
  std::string_view text(ByteCursor& cursor, std::uint64_t length) const {
    const auto taken = cursor.take_text(length);
    if (!taken) damaged("has a directory that ends early", "as many entries as it announces");
    return *taken;
  }

  ListedEntry entry(ByteCursor& cursor) const {
    if (field<std::uint32_t>(cursor) != entry_mark)
      damaged("has no entry at byte " + std::to_string(cursor.position() - 4), "an entry of its directory");
    ListedEntry entry;
    text(cursor, 4);  // versions
    entry.flags = field<std::uint16_t>(cursor);
    entry.method = field<std::uint16_t>(cursor);
    text(cursor, 4);  // time and date
    entry.checksum = field<std::uint32_t>(cursor);
    entry.stored = field<std::uint32_t>(cursor);
    entry.size = field<std::uint32_t>(cursor);
    const auto name = field<std::uint16_t>(cursor), extra = field<std::uint16_t>(cursor);
    const auto comment = field<std::uint16_t>(cursor);
    text(cursor, 8);  // volume and attributes
    entry.header = field<std::uint32_t>(cursor);
    entry.name = text(cursor, name);
    widen(entry, text(cursor, extra));
    text(cursor, comment);
    return entry;
  }

  // Replaces the sizes and the offset that do not fit 32 bits by those of the extra field.
  void widen(ListedEntry& entry, std::string_view extra) const {
    if (entry.size != 0xffffffff && entry.stored != 0xffffffff && entry.header != 0xffffffff) return;
    ByteCursor cursor(std::as_bytes(std::span(extra)));
    while (cursor.left() >= 4) {
      const auto kind = field<std::uint16_t>(cursor), length = field<std::uint16_t>(cursor);
      ByteCursor inner(std::as_bytes(std::span(text(cursor, length))));
      if (kind != sizes64) continue;
      for (std::uint64_t* number : {&entry.size, &entry.stored, &entry.header})
        if (*number == 0xffffffff) *number = field<std::uint64_t>(inner);
      return;
    }
    damaged("has an entry " + in_quotes(entry.name) + " of over 4 GiB without its size",
            "an extra field with 64-bit sizes");
  }

  const std::filesystem::path& file_;
  std::span<const std::byte> bytes_;
};

// Returns why a name cannot be an entry's, or nothing.
std::optional<std::string> fault_of_name(std::string_view name) {
  if (name.empty()) return "is empty";
  if (name.size() > name_bytes_max) return "is " + std::to_string(name.size()) + " bytes long";
  for (const char c : name)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f || c == '\\')
      return "has a control character or \\";
  if (name.ends_with('/')) return "is a folder's, as of an archive that another program packed";
  for (std::string_view rest = name;;) {
    const std::size_t slash = rest.find('/');
    const std::string_view part = rest.substr(0, slash);
    if (part.empty() || part == "." || part == "..") return "leaves the archive";
    if (slash == rest.npos) return std::nullopt;
    rest.remove_prefix(slash + 1);
  }
}

// Checks an entry that is in the directory, and finds its data behind its local header.
class EntryCheck {
 public:
  EntryCheck(const DirectoryReader& reader, std::span<const std::byte> data) : reader_(reader), data_(data) {}

  ZipEntry located(const ListedEntry& entry) const {
    const std::string who = "has an entry " + in_quotes(entry.name);
    if (const auto fault = fault_of_name(entry.name))
      reader_.damaged(who + ", whose name " + *fault, "names like archive/data/0");
    if ((entry.flags & 1) != 0) reader_.damaged(who + " that is encrypted", "no encryption");
    if (entry.method != 0 || entry.stored != entry.size)
      reader_.damaged(who + " that is compressed (method " + std::to_string(entry.method) + ")",
                      "entries without compression, as torch.save writes them");
    const std::uint64_t data = data_offset(entry, who);
    if (data > data_.size() || entry.size > data_.size() - data)
      reader_.damaged(who + " of " + std::to_string(entry.size) + " bytes that leaves the file",
                      "data before the directory");
    return {data, entry.size, entry.checksum};
  }

 private:
  std::uint64_t data_offset(const ListedEntry& entry, const std::string& who) const {
    ByteCursor cursor(data_, entry.header);
    const auto mark = cursor.take<std::uint32_t>();
    cursor.skip(22);
    const auto name = cursor.take<std::uint16_t>(), extra = cursor.take<std::uint16_t>();
    const auto local = name && extra ? cursor.take_text(*name) : std::nullopt;
    if (mark != local_mark || !local || !cursor.skip(*extra))
      reader_.damaged(who + " without a header at byte " + std::to_string(entry.header), "its local header");
    if (*local != entry.name)
      reader_.damaged(who + " that is " + in_quotes(*local) + " in its own header", "one name");
    return cursor.position();
  }

  const DirectoryReader& reader_;
  std::span<const std::byte> data_;  // what is before the directory
};

// Span of one entry in the file, with its header.
struct Extent {
  std::uint64_t begin = 0, end = 0;
  const std::string* name = nullptr;
};

void check_apart(const DirectoryReader& reader, std::vector<Extent> extents) {
  std::ranges::sort(extents, {}, &Extent::begin);
  for (std::size_t i = 1; i < extents.size(); ++i)
    if (extents[i].begin < extents[i - 1].end)
      reader.damaged("has entries " + in_quotes(*extents[i - 1].name) + " and " +
                         in_quotes(*extents[i].name) + " that share bytes",
                     "entries apart from each other");
}

}  // namespace

bool ZipArchive::begins_like_one(std::span<const std::byte> bytes) {
  return number_at<std::uint32_t>(bytes, 0) == local_mark;
}

ZipArchive::ZipArchive(std::filesystem::path file, std::span<const std::byte> bytes)
    : file_(std::move(file)), bytes_(bytes) {
  const DirectoryReader reader(file_, bytes_);
  const Directory directory = reader.find();
  const std::vector<ListedEntry> listed = reader.entries(directory);
  const EntryCheck check(reader, bytes_.first(directory.offset));
  std::vector<Extent> extents;
  for (const ListedEntry& entry : listed) {
    const ZipEntry located = check.located(entry);
    if (!entries_.emplace(entry.name, located).second)
      reader.damaged("has an entry " + in_quotes(entry.name) + " twice", "each name once");
    extents.push_back({entry.header, located.offset + located.size, &entry.name});
  }
  check_apart(reader, std::move(extents));
}

std::span<const std::byte> ZipArchive::read(std::string_view name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end())
    throw_load_error(file_, "the zip archive has no entry " + in_quotes(name), "a whole file of torch.save");
  const auto data = bytes_.subspan(found->second.offset, found->second.size);
  if (checked_.contains(found->second.offset)) return data;
  const auto sum = crc32_z(0, reinterpret_cast<const Bytef*>(data.data()), data.size());
  if (sum != found->second.checksum)
    throw_load_error(file_, "the entry " + in_quotes(name) + " differs from its checksum",
                     "an undamaged file (one saved with set_crc32_options(False) has no checksums: save it "
                     "again with them)");
  checked_.insert(found->second.offset);
  return data;
}

}  // namespace troupe::deploy
