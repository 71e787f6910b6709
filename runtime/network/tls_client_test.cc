#include "runtime/tls/tls_client.h"

#include <doctest/doctest.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <cctype>

#include "runtime/config/config.h"
#include "runtime/network/certificates.h"
#include "runtime/testing/store_test_folder.h"

namespace troupe {
namespace tls_client_test {

// Two authorities, and a certificate of the first, as files.
struct Files {
  TestFolder folder;
  Certificate authority = make_authority("one", 2), other = make_authority("two", 2),
              own = make_certificate(authority, "client", 2);
  Files() { folder.write("client.key", own.key); }
  TlsClientFiles of(const std::string& authorities, const std::string& certificates) {
    folder.write("ca.pem", authorities), folder.write("client.pem", certificates);
    return {folder.path() / "ca.pem", folder.path() / "client.pem", folder.path() / "client.key"};
  }
};

std::string asked_address(const ssl_st* side) {
  char* const text = X509_VERIFY_PARAM_get1_ip_asc(SSL_get0_param(const_cast<ssl_st*>(side)));
  const std::string address = text ? text : "";
  OPENSSL_free(text);
  return address;
}

std::string word(const char* text) { return text ? text : ""; }

TEST_CASE("TLS client: reading PEM files to their ends leaves no error in OpenSSL's queue") {
  Files files;
  ERR_clear_error();
  const TlsClient client(files.of(files.authority.certificate, files.own.certificate));
  CHECK(ERR_peek_error() == 0);
  const TlsClient without_own({files.folder.path() / "ca.pem", "", ""});
  CHECK(ERR_peek_error() == 0);
  CHECK_THROWS_AS(TlsClient(files.of("no authority", files.own.certificate)), ConfigError);
  CHECK(ERR_peek_error() == 0);
  CHECK_THROWS_AS(TlsClient(files.of(files.authority.certificate, "no certificate")), ConfigError);
  CHECK(ERR_peek_error() == 0);
}

TEST_CASE("TLS client: all authorities of a file are trusted, and the own certificate chain is sent") {
  Files files;
  for (const bool more : {false, true}) {
    const std::string& one = files.authority.certificate;
    const TlsClient client(
        files.of(more ? one + files.other.certificate : one, files.own.certificate + (more ? one : "")));
    const auto side = client.begin("localhost");
    CHECK(sk_X509_OBJECT_num(X509_STORE_get0_objects(SSL_CTX_get_cert_store(SSL_get_SSL_CTX(side.get())))) ==
          (more ? 2 : 1));
    STACK_OF(X509)* signers = nullptr;
    REQUIRE(SSL_get0_chain_certs(side.get(), &signers) == 1);
    CHECK(std::max(0, sk_X509_num(signers)) == (more ? 1 : 0));
  }
}

TEST_CASE("TLS client: a host name is sent and checked as a name, an address as an address") {
  Files files;
  const TlsClient client(files.of(files.authority.certificate, files.own.certificate));
  const auto named = client.begin("shop.example");
  CHECK(word(X509_VERIFY_PARAM_get0_host(SSL_get0_param(named.get()), 0)) == "shop.example");
  CHECK(word(SSL_get_servername(named.get(), TLSEXT_NAMETYPE_host_name)) == "shop.example");
  CHECK(asked_address(named.get()) == "");
  for (const char* address : {"10.0.0.7", "fe80:0:0:0:0:0:0:1"}) {
    const auto numbered = client.begin(address);
    CHECK(asked_address(numbered.get()) == [](std::string text) {
      for (char& c : text) c = static_cast<char>(std::toupper(c));
      return text;
    }(address));
    CHECK(word(X509_VERIFY_PARAM_get0_host(SSL_get0_param(numbered.get()), 0)) == "");
    CHECK(word(SSL_get_servername(numbered.get(), TLSEXT_NAMETYPE_host_name)) == "");
  }
  CHECK(SSL_get_verify_mode(named.get()) == SSL_VERIFY_PEER);
  CHECK(SSL_get_min_proto_version(named.get()) == TLS1_2_VERSION);
  CHECK((SSL_get_options(named.get()) & SSL_OP_NO_RENEGOTIATION) != 0);
  CHECK((SSL_get_options(named.get()) & SSL_OP_NO_COMPRESSION) != 0);
}

}  // namespace tls_client_test
}  // namespace troupe
