#pragma once
// TLS client for the stores of a cluster (etcd, Redis), whose certificates are not the cluster's
// own: which servers this process trusts, and which certificate it sends. Files are read once, at
// start.
#include <memory>
#include <string>

struct ssl_ctx_st;
struct ssl_st;

namespace troupe {

// PEM files. "" = the system's authorities, and no certificate or key.
struct TlsClientFiles {
  std::string authority, certificate, key;
  bool operator==(const TlsClientFiles&) const = default;
};

class TlsClient {
 public:
  // Throws ConfigError, which names the file or the missing counterpart.
  explicit TlsClient(const TlsClientFiles& files);

  // Returns the client side of a connection, which accepts only a certificate for `host`: a name or
  // an address. Throws std::runtime_error.
  std::unique_ptr<ssl_st, void (*)(ssl_st*)> begin(const std::string& host) const;
  ssl_ctx_st* context() const { return context_.get(); }
  static void expect(ssl_st* side,
                     // Does the same for a connection side that another library has created.
                     const std::string& host);

 private:
  std::shared_ptr<ssl_ctx_st> context_;
};

// Returns why a handshake failed, briefly and without text of either side, e.g. "its certificate:
// self-signed certificate".
std::string tls_failure(const ssl_st* side);

}  // namespace troupe
