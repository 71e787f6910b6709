#pragma once
// Keeps a node's last view of its cluster's members, and its own incarnation, in its data folder.
// An etcd that lost its data reuses node numbers, and only the nodes know which were given before.
// It is one file, replaced as a whole. The first line names the cluster, because the folder may be
// used in another cluster later:
//
//   cluster troupe
//   incarnation 459661358249114624
//   last 7
//   joined 7 10.0.0.6 5006 w6
//   sum 7262842109438126312
//
// The sum is XXH3 of all bytes before, decimal: damaged data must never be written to an etcd.
#include <filesystem>
#include <string>

#include "runtime/actor/core.h"
#include "runtime/coordination/members.h"

namespace troupe {

class MembersFile {
 public:
  // `folder` empty: nothing is kept. `own`: incarnation of this process; 0 for readers.
  MembersFile(const std::filesystem::path& folder, std::string cluster, Incarnation own = 0);

  struct MembersFileContent {
    ClusterMembers members;       // empty: nothing of this cluster was kept
    Incarnation incarnation = 0;  // incarnation of the process that wrote it
    std::string fault;            // "" or what is wrong with the file; then the other fields are empty
  };
  MembersFileContent read() const;
  // Returns "" or why the file could not be written.
  std::string write(const ClusterMembers& members) const;

 private:
  std::filesystem::path path_;
  std::string first_line_;
  Incarnation own_;
};

}  // namespace troupe
