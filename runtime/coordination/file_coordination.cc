// Keeps a single node's coordination state (keys with revisions, leases) in one small file, so that
// leadership and version numbers survive a restart. The file is replaced as a whole before a change
// is answered.
#include "runtime/coordination/file_coordination.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <fstream>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string_view>

namespace troupe {
namespace {

// File format: the head; "last <number>", where numbers up to it are used; for each key "key
// <revision> <name bytes> <value bytes>", a line break, name, value and a line break; "sum <XXH3 of
// everything before, decimal>". Every line ends with a line break.
constexpr std::string_view head = "troupe coordination 1\n";
constexpr std::size_t file_bytes_max = 4 * CoordinationState::bytes_max;
// Numbers that leases may take before the file is written again.
constexpr Revision numbers_ahead = 1'000;
constexpr std::int64_t wait_us_max = CoordinationState::ttl_us_max;

std::int64_t steady_us() {
  const auto since_boot = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::microseconds>(since_boot).count();
}

std::chrono::steady_clock::time_point steady_point(std::int64_t us) {
  return std::chrono::steady_clock::time_point(std::chrono::microseconds(us));
}

std::string text_of(const CoordinationState& state, Revision reserved) {
  std::string text(head);
  text += "last " + std::to_string(reserved) + "\n";
  for (const auto& [name, key] : state.keys()) {
    if (key.lease != 0) continue;
    text += "key " + std::to_string(key.revision) + " " + std::to_string(name.size()) + " " +
            std::to_string(key.value.size()) + "\n" + name + key.value + "\n";
  }
  return text + "sum " + std::to_string(XXH3_64bits(text.data(), text.size())) + "\n";
}

// Reads the file's text from its front. Throws with the position of the first invalid byte.
class CoordinationFileReader {
 public:
  CoordinationFileReader(std::string_view text, const std::filesystem::path& path)
      : text_(text), path_(path) {}

  bool take_if(std::string_view expected) {
    if (!text_.substr(at_).starts_with(expected)) return false;
    at_ += expected.size();
    return true;
  }
  void take(std::string_view expected) {
    if (!take_if(expected))
      fail(expected == "\n" ? "a line break"
                            : "\"" + std::string(expected.substr(0, expected.find('\n'))) + "\"");
  }
  std::uint64_t number() {
    std::uint64_t value = 0;
    const char* end = text_.data() + text_.size();
    const auto [stop, error] = std::from_chars(text_.data() + at_, end, value);
    if (error != std::errc()) fail("a number");
    at_ = static_cast<std::size_t>(stop - text_.data());
    return value;
  }
  std::string bytes(std::uint64_t count) {
    if (count > text_.size() - at_) fail(std::to_string(count) + " more bytes");
    at_ += count;
    return std::string(text_.substr(at_ - count, count));
  }
  void end() {
    if (at_ != text_.size()) fail("the end of the file");
  }
  std::string_view taken() const { return text_.substr(0, at_); }

  [[noreturn]] void fail(const std::string& expected) const {
    throw CoordinationDamage(path_.string() + ": the coordination file is damaged at byte " +
                             std::to_string(at_) + "; expected " + expected +
                             "; restore it, or delete it to start empty");
  }

 private:
  std::string_view text_;
  const std::filesystem::path& path_;
  std::size_t at_ = 0;
};

CoordinationState state_of(std::string_view text, const std::filesystem::path& path) {
  CoordinationFileReader reader(text, path);
  if (!reader.take_if(head))
    throw CoordinationDamage(path.string() +
                             ": not a coordination file of this version; expected it to begin with \"" +
                             std::string(head.substr(0, head.size() - 1)) + "\"");
  reader.take("last ");
  const Revision last = reader.number();
  reader.take("\n");
  CoordinationState::Keys keys;
  while (reader.take_if("key ")) {
    CoordinationState::Key key;
    key.revision = reader.number();
    reader.take(" ");
    const std::uint64_t name_bytes = reader.number();
    reader.take(" ");
    const std::uint64_t value_bytes = reader.number();
    reader.take("\n");
    const std::string name = reader.bytes(name_bytes);
    key.value = reader.bytes(value_bytes);
    reader.take("\n");
    keys[name] = std::move(key);
  }
  const std::string_view summed = reader.taken();
  reader.take("sum ");
  if (reader.number() != XXH3_64bits(summed.data(), summed.size()))
    reader.fail("the sum of all bytes before");
  reader.take("\n");
  reader.end();
  return CoordinationState(std::move(keys), last);
}

// The lock file is not empty once a coordination file has existed beside it.
CoordinationState fresh_if_new(const std::filesystem::path& path) {
  std::error_code error;
  const auto kept = std::filesystem::file_size(path.string() + ".lock", error);
  if (error || kept == 0) return {};
  throw CoordinationDamage(path.string() +
                           ": the coordination file existed and is missing; restore it, "
                           "or delete " +
                           path.string() + ".lock too, to start empty");
}

CoordinationState load(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    if (!std::filesystem::exists(path)) return fresh_if_new(path);
    throw std::runtime_error(path.string() + ": cannot be read; expected a coordination file");
  }
  std::string text(file_bytes_max + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad()) throw std::runtime_error(path.string() + ": reading failed; expected a coordination file");
  text.resize(static_cast<std::size_t>(file.gcount()));
  return state_of(text, path);
}

// Returns what failed, or nullopt.
std::optional<std::string> write_flushed(const std::filesystem::path& path, std::string_view text) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0) return "open: " + std::string(std::strerror(errno));
  std::optional<std::string> fault;
  while (!text.empty() && !fault) {
    const ssize_t wrote = write(file, text.data(), text.size());
    if (wrote >= 0) text.remove_prefix(static_cast<std::size_t>(wrote));
    if (wrote < 0 && errno != EINTR) fault = "write: " + std::string(std::strerror(errno));
  }
  if (!fault && fsync(file) != 0) fault = "fsync: " + std::string(std::strerror(errno));
  close(file);
  return fault;
}

std::optional<std::string> flush_folder(const std::filesystem::path& path) {
  const std::filesystem::path parent = path.has_parent_path() ? path.parent_path() : ".";
  const int folder = open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return "open of the folder: " + std::string(std::strerror(errno));
  std::optional<std::string> fault;
  if (fsync(folder) != 0) fault = "fsync of the folder: " + std::string(std::strerror(errno));
  close(folder);
  return fault;
}

int lock_file(const std::filesystem::path& path) {
  const std::string name = path.string() + ".lock";
  const int lock = open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (lock < 0)
    throw std::runtime_error(name + ": " + std::strerror(errno) + "; expected a folder that can be written");
  if (flock(lock, LOCK_EX | LOCK_NB) == 0) return lock;
  close(lock);
  throw std::runtime_error(path.string() +
                           ": in use by another process; expected one process per coordination file");
}

// True if the question's change must outlive the process.
bool outlives(const CoordinationState& state, const Coordinate& question) {
  const auto is_kept = [&](const std::string& name) {
    const auto key = state.keys().find(name);
    return key != state.keys().end() && key->second.lease == 0;
  };
  if (const auto* write = std::get_if<WriteKey>(&question.what))
    return write->lease == 0 || is_kept(write->key);
  const auto* erase = std::get_if<EraseKey>(&question.what);
  return erase && is_kept(erase->key);
}

}  // namespace

void check_coordination(const std::filesystem::path& path) { load(path); }

void set_coordination_aside(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::rename(path, path.string() + ".damaged", error);  // the file may be missing
  std::filesystem::remove(path.string() + ".lock", error);
}

ReplaceOutcome replace_file(const std::filesystem::path& path, std::string_view text) {
  using What = ReplaceOutcome::What;
  const std::filesystem::path aside = path.string() + ".new";
  if (const auto fault = write_flushed(aside, text)) return {What::not_done, *fault};
  if (rename(aside.c_str(), path.c_str()) != 0)
    return {What::not_done, "rename: " + std::string(std::strerror(errno))};
  const auto fault = flush_folder(path);
  return fault ? ReplaceOutcome{What::unknown, *fault} : ReplaceOutcome{};
}

FileCoordination::FileCoordination(std::filesystem::path path, Replace replace)
    : path_(std::move(path)), replace_(std::move(replace)), lock_(lock_file(path_)) {
  try {
    if (const auto refusal = save(load(path_)))
      throw std::runtime_error(path_.string() + ": " + refusal->what +
                               "; expected a file that can be written");
    if (lseek(lock_, 0, SEEK_END) == 0 && (::write(lock_, "kept\n", 5) != 5 || fsync(lock_) != 0))
      throw std::runtime_error(path_.string() + ".lock: " + std::strerror(errno) +
                               "; expected a file that can be written");
  } catch (...) {
    close(lock_);
    throw;
  }
}

FileCoordination::~FileCoordination() { close(lock_); }

FileCoordination::Answer FileCoordination::ask(const Coordinate& question) {
  if (const auto* key = std::get_if<WatchKey>(&question.what)) return watch(*key);
  if (std::holds_alternative<KeepLease>(question.what)) return keep(question);
  if (std::holds_alternative<ReadKey>(question.what)) return read(question);
  return change(question);
}

Refusal FileCoordination::unavailable(const std::string& why) const {
  return {RefusalKind::unavailable, "coordination_unavailable", why, path_.string(),
          "a disk that can be written"};
}

// ---- operations without disk access ----

FileCoordination::Answer FileCoordination::keep(const Coordinate& question) {
  const std::lock_guard held(mutex_);
  return state_.ask(steady_us(), question);
}

FileCoordination::Answer FileCoordination::read(const Coordinate& question) {
  if (auto refusal = resolve_doubt_if_any()) return *std::move(refusal);
  const std::lock_guard held(mutex_);
  return answer(question);
}

FileCoordination::Answer FileCoordination::watch(const WatchKey& key) {
  if (auto refusal = resolve_doubt_if_any()) return *std::move(refusal);
  const std::int64_t end_us = steady_us() + std::clamp<std::int64_t>(key.wait_us, 0, wait_us_max);
  std::unique_lock held(mutex_);
  while (steady_us() < end_us && !in_doubt_ && !state_.watched(steady_us(), key)) {
    const std::int64_t wake_us = std::min(end_us, state_.next_end().value_or(end_us));
    changed_.wait_until(held, steady_point(wake_us));
  }
  return answer(Coordinate{key});
}

// Requires mutex_.
FileCoordination::Answer FileCoordination::answer(const Coordinate& question) {
  if (in_doubt_) return unavailable("it is not known yet whether the last change is on the disk");
  return state_.ask(steady_us(), question);
}

// ---- changes: one at a time ----

// Writes to disk first if the change must outlive the process.
FileCoordination::Answer FileCoordination::change(const Coordinate& question) {
  const std::lock_guard alone(changing_);
  if (auto refusal = resolve_doubt()) return *std::move(refusal);
  CoordinationState next;
  bool to_disk = false;
  Revision before = 0;
  Answer done;
  {
    const std::lock_guard held(mutex_);  // a lease kept now is kept in both copies
    next = state_;
    to_disk = outlives(state_, question);
    before = next.last();
    done = next.ask(steady_us(), question);
  }
  if (next.last() > reserved_ || (to_disk && next.last() != before)) {
    if (auto refusal = save(std::move(next))) return *std::move(refusal);
  } else {
    take(std::move(next), false);
  }
  return done;
}

// Requires changing_; the only place that resolves a doubt. A failed folder flush cannot be checked
// afterwards, so the file is written again.
std::optional<Refusal> FileCoordination::resolve_doubt() {
  CoordinationState doubtful;
  {
    const std::lock_guard held(mutex_);
    if (!in_doubt_) return std::nullopt;
    doubtful = state_;
  }
  return save(std::move(doubtful));
}

std::optional<Refusal> FileCoordination::resolve_doubt_if_any() {
  {
    const std::lock_guard held(mutex_);
    if (!in_doubt_) return std::nullopt;
  }
  const std::lock_guard alone(changing_);
  return resolve_doubt();
}

// If the file was not replaced, nothing changes except that the numbers taken are not reused.
std::optional<Refusal> FileCoordination::save(CoordinationState next) {
  const Revision reserved = std::max(reserved_, next.last() + numbers_ahead);
  const ReplaceOutcome replaced = replace_(path_, text_of(next, reserved));
  if (replaced.what == ReplaceOutcome::What::not_done) {
    const std::lock_guard held(mutex_);
    state_.skip(next.last());
  } else {
    reserved_ = reserved;
    take(std::move(next), replaced.what == ReplaceOutcome::What::unknown);
  }
  if (replaced.what == ReplaceOutcome::What::done) return std::nullopt;
  return unavailable(replaced.fault);
}

// Leases may have been kept while the file was written.
void FileCoordination::take(CoordinationState next, bool in_doubt) {
  {
    const std::lock_guard held(mutex_);
    next.keep_as(state_);
    state_ = std::move(next);
    in_doubt_ = in_doubt;
  }
  changed_.notify_all();
}

}  // namespace troupe
