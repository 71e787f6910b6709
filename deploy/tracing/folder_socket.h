#pragma once
// Unix socket in the data folder of a serving process, for commands on the same machine. Only the
// folder's owner can connect. A question is one line; callers define the answer.
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <thread>

namespace troupe::deploy {

class FolderSocket {
 public:
  // Called for one connection after the other; the connection is closed when it returns.
  using Answer = std::function<void(int connection, const std::string& question)>;
  // Throws std::runtime_error.
  FolderSocket(const std::filesystem::path& data_dir, std::string name);
  ~FolderSocket();  // waits for the running answer; `wait_for` tells it to stop
  FolderSocket(const FolderSocket&) = delete;
  FolderSocket& operator=(const FolderSocket&) = delete;

  void serve(Answer answer);              // starts a thread that answers
  void end();                             // stops answering; a second call does nothing
  bool wait_for(int descriptor) const;    // waits until `descriptor` is readable or closed; false: stop
  bool is_closing(int connection) const;  // true: the asker has hung up, or stop

 private:
  const std::filesystem::path file_;
  int listener_ = -1, stop_pipe_[2] = {-1, -1};  // pipe that is closed to stop the thread
  std::thread thread_;
};

bool send_text(int connection, std::string_view text);  // false: the asker has hung up

// Connection of the asking command; closed by the destructor.
class FolderRequest {
 public:
  FolderRequest(const std::filesystem::path& data_dir, const std::string& name, const std::string& question);
  ~FolderRequest();
  FolderRequest(const FolderRequest&) = delete;
  FolderRequest& operator=(const FolderRequest&) = delete;
  bool is_connected() const { return connection_ >= 0; }  // a process listens
  // Reads the next line, without its newline. False: there is none, or it is longer than
  // `bytes_max`.
  bool next_line(std::string& line, std::size_t bytes_max);

 private:
  int connection_ = -1;
  std::string buffer_;
};

}  // namespace troupe::deploy
