// Maps etcd's revisions to revisions that never go back, whatever etcd loses.
#include "runtime/coordination/etcd_history.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace troupe {
namespace {

// Takes "name 1 2\n" with as many numbers as `numbers` has from the text; false: it begins otherwise.
template <std::size_t count>
bool take_line(std::string_view& text, std::string_view name, std::array<std::uint64_t, count>& numbers) {
  std::string_view rest = text;
  if (!rest.starts_with(name)) return false;
  rest.remove_prefix(name.size());
  for (std::uint64_t& number : numbers) {
    if (!rest.starts_with(' ')) return false;
    rest.remove_prefix(1);
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
    if (error != std::errc()) return false;
    rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
  }
  if (!rest.starts_with('\n')) return false;
  text = rest.substr(1);
  return true;
}

}  // namespace

std::optional<EtcdHistory> EtcdHistory::parse(std::string_view text) {
  EtcdHistory history;
  std::array<std::uint64_t, 1> id{};
  if (!take_line(text, "id", id) || id[0] == 0) return std::nullopt;
  history.id_ = id[0];
  for (std::array<std::uint64_t, 2> raise{}; !text.empty();) {
    if (!take_line(text, "raised", raise) || history.raises_.size() == raises_max) return std::nullopt;
    const auto [after, add] = raise;
    const Raise before = history.raises_.empty() ? Raise{} : history.raises_.back();
    const bool rises = after >= before.after && add >= before.add;
    if (!rises || std::max(after, add) > RaiseRevisions::above_max) return std::nullopt;
    history.raises_.push_back({after, add});
  }
  return history;
}

std::string EtcdHistory::text() const {
  std::string text = "id " + std::to_string(id_) + "\n";
  for (const Raise& raise : raises_)
    text += "raised " + std::to_string(raise.after) + " " + std::to_string(raise.add) + "\n";
  return text;
}

Revision EtcdHistory::number_of(Revision etcd) const {
  for (auto raise = raises_.rbegin(); raise != raises_.rend(); ++raise)
    if (etcd > raise->after) return etcd + raise->add;
  return etcd;
}

std::optional<Revision> EtcdHistory::etcd_of(Revision number) const {
  for (auto raise = raises_.rbegin(); raise != raises_.rend(); ++raise) {
    if (number > raise->after + raise->add) return number - raise->add;
    const Revision add_before = raise + 1 == raises_.rend() ? 0 : (raise + 1)->add;
    if (number > raise->after + add_before) return std::nullopt;  // between two histories
  }
  return number;
}

void EtcdHistory::raise(Revision now, Revision above) {
  const Revision add = raises_.empty() ? 0 : raises_.back().add;
  if (now + 1 + add > above) return;
  raises_.push_back({now, above - now});
  if (raises_.size() > raises_max) raises_.erase(raises_.begin());
}

}  // namespace troupe
