#include "deploy/convert/zip_archive.h"

#include <doctest/doctest.h>

#include "deploy/testing/conversion_test.h"
#include "deploy/testing/torch_archive_test.h"

using namespace troupe;
using namespace troupe::deploy;

namespace zip_archive_test {

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Returns what an archive says of an entry: its data, or the refusal.
std::string said(const std::string& file, const std::string& entry = "archive/data/0") {
  try {
    const ZipArchive archive("x.pt", std::as_bytes(std::span(file)));
    return text_of(archive.read(entry));
  } catch (const kernels::LoadError& error) {
    return error.what();
  }
}

const ZipPart first{"archive/data/0", "some data"}, second{"archive/version", "3\n"};

TEST_CASE("zip archive: stored entries are read, behind padding and with a comment at the end") {
  ZipFile file{{first, second}};
  CHECK(said(file.bytes()) == "some data");
  CHECK(said(file.bytes(), "archive/version") == "3\n");
  file.comment = "a comment";
  CHECK(said(file.bytes()) == "some data");
  CHECK(has(said(file.bytes(), "archive/other"), "has no entry \"archive/other\""));
}

TEST_CASE("zip archive: sizes and offsets of zip64 are read") {
  ZipPart wide = second;
  wide.wide = true;
  CHECK(said(ZipFile{{first, wide}, true}.bytes(), "archive/version") == "3\n");
  std::string without = ZipFile{{first, wide}}.bytes();
  const std::size_t extra = without.rfind(std::string("\1\0\x18\0", 4));
  without[extra] = 2;  // another extra field
  CHECK(has(said(without), "of over 4 GiB without its size"));
}

TEST_CASE("zip archive: a zip64 end record that torch.save wrote needlessly must agree with the other") {
  const std::string wide = ZipFile{{first, second}, true}.bytes(), narrow = ZipFile{{first, second}}.bytes();
  constexpr std::size_t end_record = 22;
  std::string both = wide.substr(0, wide.size() - end_record) + narrow.substr(narrow.size() - end_record);
  CHECK(said(both) == "some data");
  ++both[both.size() - 10];  // size of the directory
  CHECK(has(said(both), "has two end records that differ"));
}

TEST_CASE("zip archive: names that leave the archive are refused") {
  for (const std::string name : {"../../etc/passwd", "archive/../x", "/etc/passwd", "archive//x", "a\\b",
                                 "archive/./x", "archive/", "a\nb"})
    CHECK_MESSAGE(has(said(ZipFile{{first, {name, "x"}}}.bytes()), "whose name"), name);
  CHECK(has(said(ZipFile{{first, {"archive/data/", ""}}}.bytes()), "whose name is a folder's"));
  CHECK(has(said(ZipFile{{first, {std::string(2000, 'a'), "x"}}}.bytes()), "is 2000 bytes long"));
}

TEST_CASE("zip archive: one name for one entry, and one place for one entry") {
  CHECK(has(said(ZipFile{{first, first}}.bytes()), "an entry \"archive/data/0\" twice"));
  ZipPart other = second;
  other.local_name = "archive/data/1";
  CHECK(has(said(ZipFile{{first, other}}.bytes()), "that is \"archive/data/1\" in its own header"));
  ZipPart again{"archive/data/1", "some data", "archive/data/0"};
  again.over_previous = true;
  CHECK(has(said(ZipFile{{first, again}}.bytes()), "that is \"archive/data/0\" in its own header"));
}

TEST_CASE("zip archive: entries that share bytes are refused, so that no archive grows when it is read") {
  // The data of the first entry is a whole second entry, with its header.
  const std::string inner = ZipFile{{{"archive/data/1", "inner"}}}.bytes();
  ZipFile file{{{"archive/data/0", inner}, {"archive/data/1", "inner"}}};
  std::string bytes = file.bytes();
  const std::size_t listed = bytes.rfind("archive/data/1");
  const auto inside = static_cast<std::uint32_t>(bytes.find(inner));
  std::memcpy(bytes.data() + listed - 4, &inside, sizeof inside);
  CHECK(has(said(bytes), "\"archive/data/0\" and \"archive/data/1\" that share bytes"));
}

TEST_CASE("zip archive: compressed and encrypted entries are refused, so there is no bomb") {
  ZipPart part = second;
  part.method = 8;
  CHECK(has(said(ZipFile{{first, part}}.bytes()), "that is compressed (method 8)"));
  part = second;
  part.flags = 1;
  CHECK(has(said(ZipFile{{first, part}}.bytes()), "that is encrypted"));
}

TEST_CASE("zip archive: sizes beyond the file are refused, however large") {
  for (const std::uint64_t size : {std::uint64_t{1} << 20, UINT64_MAX - 1, UINT64_MAX / 2}) {
    ZipPart part = second;
    part.announced = size;
    part.wide = true;
    CHECK(has(said(ZipFile{{first, part}}.bytes()), "that leaves the file"));
  }
}

TEST_CASE("zip archive: a directory that is cut, or has more than it announces, is refused") {
  const std::string whole = ZipFile{{first, second}}.bytes();
  CHECK(has(said(whole.substr(0, whole.size() - 5)), "has no end record"));
  CHECK(has(said(whole.substr(0, 10)), "ends before its end record"));
  ZipFile more{{first, second}};
  more.before_end = "more";
  CHECK(has(said(more.bytes()), "has bytes behind the entries"));
  for (const bool wide : {false, true}) {  // two archives, of which the second has the end record
    const std::string one = ZipFile{{first, second}, wide}.bytes();
    CHECK(said(one) == "some data");
    CHECK(said(one + one).starts_with("x.pt: the zip archive has "));
  }
  CHECK(has(said(whole + whole), "has bytes between its directory and its end record"));
  std::string fewer = whole;
  fewer[fewer.size() - 22 + 8] = fewer[fewer.size() - 22 + 10] = 9;  // entries
  CHECK(has(said(fewer), "has a directory that ends early"));
  std::string outside = whole;
  outside[outside.size() - 22 + 19] = 0x7f;  // offset of the directory
  CHECK(has(said(outside), "has a directory that leaves the file"));
}

TEST_CASE("zip archive: damaged data is refused when it is read") {
  ZipPart part = first;
  part.checksum_added = 1;
  CHECK(has(said(ZipFile{{part, second}}.bytes()), "differs from its checksum"));
  CHECK(said(ZipFile{{part, second}}.bytes(), "archive/version") == "3\n");
}

TEST_CASE("zip archive: a checksum is computed once, however many tensors are views of its entry") {
  std::string bytes = ZipFile{{first, second}}.bytes();
  const ZipArchive archive("x.pt", std::as_bytes(std::span(bytes)));
  archive.read(first.name);
  bytes[bytes.find(first.data)] ^= 1;
  CHECK(archive.read(first.name).size() == first.data.size());
}

TEST_CASE("zip archive: every prefix of a file is refused with a text") {
  const std::string whole = ZipFile{{first, second}, true}.bytes();
  for (std::size_t length = 0; length < whole.size(); ++length)
    CHECK(said(whole.substr(0, length)).starts_with("x.pt: "));
}

}  // namespace zip_archive_test
