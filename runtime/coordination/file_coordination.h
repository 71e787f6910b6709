#pragma once
// The Coordination of a single box: one small file, and leases that this process counts on its steady clock.
// What outlives the process (keys without a lease) is on the disk before it is answered (written aside,
// flushed, renamed, folder flushed), so a crash leaves the old or the new state. Leases and the keys bound to
// them end with the process and touch the disk only to set numbers aside, a thousand at a time; so numbers
// never go back, and a slow disk does not unseat who leads: leases are kept and keys are read while others'
// changes are written. Whoever asks sits in this process too; another process that opens the same file is
// refused.
//
// A file may have been replaced without our knowing that the disk has it (the folder's flush failed). The
// state is then in doubt: whoever asked is told so, and nobody reads anything and nothing more is changed
// until the file has been written again, as a whole.
//
// Not a few keys more in the box's RocksDB: that one may be set aside when it is damaged, and who leads may
// not; a cache-meta alone has none; and the whole state is one block of a disk.
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <variant>

#include "runtime/coordination/coordination_state.h"

namespace troupe {

struct FileReplaced {
  enum class What : std::uint8_t { done, not_done, unknown } what = What::done;
  std::string fault;  // unless done: "fsync: …"
};
// Puts `text` in the place of the file, so that a crash leaves one or the other.
FileReplaced replace_file(const std::filesystem::path& path, std::string_view text);

// `what()` says what is wrong, where and what was expected.
struct CoordinationDamage : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Throws CoordinationDamage if the file is not whole; looks only. One that never was is.
void check_coordination(const std::filesystem::path& path);

// So that an empty one is made at the next opening: renames what is there to <path>.damaged.
void set_coordination_aside(const std::filesystem::path& path);

// Thread-safe.
class FileCoordination final : public Coordination {
 public:
  using Answer = std::variant<Coordinated, Refusal>;
  using Replace = std::function<FileReplaced(const std::filesystem::path&, std::string_view)>;

  // Throws std::runtime_error that says what is wrong, where and what was expected: the folder is missing or
  // cannot be written, the file is open elsewhere; CoordinationDamage if it is damaged, not ours, or missing
  // though there was one. Else a file that is missing is made. `replace` is for tests.
  explicit FileCoordination(std::filesystem::path path, Replace replace = replace_file);
  ~FileCoordination() override;
  FileCoordination(const FileCoordination&) = delete;
  FileCoordination& operator=(const FileCoordination&) = delete;

  // A WatchKey blocks the calling thread. Refusal: those of CoordinationState, and 503
  // "coordination_unavailable" if the file cannot be written; the next question tries afresh.
  Answer ask(const Coordinate& question) override;

 private:
  Answer keep(const Coordinate& question);
  Answer read(const Coordinate& question);
  Answer watch(const WatchKey& key);
  Answer change(const Coordinate& question);
  Answer answer(const Coordinate& question);
  std::optional<Refusal> settle();
  std::optional<Refusal> settle_if_doubtful();
  std::optional<Refusal> save(CoordinationState next);
  void take(CoordinationState next, bool in_doubt);
  Refusal unavailable(const std::string& why) const;

  const std::filesystem::path path_;
  const Replace replace_;
  int lock_ = -1;           // descriptor of `path_`.lock
  std::mutex changing_;     // held while the file is written; taken before `mutex_`
  Revision set_aside_ = 0;  // numbers up to here are taken, says the file; guarded by changing_
  std::mutex mutex_;
  std::condition_variable changed_;
  CoordinationState state_;  // guarded by mutex_; only leases change without changing_
  bool in_doubt_ = false;    // is it on the disk? guarded by mutex_, changed with changing_
};

}  // namespace troupe
