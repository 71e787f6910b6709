#pragma once
// Maps etcd's revisions to those that Troupe sees, which never go back. An etcd that lost its data or
// was restored from a copy counts anew, so its numbers could be taken for older ones. The map is one
// key in etcd, whose lines are
//
//   id 6840573420875512403    drawn when the key is written first; another id means other data
//   raised 17 950             to changes after etcd's revision 17, add 950
//
// A raise applies to later changes only. A key that was not changed since keeps its revision, by
// which nodes that know a newer one notice that the store has lost it.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/actor/coordination.h"

namespace troupe {

class EtcdHistory {
 public:
  static constexpr std::size_t raises_max = 64;  // beyond it, the oldest are forgotten

  // Returns nullopt for a text that `text()` does not write.
  static std::optional<EtcdHistory> parse(std::string_view text);
  std::string text() const;

  std::uint64_t id() const { return id_; }  // 0: etcd has no history yet
  void set_id(std::uint64_t id) { id_ = id; }

  Revision number_of(Revision etcd) const;  // 0 stays 0; `etcd` is below 2^63
  // Returns true for a revision (above 0) before the last raise.
  bool is_before_raise(Revision etcd) const {
    return etcd > 0 && !raises_.empty() && etcd <= raises_.back().after;
  }
  // Returns etcd's revision, or nullopt if no change of this history can have the number.
  std::optional<Revision> etcd_of(Revision number) const;
  // Makes the numbers of changes after etcd's revision `now` larger than `above`.
  void raise(Revision now, Revision above);

 private:
  struct Raise {
    Revision after = 0, add = 0;  // both rise from one raise to the next
  };
  std::uint64_t id_ = 0;
  std::vector<Raise> raises_;
};

}  // namespace troupe
