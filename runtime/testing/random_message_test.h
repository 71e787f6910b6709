#pragma once
// Test helper: messages with random members, for tests of codecs.
#include <boost/pfr.hpp>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/wire/codec.h"

namespace troupe {

// Fills every member of every struct, including members added later.
class RandomMessage {
 public:
  explicit RandomMessage(std::uint64_t seed) : random_(seed) {}

  Envelope envelope(std::size_t alternative) {
    Envelope e;
    fill(e.from);
    make(e.message, alternative, std::make_index_sequence<std::variant_size_v<AnyMessage>>());
    return e;
  }
  std::uint64_t below(std::uint64_t n) { return random_() % n; }

 private:
  template <std::size_t... I>
  void make(Message& m, std::size_t alternative, std::index_sequence<I...>) {
    ((I == alternative ? fill(m.emplace<I>()) : void()), ...);
  }
  void fill(std::string& s) {
    s.resize(below(12));
    for (char& c : s) c = static_cast<char>(random_());
  }
  void fill(BlockName& name) {
    for (auto& byte : name.bytes) byte = static_cast<std::uint8_t>(random_());
  }
  void fill(bool& value) { value = below(2) == 1; }
  void fill(float& value) { value = static_cast<float>(below(1000)) / 7; }
  void fill(double& value) { value = static_cast<double>(random_()) / 3e9; }
  void fill(SegmentKind& value) { value = static_cast<SegmentKind>(below(6)); }
  void fill(Readout::What& value) { value = static_cast<Readout::What>(below(3)); }
  void fill(Search::Normalisation& value) { value = static_cast<Search::Normalisation>(below(2)); }
  void fill(Tokens& tokens) {
    std::vector<Token> copy;
    fill(copy);
    tokens = std::move(copy);
  }
  void fill(VisibleSegments& sees) {
    for (std::uint32_t range = 0, at = 0; range < below(5); ++range) {
      const auto begin = static_cast<std::uint32_t>(at + below(9));
      at = static_cast<std::uint32_t>(begin + 1 + below(9));
      sees.add({begin, at});
    }
  }
  void fill(RefusalKind& value) { value = static_cast<RefusalKind>(below(refusal_kinds)); }
  void fill(Freshness& value) { value = static_cast<Freshness>(below(4)); }
  void fill(Arrangement& value) { value = static_cast<Arrangement>(below(7)); }
  void fill(Normalised& value) { value = static_cast<Normalised>(below(3)); }
  void fill(UnknownCandidates& value) { value = static_cast<UnknownCandidates>(below(2)); }
  void fill(UnknownUser& value) { value = static_cast<UnknownUser>(below(3)); }
  void fill(Role& value) { value = static_cast<Role>(below(6)); }
  void fill(Priority& value) { value = static_cast<Priority>(below(2)); }
  void fill(Grant& value) { value = static_cast<Grant>(below(3)); }
  void fill(Outcome& value) { value = static_cast<Outcome>(below(4)); }
  template <class T>
  void fill(std::optional<T>& value) {
    if (below(2) == 1) fill(value.emplace());
  }
  template <class T>
  void fill(std::vector<T>& values) {
    values.resize(below(5));
    for (T& value : values) fill(value);
  }
  template <class T>
  void fill(T& value) {
    if constexpr (std::is_integral_v<T>)
      value = static_cast<T>(random_());
    else
      boost::pfr::for_each_field(value, [this](auto& field) { fill(field); });
  }

  std::mt19937_64 random_;
};

}  // namespace troupe
