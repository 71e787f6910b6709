// Parses the messages between a reader of pages and their owner, and a pull that receives pieces in any
// order: it must write its own pages only.
#include <algorithm>
#include <cstring>

#include "runtime/transfer/incoming_pull.h"
#include "runtime/transfer/ucx_address.h"
#include "tests/fuzz/targets/target.h"

namespace troupe::fuzz {
namespace {

constexpr std::size_t page_bytes = 64;
constexpr std::uint32_t pages = 8, ours = 5;  // pages of the arena; pages 0..4 belong to the pull
constexpr UcxVersion version{1, 13};

PageArena& arena() {
  static PageArena one(page_bytes, pages);
  return one;
}

void check_request(Input input) {
  const auto request = parse_request(input);
  if (!request) return;
  TROUPE_CHECK(request->pages.size() <= request_pages_max, "a request beyond its bound");
  const Bytes bytes = encode(*request);
  TROUPE_CHECK(std::equal(bytes.begin(), bytes.end(), input.begin(), input.end()), "a request has two forms");
  if (examine(*request, request->owner, arena()) != PullStatus::sent) return;
  const std::size_t each = request->bytes_of_page();
  for (const PagePart& part :
       parts_of(request->pages, each, 0, request->pages.size() * each, request->part_begin))
    TROUPE_CHECK(part.page < pages && part.offset + part.bytes <= page_bytes,
                 "bytes of no page would be sent");
}

void check_reply(Input input) {
  const auto reply = parse_reply(input);
  if (!reply) return;
  const ReplyHeader bytes = encode(*reply);
  TROUPE_CHECK(std::equal(bytes.begin(), bytes.end(), input.begin(), input.end()), "a reply has two forms");
}

void check_address(Input input) {
  const auto address = unpack_ucx_address(version, input);
  if (!address) return;
  TROUPE_CHECK(address->worker.size() <= ucx_address_bytes_max, "an address beyond its bound");
  const Bytes packed = pack_ucx_address(version, *address);
  TROUPE_CHECK(std::equal(packed.begin(), packed.end(), input.begin(), input.end()),
               "an address has two forms");
}

PullBlocks work() {
  PullBlocks pulled{3, 30, 60'000'000, {}};
  pulled.blocks.resize(2);
  pulled.blocks[0].from = {100, 101}, pulled.blocks[0].to = {0, 1};
  pulled.blocks[1].from = {102, 103, 104}, pulled.blocks[1].to = {4, 3, 2};
  return pulled;
}

// Builds replies whose sizes come from pairs of input bytes.
void check_pull(Input input) {
  static const PullBlocks asked = work();
  IncomingPull pull(7, asked, arena());
  while (pull.next_request()) continue;
  for (std::uint32_t page = ours; page < pages; ++page) std::memset(arena().page(page), 0x5a, page_bytes);
  int pieces = 0;
  while (input.size() >= reply_header_bytes + 2) {
    const auto reply = parse_reply(input.first(reply_header_bytes));
    const std::size_t wanted = input[reply_header_bytes] + 256u * input[reply_header_bytes + 1];
    input = input.subspan(reply_header_bytes + 2);
    const Input piece = input.first(std::min(wanted, input.size()));
    input = input.subspan(piece.size());
    if (!reply || pull.ended()) continue;
    const auto landed = pull.land(*reply, piece);
    if (landed == IncomingPull::PieceResult::piece || landed == IncomingPull::PieceResult::chunk) ++pieces;
  }
  TROUPE_CHECK(pieces <= 1, "the one piece of this pull landed twice");
  for (std::uint32_t page = ours; page < pages; ++page)
    for (std::size_t at = 0; at < page_bytes; ++at)
      TROUPE_CHECK(arena().page(page)[at] == std::byte{0x5a}, "a page that was not pulled has changed");
}

void run(Input input) {
  switch (take_choice(input) % 4) {
    case 0:
      return check_request(input);
    case 1:
      return check_reply(input);
    case 2:
      return check_address(input);
    default:
      return check_pull(input);
  }
}

std::string text(const auto& bytes) { return std::string(bytes.begin(), bytes.end()); }

std::vector<std::string> seeds() {
  const std::size_t all = ours * page_bytes;
  const std::string size{static_cast<char>(all & 255), static_cast<char>(all >> 8)};
  const std::string piece = text(encode(PullReply{7, 0, 0, PullStatus::sent})) + size + std::string(all, 'p');
  const UcxAddress address{{1, 2, 3, 4}, {}}, sealed{{1, 2, 3, 4}, SealKeys{}};
  return {"0" + text(encode(PullRequest{30, 7, 0, page_bytes, {0, 1, 4}})),
          "0" + text(encode(PullRequest{30, 7, 0, page_bytes, {0, 1, 4}, 16, 48})),
          "1" + text(encode(PullReply{7, 1, 2, PullStatus::overloaded})),
          "2" + text(pack_ucx_address(version, address)),
          "2" + text(pack_ucx_address(version, sealed)),
          "3" + piece,
          "3" + text(encode(PullReply{7, 0, 0, PullStatus::bad_pages})) + std::string(2, '\0') + piece};
}

}  // namespace

const Target pull_target{"pull", run, seeds, true};

}  // namespace troupe::fuzz
