// Sets up TLS towards the stores of a cluster (etcd, Redis). It loads the trusted authorities
// and the node's own certificate, and makes each connection verify the server's name.
#include "runtime/tls/tls_client.h"

#include <arpa/inet.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <stdexcept>

#include "runtime/config/config.h"
#include "runtime/config/whole_file.h"

namespace troupe {
namespace {

std::string last_error() {
  const unsigned long error = ERR_peek_last_error();
  const char* reason = error ? ERR_reason_error_string(error) : nullptr;
  ERR_clear_error();
  return reason ? reason : "it cannot be read";
}

void check(bool done, const std::string& file, const char* expected) {
  if (!done) throw ConfigError(file + ": " + last_error() + "; expected " + expected);
}

constexpr std::size_t pem_bytes_max = 1 << 20;

using Text = std::unique_ptr<BIO, int (*)(BIO*)>;
using Cert = std::unique_ptr<X509, void (*)(X509*)>;

// Returns the file's bytes in memory in the form that OpenSSL reads; `text` must outlive the
// result.
Text open_pem(const std::string& file, std::string& text) {
  try {
    text = read_whole_file(file, pem_bytes_max, "a PEM file");
  } catch (const FileError& error) {
    throw ConfigError(error.what());
  }
  return {BIO_new_mem_buf(text.data(), static_cast<int>(text.size())), BIO_free};
}

// Replaces OpenSSL's own callback, which asks on the terminal and waits.
int no_passphrase(char*, int, int, void*) { return 0; }

Cert next_certificate(const Text& pem) {
  return {PEM_read_bio_X509(pem.get(), nullptr, no_passphrase, nullptr), X509_free};
}

void load_authorities(SSL_CTX* context, const std::string& file) {
  std::string text;
  const Text pem = open_pem(file, text);
  bool any = false;
  while (const Cert authority = next_certificate(pem))
    any = X509_STORE_add_cert(SSL_CTX_get_cert_store(context), authority.get()) == 1 || any;
  check(any, file, "a PEM file of authorities");
  ERR_clear_error();
}

void load_certificate(SSL_CTX* context, const std::string& file) {
  std::string text;
  const Text pem = open_pem(file, text);
  const Cert own = next_certificate(pem);
  check(own && SSL_CTX_use_certificate(context, own.get()) == 1, file, "a PEM file of a certificate");
  while (Cert signer = next_certificate(pem))
    if (SSL_CTX_add0_chain_cert(context, signer.get()) == 1) signer.release();
  ERR_clear_error();
}

void load_key(SSL_CTX* context, const std::string& file) {
  std::string text;
  const Text pem = open_pem(file, text);
  const std::unique_ptr<EVP_PKEY, void (*)(EVP_PKEY*)> key(
      PEM_read_bio_PrivateKey(pem.get(), nullptr, no_passphrase, nullptr), EVP_PKEY_free);
  if (!key && text.find("ENCRYPTED") != text.npos) {
    ERR_clear_error();
    throw ConfigError(file +
                      ": the key is encrypted, or damaged; expected a PEM file of that certificate's key, "
                      "without a passphrase");
  }
  check(key && SSL_CTX_use_PrivateKey(context, key.get()) == 1, file, "a PEM file of that certificate's key");
}

bool is_address(const std::string& host) {
  unsigned char bytes[sizeof(in6_addr)];
  return inet_pton(AF_INET, host.c_str(), bytes) == 1 || inet_pton(AF_INET6, host.c_str(), bytes) == 1;
}

}  // namespace

TlsClient::TlsClient(const TlsClientFiles& files) : context_(SSL_CTX_new(TLS_client_method()), SSL_CTX_free) {
  if (!context_) throw ConfigError("TLS is not available: " + last_error());
  if (files.certificate.empty() != files.key.empty())
    throw ConfigError("only one of a certificate and its key is configured; expected both, or none");
  SSL_CTX* const context = context_.get();
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  if (files.authority.empty())
    check(SSL_CTX_set_default_verify_paths(context) == 1, "the system's authorities", "a package of them");
  else
    load_authorities(context, files.authority);
  if (files.certificate.empty()) return;
  load_certificate(context, files.certificate);
  load_key(context, files.key);
}

std::unique_ptr<ssl_st, void (*)(ssl_st*)> TlsClient::begin(const std::string& host) const {
  std::unique_ptr<SSL, void (*)(SSL*)> side(SSL_new(context_.get()), SSL_free);
  if (!side) throw std::runtime_error("TLS is not available: " + last_error());
  SSL_set_connect_state(side.get());
  expect(side.get(), host);
  return side;
}

void TlsClient::expect(ssl_st* side, const std::string& host) {
  X509_VERIFY_PARAM* const expected = SSL_get0_param(side);
  const bool done = is_address(host)
                        ? X509_VERIFY_PARAM_set1_ip_asc(expected, host.c_str()) == 1
                        : X509_VERIFY_PARAM_set1_host(expected, host.c_str(), host.size()) == 1 &&
                              SSL_set_tlsext_host_name(side, host.c_str()) == 1;
  if (!done) throw std::runtime_error("TLS is not available for this host: " + last_error());
}

std::string tls_failure(const ssl_st* side) {
  const long verified = SSL_get_verify_result(side);
  if (verified == X509_V_OK) return "TLS: " + last_error();
  ERR_clear_error();
  return std::string("its certificate: ") + X509_verify_cert_error_string(verified);
}

}  // namespace troupe
