#pragma once
// What a reader and the owner of pages say to each other, as bytes. A request asks for some pages, or for the
// same part of each of them, in order; their bytes, one page after the other, are the chunk. It comes back in
// pieces of `piece_bytes` (the last one may be shorter), each with a header that says where it belongs; a
// refusal is a header without a piece. All numbers are little-endian. What does not parse was not written by
// this version of the program, or was damaged.
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/actor/messages.h"
#include "runtime/pool/page_arena.h"

namespace troupe {

// A piece and its header fit into one 64 KiB segment of the network, so nobody has to put segments together.
inline constexpr std::size_t piece_bytes = 60 * 1024;
inline constexpr std::size_t chunk_bytes = std::size_t{1} << 20;  // of a request; one page may be more
inline constexpr std::size_t request_pages_max = 4096;
inline constexpr std::size_t part_bytes_min =
    64;  // of each page, but for the rest of it: smaller parts cost an owner more to name than to send

// The most that one request may name, if it wants so much of each; both sides agree, since they agree about
// the size of a page.
std::size_t pages_per_request(std::size_t page_bytes);
std::size_t pieces_of(std::size_t bytes);  // of a chunk

struct PullRequest {
  Incarnation owner = 0;   // whose pages are meant
  std::uint64_t pull = 0;  // of the reader; unique as long as its process lives, as is `chunk` within it
  std::uint32_t chunk = 0;
  std::uint64_t page_bytes = 0;  // the reader's
  std::vector<std::uint32_t> pages;
  std::uint64_t part_begin = 0, part_bytes = 0;  // of each page; no bytes: whole pages
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

// What the owner makes of it. `sent`: all pages may be read.
PullStatus examine(const PullRequest& request, Incarnation self, const PageArena& arena);
// Whether a reader of this cluster may meet with it: processes end and queues fill, but pages are agreed
// upon.
inline bool is_sound(PullStatus status) {
  return status != PullStatus::bad_pages && status != PullStatus::wrong_page_bytes;
}

// A part of one page. Parts of a chunk, in order, are the chunk.
struct PagePart {
  std::uint32_t page = 0;
  std::size_t offset = 0, bytes = 0;
};
// The parts of `bytes` bytes of the chunk from `begin` on; they lie within it. Of each page the chunk has
// `page_bytes` bytes from `part_begin` on.
std::vector<PagePart> parts_of(std::span<const std::uint32_t> pages, std::size_t page_bytes,
                               std::size_t begin, std::size_t bytes, std::size_t part_begin = 0);

}  // namespace troupe
