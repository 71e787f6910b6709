#pragma once
// A socket in the data folder of a process that serves, by which commands on its machine ask it: the folder
// is its owner's alone, and so nobody else asks. A question is one line; what is answered is between the two.
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <thread>

namespace troupe::deploy {

class FolderSocket {
 public:
  // One connection after the other; when `answer` returns, it is closed.
  using Answer = std::function<void(int connection, const std::string& question)>;
  // Throws std::runtime_error.
  FolderSocket(const std::filesystem::path& data_dir, std::string name);
  ~FolderSocket();  // waits for the answer at hand: `wait_for` says that it is to end
  FolderSocket(const FolderSocket&) = delete;
  FolderSocket& operator=(const FolderSocket&) = delete;

  void serve(Answer answer);            // in a thread of its own, from now on
  void end();                           // answers nobody any more; a second call does nothing
  bool wait_for(int descriptor) const;  // until it can be read or hangs up; false: this is to end
  bool is_over(int connection) const;   // whoever asked has hung up, or this is to end

 private:
  const std::filesystem::path file_;
  int listener_ = -1, ends_[2] = {-1, -1};  // a pipe, which is closed at the end
  std::thread thread_;
};

bool say(int connection, std::string_view text);  // false: he has hung up

// The asking side. Closed at the end.
class FolderQuestion {
 public:
  FolderQuestion(const std::filesystem::path& data_dir, const std::string& name, const std::string& question);
  ~FolderQuestion();
  FolderQuestion(const FolderQuestion&) = delete;
  FolderQuestion& operator=(const FolderQuestion&) = delete;
  bool is_heard() const { return connection_ >= 0; }  // somebody listens
  // The next line, without its end; false: there is none, or one that is longer than that.
  bool next_line(std::string& line, std::size_t bytes_max);

 private:
  int connection_ = -1;
  std::string buffer_;
};

}  // namespace troupe::deploy
