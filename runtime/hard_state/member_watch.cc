#include "runtime/hard_state/member_watch.h"

#include <utility>

namespace troupe {

MemberWatch::MemberWatch(std::vector<NodeId> workers, Duration every)
    : file_(std::move(workers)), workers_(nodes_of({}, file_)), every_(every) {}

bool MemberWatch::tick(Instant now, std::uint64_t job, Effects& effects) {
  if (every_.us == 0 || job_ != 0 || now < next_) return false;
  next_ = now + every_;
  job_ = job;
  effects.start(job, Coordinate{ReadKey{std::string(members_key)}});
  return true;
}

// A text that makes no sense is told at each new revision of it.
MemberWatch::Answer MemberWatch::on_done(const Done& done, Effects& effects) {
  if (job_ == 0 || done.job != job_) return Answer::foreign;
  job_ = 0;
  const auto* read = std::get_if<Coordinated>(&done.result);
  if (!read || read->revision <= epoch_) return Answer::same;
  epoch_ = read->revision;
  auto parsed = parse_members(read->value);
  if (const auto* fault = std::get_if<std::string>(&parsed)) {
    effects.log(LogLevel::error, "bad_members", {{"why", *fault}, {"expected", "what troupe node --join and troupe leave write"}});
    return Answer::same;
  }
  if (std::get<Members>(parsed) == members_) return Answer::same;
  members_ = std::move(std::get<Members>(parsed));
  workers_ = nodes_of(members_, file_);
  return Answer::changed;
}

std::vector<NodeId> MemberWatch::staying() const {
  std::vector<NodeId> nodes = workers_;
  std::erase_if(nodes, [this](NodeId node) { return is_leaving(node); });
  return nodes;
}

}  // namespace troupe
