// Creates the TLS settings of the HTTP server from its certificate and key; HTTP/2 is preferred.
#include "server/http/http_server_tls.h"

#include <algorithm>
#include <stdexcept>
#include <string_view>

namespace troupe::server {
namespace {

namespace asio = boost::asio;

constexpr const char* tls12_ciphers = "ECDHE+AESGCM:ECDHE+CHACHA20";
// Protocols by their names in ALPN, the preferred one first.
constexpr std::string_view protocols[] = {"h2", "http/1.1"};

int choose_protocol(SSL*, const unsigned char** out, unsigned char* out_bytes, const unsigned char* offered,
                    unsigned int offered_bytes, void*) {
  for (const std::string_view protocol : protocols)
    for (unsigned at = 0; at < offered_bytes && at + 1 + offered[at] <= offered_bytes;
         at += 1 + offered[at]) {
      const std::string_view name(reinterpret_cast<const char*>(offered + at + 1), offered[at]);
      if (name != protocol) continue;
      *out = offered + at + 1;
      *out_bytes = offered[at];
      return SSL_TLSEXT_ERR_OK;
    }
  return SSL_TLSEXT_ERR_NOACK;
}

void check(const boost::system::error_code& error, const char* what) {
  if (error) throw std::runtime_error(std::string(what) + ": " + error.message() + "; expected PEM");
}

}  // namespace

std::shared_ptr<asio::ssl::context> make_tls_context(const ServerCertificate& certificate) {
  if (certificate.empty()) return nullptr;
  auto security = std::make_shared<asio::ssl::context>(asio::ssl::context::tls_server);
  SSL_CTX* const context = security->native_handle();
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  // TLS 1.2 only with ephemeral keys, so that a stolen key opens no old traffic, and authenticated
  // encryption.
  if (SSL_CTX_set_cipher_list(context, tls12_ciphers) != 1)
    throw std::runtime_error(std::string("OpenSSL has none of the ciphers ") + tls12_ciphers);
  SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_alpn_select_cb(context, choose_protocol, nullptr);
  // otherwise OpenSSL would ask on the terminal and wait
  SSL_CTX_set_default_passwd_cb(context, [](char*, int, int, void*) { return 0; });
  boost::system::error_code error;
  security->use_certificate_chain(asio::buffer(certificate.chain), error);
  check(error, "the certificate cannot be read");
  security->use_private_key(asio::buffer(certificate.key), asio::ssl::context::pem, error);
  check(error, "the key is encrypted, cannot be read, or is not the certificate's");
  if (SSL_CTX_check_private_key(context) != 1)
    throw std::runtime_error("the key does not belong to the certificate; expected a matching pair");
  return security;
}

}  // namespace troupe::server
