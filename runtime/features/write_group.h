#pragma once
// Lets writes that wait for a slow disk share one sync: while one thread stores a group of writes, those
// that come wait, and one of their threads stores all of them together next. Two writes of one row are
// never in one group, so each sees what the one before it stored. Thread-safe.
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "runtime/actor/ports.h"

namespace troupe {

// Names the row that a write changes.
std::string row_of(const Write& write);

class WriteGroup {
 public:
  struct Member {
    const Write& write;
    std::string row;
    JobResult result;
    bool ended = false;
  };
  // Stores the members, in order, and sets their results. Must not throw. One call at a time.
  using Store = std::function<void(std::span<Member* const> group)>;

  explicit WriteGroup(Store store) : store_(std::move(store)) {}

  // Returns once the write has its result.
  JobResult run(const Write& write);
  std::size_t waiting() const;  // writes that no group has yet

 private:
  std::vector<Member*> take_group();

  const Store store_;
  mutable std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::vector<Member*> waiting_;  // in the order in which they came
  bool storing_ = false;
};

}  // namespace troupe
