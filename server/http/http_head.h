#pragma once
// Parser for the head of an HTTP request, fed as bytes arrive: the request line, the headers that
// matter, and how the body is sent. It bounds the whole head, in however many pieces it comes.
// Pure, so hostile bytes are tested without sockets.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/actor/messages.h"
#include "server/auth/cross_origin.h"
#include "server/http/request_body.h"

namespace troupe::server {

struct HeadLimits {
  std::uint32_t header_bytes_max = 8 << 10;  // from the method to the empty line
  BodyLimits body;
};

// Returns the text if it can appear in a response and in log lines: visible characters, bounded
// length; else "".
std::string short_text(std::string_view text);

class RequestHead {
 public:
  explicit RequestHead(const HeadLimits& limits);
  ~RequestHead();

  // Consumes bytes from the front and returns how many. The others must be passed again with more
  // after them; once done they belong to the body. Consumes nothing more once it is done or has a
  // fault.
  std::size_t take(std::string_view bytes);

  bool is_empty() const { return taken_ == 0; }  // no byte of it has arrived
  bool done() const { return done_; }
  const std::optional<Refusal>& fault() const { return fault_; }

  // Complete once done; after a fault, as far as parsed.
  struct HeadFields {
    std::string method, target, tenant;
    std::string if_match, if_none_match, authorization, content_type;
    BrowserHeaders browser;
    std::string request_id, traceparent, accept;  // as received; empty if absent or too long
    unsigned version = 11;
    bool keep_alive = false, waits = false;  // the client expects "100 Continue" before it sends the body
  };
  const HeadFields& asked() const { return asked_; }
  RequestBody body(bool by_lines = false) const;  // requires done()

 private:
  struct Parser;
  void parse(std::string_view bytes, std::size_t& taken);
  void finish();

  HeadLimits limits_;
  std::unique_ptr<Parser> parser_;
  std::uint64_t taken_ = 0;
  bool begun_ = false, done_ = false;
  HeadFields asked_;
  std::optional<Refusal> fault_;
};

}  // namespace troupe::server
