#pragma once
// A small blocking HTTP client for the command line, benchmarks and the tests: one request, one response, on
// a connection for it alone or on one that is kept.
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

// The server cannot be reached or does not speak HTTP: "http://127.0.0.1:8080: connection refused; expected
// …".
struct ClientError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct HttpCall {
  std::string server = "127.0.0.1:8080";  // host:port, or http:// or https:// before it
  std::string method = "GET", target = "/", body, tenant;
  std::string key = {};  // an API key
  std::string authority =
      {};  // over TLS: PEM of who signs the server's certificate; "": those that the system trusts
  std::string headers = {};  // more: "if-match: \"7\"\r\n"
  std::int64_t timeout_us = 30'000'000;
};
HttpReply http_call(const HttpCall& call);  // throws ClientError

// Calls of one server, one after the other. A connection that the server has closed meanwhile is made anew;
// nothing is sent twice.
class HttpConnection {
 public:
  HttpConnection();
  ~HttpConnection();
  // The server, the authority and whether it is TLS are those of its first call. Throws ClientError; then the
  // next call connects.
  HttpReply call(const HttpCall& call);
  std::uint64_t connects() const { return connects_; }

 private:
  class Open;
  std::unique_ptr<Open> open_;
  std::uint64_t connects_ = 0;
};

}  // namespace troupe::server
