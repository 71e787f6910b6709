#pragma once
// Records what was acknowledged, apart from the database: the last version numbers that were
// answered, and ceilings up to which numbers may have been used. A log that lost its end looks like
// one that was never written further; the mark tells them apart. It also ensures that no number is
// used twice, whatever happens to the log.
//
// The file has two slots in separate sectors, written alternately, each with a checksum. A
// ceiling is durable before a number above the former one is used. The last numbers are written
// without waiting for the disk. After a loss of power they may lag behind, so that less loss is
// noticed, but they never lead.
#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace troupe {

enum class VersionKind : std::uint8_t { profiles, catalog };

class AcknowledgedMark {
 public:
  struct State {
    std::array<std::uint64_t, 2> last{}, ceiling{};  // by VersionKind
    bool operator==(const State&) const = default;
  };
  struct MarkReading {
    std::optional<State> state;  // from the newest sound slot
    std::string damage;          // such as "one of its two slots is damaged" or "it is missing"; empty: none
  };
  static MarkReading read_file(const std::filesystem::path& file);

  // Creates the file, or replaces its content, durably. Throws std::system_error.
  AcknowledgedMark(const std::filesystem::path& file, const State& state);
  ~AcknowledgedMark();
  AcknowledgedMark(const AcknowledgedMark&) = delete;
  AcknowledgedMark& operator=(const AcknowledgedMark&) = delete;

  // Raises the ceiling before a write that uses `number`. Returns the failure, or nullopt. One
  // writer at a time.
  std::optional<std::string> reserve(VersionKind what, std::uint64_t number);
  // Records `number` after the write and before it is answered.
  void acknowledge(VersionKind what, std::uint64_t number);
  std::uint64_t ceiling(VersionKind what) const { return state_.ceiling[static_cast<std::size_t>(what)]; }

 private:
  bool write_slot();

  int file_ = -1;
  std::uint64_t serial_ = 0;
  State state_;
};

}  // namespace troupe
