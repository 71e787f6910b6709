#pragma once
// TLS towards the stores that a cluster asks (etcd, Redis), whose certificates are not the cluster's own:
// whom this process believes, and what it shows. Read once, at the start.
#include <memory>
#include <string>

struct ssl_ctx_st;
struct ssl_st;

namespace troupe {

// PEM files. "": of the authority, those that the system knows; of the others, none.
struct TlsClientFiles {
  std::string authority, certificate, key;
  bool operator==(const TlsClientFiles&) const = default;
};

class TlsClient {
 public:
  // Throws ConfigError that names the file, or what goes with what.
  explicit TlsClient(const TlsClientFiles& files);

  // A connection's side, which believes only a certificate for `host`: a name, or an address. Throws
  // std::runtime_error.
  std::unique_ptr<ssl_st, void (*)(ssl_st*)> begin(const std::string& host) const;
  ssl_ctx_st* context() const { return context_.get(); }
  static void expect(ssl_st* side,
                     const std::string& host);  // the same, of a side that another library has made

 private:
  std::shared_ptr<ssl_ctx_st> context_;
};

// Why a handshake failed, in a few words and without what either side said: "its certificate: self-signed
// certificate".
std::string tls_failure(const ssl_st* side);

}  // namespace troupe
