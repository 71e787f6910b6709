// Simulates the memory pages of one process: each holds a fingerprint and its origin. Judges can
// then tell when a page is wrong, foreign or damaged.
#include "sim/world/pages.h"

#include <algorithm>
#include <charconv>

#include "kernels/base/check.h"
#include "sim/base/random.h"

namespace troupe::sim {
namespace {

// Never 0, which means none.
std::uint32_t mark(std::uint64_t hash) { return static_cast<std::uint32_t>(hash) | 1; }

std::uint64_t take(std::uint64_t sum, const PageFingerprint& print) {
  return mix(sum, print.of_layer[0], print.of_layer[1]);
}

}  // namespace

std::uint32_t block_mark(const BlockName& name) {
  return mark(hash_of({reinterpret_cast<const char*>(name.bytes.data()), name.bytes.size()}));
}

// Returns the tenant's mark; the owner of a user's block is "<length of the tenant>:<tenant><user>".
std::uint32_t tenant_mark(SegmentKind kind, std::string_view owner) {
  if (kind != SegmentKind::user) return 0;
  const std::size_t colon = owner.find(':');
  if (colon == std::string_view::npos) return 0;
  std::size_t length = 0;
  std::from_chars(owner.data(), owner.data() + colon, length);
  return mark(hash_of(owner.substr(colon + 1, length)));
}

std::uint32_t model_mark(std::string_view model_version) { return mark(hash_of(model_version)); }

Pages::Pages(std::uint32_t count, std::uint32_t page_tokens) : page_tokens_(page_tokens), pages_(count) {
  TROUPE_CHECK(page_tokens > 0, "a page must hold at least one token");
}

bool Pages::hold(std::span<const std::uint32_t> ids, std::size_t tokens) const {
  return ids.size() == pages_for(tokens, page_tokens_) &&
         std::all_of(ids.begin(), ids.end(), [&](std::uint32_t id) { return id < count(); });
}

void Pages::write(std::uint32_t id, const PageFingerprint& print, const Provenance& from) {
  copy(id, Page{print, from});
  pages_[id].fresh = 1;
}

void Pages::copy(std::uint32_t id, const Page& content, bool late) {
  pages_[id] = content;
  pages_[id].writing = ++writings_;
  pages_[id].late = late;
  pages_[id].fresh = pages_[id].struck = 0;
}

void Pages::set_checked(std::span<const std::uint32_t> ids) {
  for (const std::uint32_t id : ids) pages_[id].fresh = 0;
}

std::uint64_t Pages::checksum(std::span<const std::uint32_t> ids) const {
  std::uint64_t sum = ids.size();
  for (const std::uint32_t id : ids) sum = take(sum, pages_[id].print);
  return sum;
}

std::vector<Page> Pages::read(std::span<const std::uint32_t> ids) const {
  std::vector<Page> copies;
  copies.reserve(ids.size());
  for (const std::uint32_t id : ids) copies.push_back(pages_[id]);
  return copies;
}

bool Pages::rewritten(std::span<const std::uint32_t> ids, std::span<const Page> since) const {
  for (std::size_t i = 0; i < ids.size(); ++i)
    if (pages_[ids[i]].writing != since[i].writing) return true;
  return false;
}

void Pages::begin_arrival(std::uint64_t generation, Arrival arrival) {
  constexpr std::size_t arrivals_max = 1'024;
  arrivals_[generation] = std::move(arrival);
  if (arrivals_.size() > arrivals_max) arrivals_.erase(arrivals_.begin());
}

void Pages::end_arrival(std::uint64_t generation, bool good, std::span<const std::uint32_t> ids) {
  const auto at = arrivals_.find(generation);
  if (at == arrivals_.end() || at->second.ended) return;
  at->second.ended = true;
  at->second.good = good;
  const Pages& here = *this;
  at->second.left = here.read(ids);
}

const Arrival* Pages::arrival(std::uint64_t generation) const {
  const auto at = arrivals_.find(generation);
  return at == arrivals_.end() ? nullptr : &at->second;
}

void Pages::flip(std::uint32_t id, std::uint64_t bit) { sim::flip(pages_[id], bit); }

void Pages::strike(std::uint32_t id, std::uint64_t bit) {
  flip(id, bit);
  pages_[id].struck = 1;
}

void flip(Page& page, std::uint64_t bit) {
  page.print.of_layer[bit / 64 % layers] ^= std::uint64_t{1} << (bit % 64);
}

}  // namespace troupe::sim
