#pragma once
// What a node has seen of its cluster's members, and its own incarnation, in its data folder: an etcd that
// has lost its data gives numbers from the beginning again, and only nodes know which were given before. One
// file, replaced as a whole; the first line names the cluster, for a folder may be used in another one later.
//
//   cluster troupe
//   incarnation 459661358249114624
//   last 7
//   joined 7 10.0.0.6 5006 w6
//   sum 7262842109438126312
//
// The sum is XXH3 of all before, decimal: what a damaged disk says must not be told to an etcd.
#include <filesystem>
#include <string>

#include "runtime/actor/core.h"
#include "runtime/coordination/members.h"

namespace troupe {

class KeptMembers {
 public:
  // An empty folder: nothing is kept. `own`: of this process; who only reads has none.
  KeptMembers(const std::filesystem::path& folder, std::string cluster, Incarnation own = 0);

  struct Found {
    Members members;              // none: nothing of this cluster was kept
    Incarnation incarnation = 0;  // of the process that wrote it
    std::string fault;            // what is wrong with the file, which says nothing then; ""
  };
  Found read() const;
  // "" or why it is not kept.
  std::string write(const Members& members) const;

 private:
  std::filesystem::path path_;
  std::string first_line_;
  Incarnation own_;
};

}  // namespace troupe
