#pragma once
// Sources that never end or claim to be huge: pipes, sparse files, and peers on the loopback. A writer
// stops after `bytes_max`: a reader that has taken so much has no bound.
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <thread>

namespace troupe::readers {

inline constexpr std::uint64_t bytes_max = 768 << 20;  // beyond every bound that is tested
inline constexpr std::uint64_t terabyte = std::uint64_t{1} << 40;

// The content: `beginning`, then `again` repeated for ever.
struct Endless {
  std::string beginning, again = "x";
};

// A pipe in place of a file; every reader that opens it gets the same content.
class EndlessFile {
 public:
  EndlessFile(const std::filesystem::path& path, Endless what);
  ~EndlessFile();
  EndlessFile(const EndlessFile&) = delete;
  EndlessFile& operator=(const EndlessFile&) = delete;

 private:
  void serve(const std::filesystem::path& path, const Endless& what);
  std::atomic<bool> ended_ = false;
  std::thread thread_;
};

// Writes a sparse file of a terabyte that uses no space: `beginning`, then zeros.
void write_sparse(const std::filesystem::path& path, std::string_view beginning = "");

// Sends the content to each client, on 127.0.0.1 or a Unix socket, after the first byte of a request.
class EndlessServer {
 public:
  explicit EndlessServer(Endless what);
  EndlessServer(Endless what, const std::filesystem::path& unix_socket);
  ~EndlessServer();
  EndlessServer(const EndlessServer&) = delete;
  EndlessServer& operator=(const EndlessServer&) = delete;
  std::uint16_t port() const { return port_; }

 private:
  void serve(const Endless& what);
  int listener_ = -1;
  std::uint16_t port_ = 0;
  std::atomic<bool> ended_ = false;
  std::thread thread_;
};

// Connects, sends the content, and returns what came back until the other side closed: at most 64 KiB.
std::string say_endlessly(std::uint16_t port, const Endless& what);
std::string say_endlessly(const std::filesystem::path& unix_socket, const Endless& what);

}  // namespace troupe::readers
