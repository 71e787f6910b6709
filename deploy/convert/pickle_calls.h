#pragma once
// The names that a pickle of tensors may contain, and what a call of each means as data. Nothing else
// is known, and nothing is ever called.
#include <functional>
#include <optional>
#include <string_view>

#include "deploy/convert/pickle.h"

namespace troupe::deploy {

bool is_known_global(std::string_view name);

// Fault of a call or a storage: what is wrong, and what was expected.
struct PickleFault {
  std::string wrong, expected;
};

// Values that a pickle has made so far, for calls that read their arguments.
class PickleTable {
 public:
  explicit PickleTable(std::vector<PickleValue>& values) : values_(values) {}

  // All throw PickleFault. `call` returns the value that takes the place of the call; none if it is the
  // value `same`. `copied` counts the elements that a call copies.
  PickleValue storage_of(PickleIndex persistent_id) const;
  std::optional<PickleValue> call(std::string_view name, const PickleList& arguments, PickleIndex& same,
                                  std::size_t& copied) const;

 private:
  const PickleList& list(PickleIndex index, std::string_view what) const;
  const std::string& text(PickleIndex index, std::string_view what) const;
  std::uint64_t count(PickleIndex index, std::string_view what) const;
  std::vector<std::uint64_t> counts(PickleIndex index, std::string_view what) const;
  PickleValue rebuilt(const PickleList& arguments, std::size_t least, std::optional<std::size_t> dtype) const;
  void reject_marks(const PickleList& arguments, std::size_t argument) const;
  PickleValue ordered(const PickleList& arguments, std::size_t& copied) const;

  std::vector<PickleValue>& values_;
};

}  // namespace troupe::deploy
