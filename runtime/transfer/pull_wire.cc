// Encodes and decodes requests for pages and the headers of the replies. It also checks a
// request against the owner's memory before any page is read.
#include "runtime/transfer/pull_wire.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace troupe {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers travel as they lie in memory");
// "Trq1"; "Trq2" for parts of pages, whose head has two more numbers; "Trp1"
constexpr std::uint32_t request_magic = 0x31717254, part_magic = 0x32717254, reply_magic = 0x31707254;
constexpr std::size_t request_head_bytes = 40, part_head_bytes = request_head_bytes + 16;
static_assert(request_bytes_max == part_head_bytes + 4 * request_pages_max);

class NumberWriter {
 public:
  explicit NumberWriter(std::span<std::uint8_t> to) : to_(to) {}
  template <class Number>
  NumberWriter& put(Number number) {
    std::memcpy(to_.data() + at_, &number, sizeof number);
    at_ += sizeof number;
    return *this;
  }

 private:
  std::span<std::uint8_t> to_;
  std::size_t at_ = 0;
};

// Reads numbers from bytes that are known to suffice and need not be aligned.
class NumberReader {
 public:
  explicit NumberReader(std::span<const std::uint8_t> from) : from_(from) {}
  template <class Number>
  Number take() {
    Number number;
    std::memcpy(&number, from_.data() + at_, sizeof number);
    at_ += sizeof number;
    return number;
  }

 private:
  std::span<const std::uint8_t> from_;
  std::size_t at_ = 0;
};

}  // namespace

std::size_t pages_per_request(std::size_t page_bytes) {
  return std::clamp<std::size_t>(chunk_bytes / std::max<std::size_t>(page_bytes, 1), 1, request_pages_max);
}

std::size_t pieces_of(std::size_t bytes) { return (bytes + piece_bytes - 1) / piece_bytes; }

Bytes encode(const PullRequest& request) {
  const bool parts = request.part_bytes > 0;
  Bytes bytes((parts ? part_head_bytes : request_head_bytes) + 4 * request.pages.size());
  NumberWriter writer(bytes);
  writer.put(parts ? part_magic : request_magic).put(static_cast<std::uint32_t>(request.pages.size()));
  writer.put(request.owner)
      .put(request.pull)
      .put(request.page_bytes)
      .put(request.chunk)
      .put(std::uint32_t{0});
  if (parts) writer.put(request.part_begin).put(request.part_bytes);
  for (const std::uint32_t page : request.pages) writer.put(page);
  return bytes;
}

std::optional<PullRequest> parse_request(std::span<const std::uint8_t> bytes) {
  if (bytes.size() < request_head_bytes || bytes.size() > request_bytes_max) return std::nullopt;
  NumberReader reader(bytes);
  const auto magic = reader.take<std::uint32_t>();
  if (magic != request_magic && magic != part_magic) return std::nullopt;
  const std::size_t head = magic == part_magic ? part_head_bytes : request_head_bytes;
  const auto count = reader.take<std::uint32_t>();
  if (count == 0 || count > request_pages_max || bytes.size() != head + 4 * std::size_t{count})
    return std::nullopt;
  PullRequest request;
  request.owner = reader.take<std::uint64_t>();
  request.pull = reader.take<std::uint64_t>();
  request.page_bytes = reader.take<std::uint64_t>();
  request.chunk = reader.take<std::uint32_t>();
  if (reader.take<std::uint32_t>() != 0) return std::nullopt;
  if (magic == part_magic) {
    request.part_begin = reader.take<std::uint64_t>();
    request.part_bytes = reader.take<std::uint64_t>();
    if (request.part_bytes == 0) return std::nullopt;
  }
  request.pages.reserve(count);
  for (std::uint32_t i = 0; i < count; ++i) request.pages.push_back(reader.take<std::uint32_t>());
  return request;
}

ReplyHeader encode(const PullReply& reply) {
  ReplyHeader bytes{};
  NumberWriter writer(bytes);
  writer.put(reply_magic).put(reply.chunk).put(reply.pull).put(reply.piece);
  writer.put(static_cast<std::uint32_t>(reply.status));
  return bytes;
}

std::optional<PullReply> parse_reply(std::span<const std::uint8_t> bytes) {
  if (bytes.size() != reply_header_bytes) return std::nullopt;
  NumberReader reader(bytes);
  if (reader.take<std::uint32_t>() != reply_magic) return std::nullopt;
  PullReply reply;
  reply.chunk = reader.take<std::uint32_t>();
  reply.pull = reader.take<std::uint64_t>();
  reply.piece = reader.take<std::uint32_t>();
  const auto status = reader.take<std::uint32_t>();
  if (status >= static_cast<std::uint32_t>(PullStatus::count_)) return std::nullopt;
  reply.status = static_cast<PullStatus>(status);
  return reply;
}

PullStatus examine(const PullRequest& request, Incarnation self, const PageArena& arena) {
  if (request.owner != self) return PullStatus::wrong_incarnation;
  if (request.page_bytes != arena.page_bytes()) return PullStatus::wrong_page_bytes;
  if (request.part_begin > arena.page_bytes() ||
      request.bytes_of_page() > arena.page_bytes() - request.part_begin)
    return PullStatus::bad_pages;
  if (request.bytes_of_page() < part_bytes_min &&
      request.part_begin + request.bytes_of_page() < arena.page_bytes())
    return PullStatus::bad_pages;
  if (request.pages.size() > pages_per_request(request.bytes_of_page())) return PullStatus::bad_pages;
  const bool all_ours = std::all_of(request.pages.begin(), request.pages.end(),
                                    [&](std::uint32_t page) { return page < arena.pages(); });
  return all_ours ? PullStatus::sent : PullStatus::bad_pages;
}

std::vector<PagePart> parts_of(std::span<const std::uint32_t> pages, std::size_t page_bytes,
                               std::size_t begin, std::size_t bytes, std::size_t part_begin) {
  std::vector<PagePart> parts;
  while (bytes > 0) {
    const std::size_t offset = begin % page_bytes;
    const std::size_t part = std::min(bytes, page_bytes - offset);
    parts.push_back({pages[begin / page_bytes], part_begin + offset, part});
    begin += part;
    bytes -= part;
  }
  return parts;
}

}  // namespace troupe
