#pragma once
// Coordination of a single node: one small file, and leases that this process counts on its steady
// clock. State that outlives the process (keys without a lease) is on disk before it is answered:
// written aside, flushed, renamed, folder flushed. So a crash leaves the old or the new state.
// Leases and the keys bound to them end with the process. They touch the disk only to reserve
// numbers, a thousand at a time, so that numbers never go back. A slow disk does not depose the
// leader: leases are kept and keys are read while changes are written. All callers are in this
// process; a second process that opens the same file is refused.
//
// If the flush of the folder fails, the file may or may not be replaced on disk. The state is
// then in doubt: the caller gets a refusal, and all reads and changes are refused until the file
// has been written again as a whole.
//
// The state is not stored in the node's RocksDB. That one may be set aside when it is damaged,
// while leadership must not be lost. A node with only the cache-meta role has no RocksDB. And the
// whole state is only one disk block.
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

struct ReplaceOutcome {
  enum class What : std::uint8_t { done, not_done, unknown } what = What::done;
  std::string fault;  // unless done, such as "fsync: …"
};
// Replaces the file's content with `text`, so that a crash leaves the old or the new content.
ReplaceOutcome replace_file(const std::filesystem::path& path, std::string_view text);

// `what()` says what is wrong, where and what was expected.
struct CoordinationDamage : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Throws CoordinationDamage if the file is damaged; changes nothing. A file that never existed is
// fine.
void check_coordination(const std::filesystem::path& path);

// Renames the file to <path>.damaged, so that the next opening creates an empty one.
void set_coordination_aside(const std::filesystem::path& path);

// Thread-safe.
class FileCoordination final : public Coordination {
 public:
  using Answer = std::variant<CoordinationReply, Refusal>;
  using Replace = std::function<ReplaceOutcome(const std::filesystem::path&, std::string_view)>;

  // Opens the file, or creates it. Throws std::runtime_error with what is wrong, where and what was
  // expected if the folder is missing or cannot be written, or the file is open elsewhere. Throws
  // CoordinationDamage if the file is damaged, foreign, or missing although it existed. `replace`
  // is for tests.
  explicit FileCoordination(std::filesystem::path path, Replace replace = replace_file);
  ~FileCoordination() override;
  FileCoordination(const FileCoordination&) = delete;
  FileCoordination& operator=(const FileCoordination&) = delete;

  // Answers a question. A WatchKey blocks the calling thread. Refusals: those of CoordinationState,
  // and unavailable "coordination_unavailable" if the file cannot be written; the next question tries
  // again.
  Answer ask(const Coordinate& question) override;

 private:
  Answer keep(const Coordinate& question);
  Answer read(const Coordinate& question);
  Answer watch(const WatchKey& key);
  Answer change(const Coordinate& question);
  Answer answer(const Coordinate& question);
  std::optional<Refusal> resolve_doubt();
  std::optional<Refusal> resolve_doubt_if_any();
  std::optional<Refusal> save(CoordinationState next);
  void take(CoordinationState next, bool in_doubt);
  Refusal unavailable(const std::string& why) const;

  const std::filesystem::path path_;
  const Replace replace_;
  int lock_ = -1;          // descriptor of `path_`.lock
  std::mutex changing_;    // held while the file is written; taken before `mutex_`
  Revision reserved_ = 0;  // the file marks numbers up to this as used; guarded by changing_
  std::mutex mutex_;
  std::condition_variable changed_;
  CoordinationState state_;  // guarded by mutex_; without changing_ only leases change
  // Unknown whether state_ is on disk; guarded by mutex_, changed with changing_.
  bool in_doubt_ = false;
};

}  // namespace troupe
