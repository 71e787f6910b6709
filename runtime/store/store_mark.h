#pragma once
// What was acknowledged, kept apart from the database: the last version numbers that were answered, and those
// up to which numbers may have been given out. A log whose end is gone looks like one that was never written;
// the mark tells them apart, and with it no number is given out twice, whatever became of the log.
//
// A file of two slots in sectors of their own, written in turn, each with a sum. The ceilings are durable
// before a number above the former one is used; the last numbers are written without waiting for the disk, so
// that after a loss of power they may lag behind (less is then noticed), and never lead.
#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace troupe {

enum class Numbered : std::uint8_t { profiles, catalog };

class AcknowledgedMark {
 public:
  struct State {
    std::array<std::uint64_t, 2> last{}, ceiling{};  // by Numbered
    bool operator==(const State&) const = default;
  };
  struct Found {
    std::optional<State> state;  // of the newest sound slot
    std::string damage;          // "one of two slots is damaged", "it is missing", ...; empty: none
  };
  static Found look(const std::filesystem::path& file);

  // Makes the file, or replaces what it says, durably. Throws std::system_error.
  AcknowledgedMark(const std::filesystem::path& file, const State& state);
  ~AcknowledgedMark();
  AcknowledgedMark(const AcknowledgedMark&) = delete;
  AcknowledgedMark& operator=(const AcknowledgedMark&) = delete;

  // One writer at a time. Before a write that gives out this number: what failed, or nothing.
  std::optional<std::string> reserve(Numbered what, std::uint64_t number);
  // After it, and before it is answered.
  void acknowledge(Numbered what, std::uint64_t number);
  std::uint64_t ceiling(Numbered what) const { return state_.ceiling[static_cast<std::size_t>(what)]; }

 private:
  bool write_slot();

  int file_ = -1;
  std::uint64_t serial_ = 0;
  State state_;
};

}  // namespace troupe
