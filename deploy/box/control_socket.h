#pragma once
// What a command on this machine may ask a running process, through a socket in its data folder: the folder is its
// owner's alone, and so nobody else asks. One question so far: "copy", answered by "ok FOLDER" with a consistent
// copy of the store in it, which is there until the asker hangs up, or by "error WHY".
#include <filesystem>
#include <string>
#include <thread>

#include "runtime/store/store.h"

namespace troupe::deploy {

class ControlSocket {
 public:
  // `store` outlives it. Throws std::runtime_error.
  ControlSocket(const std::filesystem::path& data_dir, Store& store);
  ~ControlSocket();
  ControlSocket(const ControlSocket&) = delete;
  ControlSocket& operator=(const ControlSocket&) = delete;

 private:
  void serve();
  bool wait_for(int descriptor) const;  // false: it is to end
  void answer(int connection) const;
  std::string make_copy() const;

  const std::filesystem::path data_dir_, copy_;
  Store& store_;
  int listener_ = -1, ends_[2] = {-1, -1};  // a pipe, which is closed at the end
  std::thread thread_;
};

// A copy that a running process made; it is removed at the end.
class AskedCopy {
 public:
  // Nobody listens: `is_there` is false. Throws std::runtime_error if the process could not make one.
  explicit AskedCopy(const std::filesystem::path& data_dir);
  ~AskedCopy();
  AskedCopy(const AskedCopy&) = delete;
  AskedCopy& operator=(const AskedCopy&) = delete;
  bool is_there() const { return !folder_.empty(); }
  const std::filesystem::path& folder() const { return folder_; }

 private:
  int connection_ = -1;
  std::filesystem::path folder_;
};

}  // namespace troupe::deploy
