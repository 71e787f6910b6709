#pragma once
// Describes the router to observers: readiness, versions, load, and what happened lately. The order
// of the fields is that of the status page.
#include "router/fleet/availability.h"
#include "router/fleet/lost_workers.h"
#include "router/flights/answers.h"
#include "router/flights/attempts.h"
#include "router/flights/planning.h"
#include "router/precompute/precompute.h"
#include "router/recompute/answer_verifier.h"
#include "router/recompute/replays.h"
#include "router/stored_data_requests.h"

namespace troupe::router {

// The parts that the report reads.
struct RouterStatus {
  NodeId node;
  const PromptForm& form;
  const Policy& policy;
  const std::string& placement;  // name of the assignment of items to workers
  double token_bytes;            // bytes of one token's keys and values
  bool has_members;              // nodes join and leave
  bool is_reloading;
  const Availability& availability;
  const VersionKeeper& versions;
  const MemberWatch& members;
  const WorkerTable& workers;
  const PullCost& pull_cost;
  const Tenants& tenants;
  const WorkerQueues& queues;
  const Outcomes& outcomes;
  const Flights& flights;
  const Attempts& attempts;
  const Answers& answers;
  const Planning& planning;
  const StoredDataRequests& stored_data;
  const Precompute& precompute;
  const AnswerVerifier& verifier;
  const Replays& replays;
  const LostWorkers& lost_workers;

  StatusReply reply(Instant now, RequestId id) const;
};

}  // namespace troupe::router
