// Groups writes: the first that finds no group being stored takes all that wait.
#include "runtime/features/write_group.h"

#include <algorithm>
#include <set>
#include <utility>

#include "runtime/store/store_rows.h"

namespace troupe {

std::string row_of(const Write& write) {
  return std::visit(
      [](const auto& what) {
        if constexpr (requires { what.tenant; })
          return "user " + user_key(what.tenant, what.user);
        else
          return "item " + what.item;
      },
      write.what);
}

JobResult WriteGroup::run(const Write& write) {
  Member own{write, row_of(write), Refusal{}};
  std::unique_lock lock(mutex_);
  waiting_.push_back(&own);
  while (!own.ended) {
    if (storing_) {
      changed_.wait(lock);
      continue;
    }
    storing_ = true;
    const std::vector<Member*> group = take_group();
    lock.unlock();
    store_(group);
    lock.lock();
    storing_ = false;
    for (Member* member : group) member->ended = true;
    changed_.notify_all();
  }
  return std::move(own.result);
}

std::size_t WriteGroup::waiting() const {
  const std::lock_guard lock(mutex_);
  return waiting_.size();
}

// A later write of a row that the group has stays, and so do all later ones of that row.
std::vector<WriteGroup::Member*> WriteGroup::take_group() {
  std::vector<Member*> group, left;
  std::set<std::string_view> rows;
  for (Member* member : waiting_) (rows.insert(member->row).second ? group : left).push_back(member);
  waiting_ = std::move(left);
  return group;
}

}  // namespace troupe
