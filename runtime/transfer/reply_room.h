#pragma once
// How much an owner keeps of replies that its readers have not taken yet, beside the pages themselves. How
// small the parts are that a reply is made of is its reader's choice: naming the smallest ones takes a
// quarter of the bytes that they have. So what is kept is counted in bytes. A reader that has its share, or
// who asks for more when all together have theirs, is refused and computes what it wanted; one that does not
// even take refusals gets nothing. Who has taken all that he asked for is answered, however many others are
// silent.
#include <cstddef>
#include <cstdint>
#include <map>

#include "runtime/transfer/pull_wire.h"

namespace troupe {

class ReplyRoom {
 public:
  using Reader = const void*;  // only compared
  struct Limits {
    std::size_t of_reader, all;  // bytes
  };
  static constexpr Limits names_of_pages{
      std::size_t{4} << 20, std::size_t{64} << 20};  // of a reader some 14,500 pieces of whole pages
  // Where pieces are sealed they are copies, a few of each reply at a time; of a reader more than 60
  // requests.
  static constexpr Limits sealed_pieces{std::size_t{32} << 20, std::size_t{256} << 20};
  explicit ReplyRoom(Limits limits = names_of_pages) : limits_(limits) {}
  // A piece with its header, what UCX notes of it, and of each of its parts where it lies.
  static constexpr std::size_t piece_cost = 256, part_cost = 16;

  static constexpr std::size_t sealed_at_once =
      8;  // pieces of a reply that are sealed and not yet sent; one of pages as usual has five

  static std::size_t cost_of(const PullRequest& request, bool sealed);  // at most
  static constexpr std::size_t refusal_cost = piece_cost + part_cost;

  enum class Answer : std::uint8_t { pages, refusal, nothing };
  Answer answer_for(Reader reader, std::size_t cost) const;

  void keep(Reader reader, std::size_t cost);
  void let_go(Reader reader, std::size_t cost);
  std::size_t kept() const { return all_; }

 private:
  const Limits limits_;
  std::map<Reader, std::size_t> of_reader_;
  std::size_t all_ = 0;
};

}  // namespace troupe
