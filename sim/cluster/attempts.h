#pragma once
// Judge of what routers send to workers, seen from outside. It counts each request's attempts (promise 10:
// two, plus those after a worker that refused at no cost, four in all) and compares each router's retries
// with its budget. It reports a plan that is sent again while it runs elsewhere and is not late (promise
// 20). It also records which contents were at a worker when their router lost it, so that a refusal as
// poison can be judged (promise 12). The judge does not read router state.
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "sim/base/violations.h"

namespace troupe::sim {

// Hash of what a plan computes: its user tokens and the rows that are read. A router counts losses per
// content, so requests of the same content share them.
using Content = std::uint64_t;
Content content_of(const Execute& plan);
Content content_of(std::span<const Token> user_tokens, std::span<const Token> rows);

class Attempts {
 public:
  Attempts(Duration heartbeat, Violations& violations) : heartbeat_(heartbeat), violations_(violations) {}

  // Must get every message when its core sends it, and every event when it is delivered.
  void on_send(Instant now, Address from, Address to, const Message& message);
  void on_event(Instant now, Address to, const Event& event);
  // The part of on_event for received messages, for callers that know the sender by another address.
  void on_message(Instant now, Address to, Address sender, const Message& message);

  // Counts of the router's current process.
  std::uint64_t sent(NodeId router) const { return find(router).sent; }  // plans of requests
  // those charged to the retry budget
  std::uint64_t retries(NodeId router) const { return find(router).retries; }
  std::uint64_t received(NodeId router) const { return find(router).received; }

  // True if routers lost workers with these contents twice, at least once while one ran alone: then the
  // requests may be refused as poison. A router treats the contents as one: the same candidates of a user,
  // even if the items have changed since.
  bool lost_twice(Instant now, const std::set<Content>& contents);

 private:
  struct Attempt {
    NodeId node = 0;
    Content content = 0;
    Instant sent, late, deadline;  // late: half of the available time has passed
    bool alone = false, open = true;
  };
  struct Request {
    std::vector<Attempt> attempts;
    std::set<NodeId> free;  // workers that refused at no cost
    std::size_t retries = 0;
  };
  struct Worker {
    Instant heard;
    Incarnation incarnation = 0;
    std::uint64_t sequence = 0;  // of the last heartbeat; overtaken ones do not count
  };
  struct Router {
    std::map<RequestId, Request> requests;  // the newest ones, by the router's own ids
    std::map<NodeId, Worker> workers;
    std::uint64_t sent = 0, retries = 0, received = 0;
  };
  struct Losses {
    std::array<std::uint64_t, 2> seen{};  // time and node of the last loss, which counts once
    std::uint32_t count = 0;
    bool alone = false;  // true if one ran alone; others are reported late, so their order is unknown
  };

  const Router& find(NodeId router) const;
  void on_plan(Instant now, NodeId router, NodeId node, const Execute& plan);
  void on_verification(Instant now, NodeId router, NodeId node, const Execute& plan);
  static bool has_heard_of(const Router& router, NodeId node);
  void judge_resend(Instant now, NodeId router, RequestId id, const Request& request);
  void on_read(Instant now, NodeId router, const std::string& value);
  void on_heartbeat(Instant now, NodeId router, NodeId node, const Heartbeat& heartbeat);
  void on_answer(Instant now, NodeId router, NodeId node, RequestId id, bool ends_request);
  // Marks all open attempts at this node as lost.
  void lose(Instant at, NodeId router, NodeId node);
  void note_loss(Instant at, NodeId router, Attempt& attempt);
  std::optional<Instant> silent_since(Instant now, const Router& router, NodeId node) const;

  const Duration heartbeat_;
  Violations& violations_;
  std::map<NodeId, Router> routers_;
  std::map<Content, Losses> losses_;
};

}  // namespace troupe::sim
