#pragma once
// The Coordination of a single box: one small file, and leases that this process counts on its steady clock.
// Every change of a key is on the disk before it is answered (written aside, flushed, renamed, folder
// flushed), so a crash leaves the old or the new state, and numbers never go back. Leases and the keys bound
// to them end with the process. Whoever asks sits in this process too; another process that opens the same
// file is refused.
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <string>
#include <variant>

#include "runtime/coordination_state.h"

namespace troupe {

// Thread-safe.
class FileCoordination final : public Coordination {
 public:
  // Throws std::runtime_error that says what is wrong, where and what was expected: the folder is missing or
  // cannot be written, the file is open elsewhere, damaged, or not ours. A file that is missing is made.
  explicit FileCoordination(std::filesystem::path path);
  ~FileCoordination() override;
  FileCoordination(const FileCoordination&) = delete;
  FileCoordination& operator=(const FileCoordination&) = delete;

  // A WatchKey blocks the calling thread. Refusal: those of CoordinationState, and 503
  // "coordination_unavailable" if the file cannot be written; the next change tries afresh.
  std::variant<Coordinated, Refusal> ask(const Coordinate& question) override;

 private:
  std::variant<Coordinated, Refusal> watch(std::unique_lock<std::mutex>& held, const WatchKey& key);
  std::variant<Coordinated, Refusal> change(const Coordinate& question);

  std::filesystem::path path_;
  int lock_ = -1;  // descriptor of `path_`.lock
  std::mutex mutex_;
  std::condition_variable changed_;
  CoordinationState state_;
};

}  // namespace troupe
