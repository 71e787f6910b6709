#pragma once
// Small blocking HTTP client for the command line, benchmarks and tests: one request and one
// response, on a new connection or on one that is kept.
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>

namespace troupe::server {

struct HttpReply {
  unsigned status = 0;
  std::string body;
  std::string etag = {};
};

// Thrown if the server cannot be reached or does not speak HTTP: "http://127.0.0.1:8080: connection
// refused; expected …".
struct ClientError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct HttpCall {
  std::string server = "127.0.0.1:8080";  // host:port, optionally after http:// or https://
  std::string method = "GET", target = "/", body, tenant;
  std::string key = {};  // API key
  std::string authority =
      {};  // PEM of the authority that signed the server's certificate; "" = the system's authorities
  std::string headers = {};  // further headers, e.g. "if-match: \"7\"\r\n"
  std::int64_t timeout_us = 30'000'000;
};
HttpReply http_call(const HttpCall& call);  // throws ClientError

// Makes several calls to one server, one after the other. Reconnects if the server has closed the
// connection; sends nothing twice.
class HttpConnection {
 public:
  HttpConnection();
  ~HttpConnection();
  // The server, the authority and TLS are those of the first call. Throws ClientError; the next
  // call then reconnects.
  HttpReply call(const HttpCall& call);
  std::uint64_t connects() const { return connects_; }

 private:
  class Open;
  std::unique_ptr<Open> open_;
  std::uint64_t connects_ = 0;
};

}  // namespace troupe::server
