// Byte pair encoding: turns one piece of text into tokens by merging neighbours, the merge of
// the lowest rank first. A queue of pairs keeps the cost near linear for any text.
#include "runtime/tokenizer/byte_pairs.h"

#include <algorithm>

namespace troupe {

BytePairs::BytePairs(const std::array<Token, 256>& bytes, std::span<const BytePairMerge> merges)
    : bytes_(bytes) {
  steps_.reserve(merges.size());
  for (const BytePairMerge& merge : merges)
    steps_.emplace(key(merge.first, merge.second),
                   Step{static_cast<std::uint32_t>(steps_.size()), merge.made});
}

// Queues the pair of the part at `at` and its successor, if they have a merge.
void BytePairs::offer(Work& work, std::uint32_t at) const {
  const std::uint32_t next = work.parts_[at].next;
  if (next == work.parts_.size()) return;
  const Token first = work.parts_[at].token, second = work.parts_[next].token;
  const auto found = steps_.find(key(first, second));
  if (found == steps_.end()) return;
  work.heap_.push_back({found->second.rank, at, first, second, found->second.made});
  std::push_heap(work.heap_.begin(), work.heap_.end());
}

void BytePairs::encode(std::string_view piece, Work& work, std::vector<Token>& out) const {
  constexpr std::uint32_t none = UINT32_MAX;  // marks the first part
  auto& parts = work.parts_;
  parts.resize(piece.size());
  for (std::uint32_t i = 0; i < parts.size(); ++i)
    parts[i] = {bytes_[static_cast<unsigned char>(piece[i])], i == 0 ? none : i - 1, i + 1};
  work.heap_.clear();
  for (std::uint32_t i = 0; i < parts.size(); ++i) offer(work, i);
  while (!work.heap_.empty()) {
    std::pop_heap(work.heap_.begin(), work.heap_.end());
    const Work::Pair pair = work.heap_.back();
    work.heap_.pop_back();
    Work::Part& part = parts[pair.at];
    const std::uint32_t next = part.next;
    if (part.token != pair.first || next == parts.size() || parts[next].token != pair.second) continue;
    part.token = pair.made;
    part.next = parts[next].next;
    parts[next].token = -1;  // merged away
    if (part.next < parts.size()) parts[part.next].before = pair.at;
    if (part.before != none) offer(work, part.before);
    offer(work, pair.at);
  }
  for (std::uint32_t i = 0; i < parts.size(); i = parts[i].next) out.push_back(parts[i].token);
}

}  // namespace troupe
