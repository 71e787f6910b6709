#pragma once
// What never ends, and what says that it is very long: pipes, files with holes, and peers on the loopback.
// Whoever writes stops after `bytes_max`: a reader that has taken so much has no bound.
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <thread>

namespace troupe::readers {

inline constexpr std::uint64_t bytes_max = 768 << 20;  // beyond every bound here
inline constexpr std::uint64_t terabyte = std::uint64_t{1} << 40;

// `beginning`, and then `again` over and over.
struct Endless {
  std::string beginning, again = "x";
};

// A pipe in the place of a file; each that opens it gets the same.
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

// A file of a terabyte that takes no room: `beginning`, and zeros.
void write_sparse(const std::filesystem::path& path, std::string_view beginning = "");

// Says it to each who connects, on 127.0.0.1 or a Unix socket, once a byte of a question has come.
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

// Connects, says it, and returns what came back until the other side closed: at most 64 KiB.
std::string say_endlessly(std::uint16_t port, const Endless& what);
std::string say_endlessly(const std::filesystem::path& unix_socket, const Endless& what);

}  // namespace troupe::readers
