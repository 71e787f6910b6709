#pragma once
// Wire format between a reader and the owner of pages. A request asks for pages, or for the same
// part of each page, in order. Their bytes, one page after the other, are the chunk. The chunk is
// returned in pieces of `piece_bytes` (the last may be shorter), each with a header that locates
// it. A refusal is a header without a piece. All numbers are little-endian. Bytes that do not parse
// come from another version or are damaged.
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/actor/messages.h"
#include "runtime/pool/page_arena.h"

namespace troupe {

// A piece and its header fit into one 64 KiB network segment, so that no segments are reassembled.
inline constexpr std::size_t piece_bytes = 60 * 1024;
inline constexpr std::size_t chunk_bytes = std::size_t{1} << 20;  // bytes per request; one page may be more
inline constexpr std::size_t request_pages_max = 4096;
inline constexpr std::size_t part_bytes_min =
    // Per page, except for its last part: smaller parts cost the owner more to describe than to
    // send.
    64;

// Maximum number of pages in one request for `page_bytes` of each. Both sides agree on it, because
// they agree on the page size.
std::size_t pages_per_request(std::size_t page_bytes);
std::size_t pieces_of(std::size_t bytes);  // pieces of a chunk of `bytes` bytes

struct PullRequest {
  Incarnation owner = 0;  // incarnation of the process that owns the pages
  // Chosen by the reader; unique within its process, as is `chunk` within the pull.
  std::uint64_t pull = 0;
  std::uint32_t chunk = 0;
  std::uint64_t page_bytes = 0;  // page size of the reader
  std::vector<std::uint32_t> pages;
  std::uint64_t part_begin = 0, part_bytes = 0;  // range in each page; part_bytes 0: whole pages
  std::size_t bytes_of_page() const { return part_bytes > 0 ? part_bytes : page_bytes; }
  bool operator==(const PullRequest&) const = default;
};
inline constexpr std::size_t request_bytes_max = 56 + 4 * request_pages_max;
Bytes encode(const PullRequest& request);
std::optional<PullRequest> parse_request(std::span<const std::uint8_t> bytes);

enum class PullStatus : std::uint8_t {
  sent,
  wrong_incarnation,
  wrong_page_bytes,
  bad_pages,
  overloaded,
  count_
};
struct PullReply {
  std::uint64_t pull = 0;
  std::uint32_t chunk = 0;
  std::uint32_t piece = 0;
  PullStatus status = PullStatus::sent;
  bool operator==(const PullReply&) const = default;
};
inline constexpr std::size_t reply_header_bytes = 24;
using ReplyHeader = std::array<std::uint8_t, reply_header_bytes>;
ReplyHeader encode(const PullReply& reply);
std::optional<PullReply> parse_reply(std::span<const std::uint8_t> bytes);

// Checks a request on the owner's side. `sent`: all pages may be read.
PullStatus examine(const PullRequest& request, Incarnation self, const PageArena& arena);
// True for statuses that a correct reader may receive: processes end and queues fill, but page
// sizes and numbers are agreed on.
inline bool is_sound(PullStatus status) {
  return status != PullStatus::bad_pages && status != PullStatus::wrong_page_bytes;
}

// A part of one page. The parts of a chunk in order make up the chunk.
struct PagePart {
  std::uint32_t page = 0;
  std::size_t offset = 0, bytes = 0;
};
// Returns the parts that hold `bytes` bytes of the chunk from `begin` on, which must lie within it.
// The chunk has `page_bytes` bytes of each page, from `part_begin` on.
std::vector<PagePart> parts_of(std::span<const std::uint32_t> pages, std::size_t page_bytes,
                               std::size_t begin, std::size_t bytes, std::size_t part_begin = 0);

}  // namespace troupe
