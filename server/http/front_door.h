#pragma once
// The HTTP front door (Boost.Beast): turns requests into messages for the router and its answers into
// responses. One thread owns every socket; answers from the actors are posted to it. No byte from outside is
// kept before something says how many may come: header, body and what lies between chunks each have a limit,
// and so has all that is kept for all connections together. Every request gets exactly one response, at the
// latest `answer_us_max` after its last byte, a reload `reload_us_max`.
//
// Connections are bounded in all and from one address. When there is no room, who has waited longest makes
// room, of the address with the most (door_places.h): a newcomer is turned away only if the actors have a
// request of everybody. Even then there are places for questions of health and metrics.
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "runtime/actor/messages.h"
#include "runtime/actor/metrics.h"
#include "runtime/actor/seat.h"
#include "runtime/host/host.h"
#include "server/auth/api_keys.h"
#include "server/auth/rate_limits.h"
#include "server/http/door_models.h"
#include "server/http/front_door_calls.h"
#include "server/http/front_door_routes.h"
#include "server/observability/seen_request.h"

namespace troupe::server {

// The door cannot open: "http: 127.0.0.1:8080 is in use; expected a free port".
struct DoorError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// What the door shows its clients over TLS.
struct DoorCertificate {
  std::string chain, key;  // PEM; empty: the door speaks in the clear
  bool empty() const { return chain.empty(); }
};

struct DoorConfig {
  std::string address = "127.0.0.1";
  std::uint16_t port = 8080;  // 0: any free one
  std::uint32_t connections_max = 1024;
  std::uint32_t connections_per_address_max = 256;
  std::uint64_t memory_bytes_max = 8 << 20;  // of requests and responses on their way, one of each at least
  std::uint32_t header_bytes_max = 8 << 10;
  std::uint32_t body_bytes_max = 1 << 20;
  std::int64_t timeout_us = 10'000'000;      // for a client to send a request or take a response
  std::int64_t answer_us_max = 10'400'000;   // from the request's last byte to its response
  std::int64_t reload_us_max = 120'400'000;  // the same, for a reload: the router's own bound, and a little
  DoorCertificate certificate;
  std::shared_ptr<const ApiKeys> keys;  // whoever asks needs one, but for his health; null: nobody does
  RateLimit tenant_limit;               // of each tenant, unless its key says another
  DoorLimits limits;
  ModelText text = {};                 // the model's
  std::vector<Address> actors;         // whom /v1/cluster asks
  std::vector<Address> must_be_ready;  // whom /v2/health/ready asks; none: all of those
  std::function<std::string()>
      obstacle;  // why this node is not ready, whatever its actors say; "": it may be
  Address router;
  // Several models, each with its router; none: there is one, and all above is said of it.
  std::vector<DoorModel> models;
  Seats seats;  // of their actors
  std::function<std::string(MetricForm)>
      metrics;                          // what /metrics answers; none: what the door's registry has
  std::string version;                  // of the program, as /v2 tells it
  std::map<NodeId, std::string> names;  // of the cluster's nodes; one that is not there goes by its number
  AccessLog access_log = AccessLog::off;
  double sampled_share = 0;  // of the requests whose client says nothing of a trace, so many are recorded
  // What is recorded, once it is answered; from the door's thread, and at once.
  std::function<void(const SeenRequest&)> on_sampled;
  RequestId last_id = 0;  // its own are larger than this; never used before towards that router
};

class FrontDoor {
 public:
  using Post = std::function<void(Address to, Message)>;  // into the actors; safe from the door's thread

  // Binds (throws DoorError); connections wait until `open`.
  FrontDoor(DoorConfig config, Post post, MetricRegistry& metrics, LogSink log = {});
  ~FrontDoor();

  void open();    // serves from a thread of its own
  void retire();  // from now on it says that it is not ready, and serves on
  // Another certificate for new connections, other keys for new requests. Throws std::runtime_error, and then
  // all stays as it was.
  void renew(const DoorCertificate& certificate, std::shared_ptr<const ApiKeys> keys);
  void renew(const DoorCertificate& certificate);  // keys stay as they are
  void renew(std::shared_ptr<const ApiKeys> keys);
  // Others are in the cluster from now on. From any thread.
  void follow(std::vector<Address> actors, std::map<NodeId, std::string> names);
  // Answers who waits with 503, ends every connection and the thread; nothing is posted any more. A second
  // call does nothing.
  void close();

  // From any thread. It is answered in any case: once the door has closed, that the server stops.
  void ask(DoorCall call, OnDoorReply then);

  std::uint16_t port() const;
  void deliver(Message answer);  // from any thread: an actor's answer to a message that the door posted

 private:
  struct Answer;   // what a response is made of
  struct Server;   // the state of the door's one thread
  struct Session;  // one connection
  class Call;      // a request that came another way
  std::unique_ptr<Server> server_;
};

}  // namespace troupe::server
