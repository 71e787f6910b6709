#pragma once
// The head of an HTTP request as its bytes come: what is asked for, and how its body will come. It bounds the
// whole head, however many pieces it comes in. Pure, so that hostile bytes are tried without sockets.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/actor/messages.h"
#include "server/http/request_body.h"

namespace troupe::server {

struct HeadLimits {
  std::uint32_t header_bytes_max = 8 << 10;  // from the method to the empty line
  BodyLimits body;
};

class RequestHead {
 public:
  explicit RequestHead(const HeadLimits& limits);
  ~RequestHead();

  // Takes from the front what it has understood: so many bytes. The others have to come again, with more
  // behind them; once it is done they belong to the body. Takes nothing more once it is done or has a fault.
  std::size_t take(std::string_view bytes);

  bool is_empty() const { return taken_ == 0; }  // nothing of it has come
  bool done() const { return done_; }
  const std::optional<Refusal>& fault() const { return fault_; }

  // Once it is done; with a fault as far as it was understood.
  struct Asked {
    std::string method, target, tenant;
    std::string if_match, if_none_match, authorization, content_type;
    std::string request_id, traceparent, accept;  // as they came; empty where they were not, or are too long
    unsigned version = 11;
    bool keep_alive = false, waits = false;  // for "go on", before it sends its body
  };
  const Asked& asked() const { return asked_; }
  RequestBody body(bool by_lines = false) const;  // once it is done

 private:
  struct Parser;
  void parse(std::string_view bytes, std::size_t& taken);
  void finish();

  HeadLimits limits_;
  std::unique_ptr<Parser> parser_;
  std::uint64_t taken_ = 0;
  bool begun_ = false, done_ = false;
  Asked asked_;
  std::optional<Refusal> fault_;
};

}  // namespace troupe::server
