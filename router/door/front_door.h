#pragma once
// The HTTP front door (Boost.Beast): turns requests into messages for the router and its answers into
// responses. One thread owns every socket; answers from the actors are posted to it. Header, body, time and
// connection limits hold before anything is allocated for a request. Every request gets exactly one response,
// at the latest `answer_us_max` after its last byte, a reload `reload_us_max`.
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "router/door/front_door_routes.h"
#include "runtime/actor/messages.h"
#include "runtime/actor/metrics.h"

namespace troupe::router {

// The door cannot open: "http: 127.0.0.1:8080 is in use; expected a free port".
struct DoorError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct DoorConfig {
  std::string address = "127.0.0.1";
  std::uint16_t port = 8080;  // 0: any free one
  std::uint32_t connections_max = 1024;
  std::uint32_t header_bytes_max = 8 << 10;
  std::uint32_t body_bytes_max = 1 << 20;
  std::int64_t timeout_us = 10'000'000;      // for a client to send a request or take a response
  std::int64_t answer_us_max = 10'400'000;   // from the request's last byte to its response
  std::int64_t reload_us_max = 120'400'000;  // the same, for a reload: the router's own bound, and a little
  DoorLimits limits;
  std::vector<Address> actors;         // whom /v1/cluster asks
  std::vector<Address> must_be_ready;  // whom /v2/health/ready asks; none: all of those
  std::function<std::string()>
      obstacle;  // why this node is not ready, whatever its actors say; "": it may be
  Address router;
  RequestId last_id = 0;  // its own are larger than this; never used before towards that router
};

class FrontDoor {
 public:
  using Post = std::function<void(Address to, Message)>;  // into the actors; safe from the door's thread

  // Binds (throws DoorError); connections wait until `open`.
  FrontDoor(DoorConfig config, Post post, MetricRegistry& metrics);
  ~FrontDoor();

  void open();    // serves from a thread of its own
  void retire();  // from now on it says that it is not ready, and serves on
  // Answers who waits with 503, ends every connection and the thread; nothing is posted any more. A second
  // call does nothing.
  void close();

  std::uint16_t port() const;
  void deliver(Message answer);  // from any thread: an actor's answer to a message that the door posted

 private:
  struct Server;   // the state of the door's one thread
  struct Session;  // one connection
  std::unique_ptr<Server> server_;
};

}  // namespace troupe::router
