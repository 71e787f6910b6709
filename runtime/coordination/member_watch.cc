// Keeps a router's or cache-meta's list of the cluster's nodes current by re-reading it from the
// coordination service (etcd, or a file). The known list stays in use while a new one cannot be
// read or is invalid.
#include "runtime/coordination/member_watch.h"

#include <utility>

namespace troupe {

MemberWatch::MemberWatch(Nodes file, Duration every, ReadMembers known)
    : file_(std::move(file)),
      every_(every),
      known_(std::move(known)),
      there_(there()),
      read_(known_.revision) {}

MemberWatch::Nodes MemberWatch::there() const {
  const ClusterMembers& members = known_.members;
  return {nodes_of(members, file_.workers, NodeRole::worker),
          nodes_of(members, file_.routers, NodeRole::router),
          nodes_of(members, file_.cache_metas, NodeRole::cache_meta)};
}

bool MemberWatch::tick(Instant now, std::uint64_t job, Effects& effects) {
  if (every_.us == 0 || job_ != 0 || now < next_) return false;
  next_ = now + every_;
  job_ = job;
  effects.start(job, Coordinate{ReadKey{std::string(members_key)}});
  return true;
}

// Logs an invalid text once per revision. Compares revisions for equality only, because they start
// anew in an etcd that has lost its data.
MemberWatch::Answer MemberWatch::on_done(const JobDone& done, Effects& effects) {
  if (job_ == 0 || done.job != job_) return Answer::foreign;
  job_ = 0;
  const auto* read = std::get_if<CoordinationReply>(&done.result);
  if (!read || std::exchange(read_, read->revision) == read->revision) return Answer::same;
  auto parsed = parse_members(read->value);
  if (const auto* fault = std::get_if<std::string>(&parsed)) return keep(*fault, effects);
  ClusterMembers& members = std::get<ClusterMembers>(parsed);
  if (const std::string fault = find_contradiction(known_.members, members); !fault.empty())
    return keep(fault, effects);
  known_.revision = read->revision;
  if (members == known_.members) return Answer::same;
  known_.members = std::move(members);
  there_ = there();
  return Answer::changed;
}

MemberWatch::Answer MemberWatch::keep(std::string_view why, Effects& effects) {
  effects.log(LogLevel::error, "bad_members",
              {{"why", std::string(why)}, {"expected", "what troupe node --join and troupe leave write"}});
  return Answer::same;
}

std::vector<NodeId> MemberWatch::staying() const {
  std::vector<NodeId> nodes = there_.workers;
  std::erase_if(nodes, [this](NodeId node) { return is_leaving(node); });
  return nodes;
}

}  // namespace troupe
