#pragma once
// How `troupe trace capture` asks a running process for its requests: "capture MODEL REQUESTS SECONDS" on the
// socket `capture` of its data folder, answered by "ok", lines of a request trace as they come, and "end
// LEFT_OUT"; or by "error WHY". Who hangs up has enough.
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "deploy/tracing/folder_socket.h"
#include "deploy/tracing/trace_capture.h"

namespace troupe::deploy {

// Of each model that the process serves.
struct Captured {
  std::string model;  // "": it has no name
  TraceCapture* capture = nullptr;
  std::function<CatalogPointer()> catalog;
  TraceCapture::FindProfile find;
};

class CaptureSocket {
 public:
  // Throws std::runtime_error.
  CaptureSocket(const std::filesystem::path& data_dir, std::vector<Captured> models);
  ~CaptureSocket() { socket_.end(); }

 private:
  void answer(int connection, const std::string& question);

  const std::vector<Captured> models_;
  FolderSocket socket_;
};

// How many requests were left out. Throws std::runtime_error if nobody serves that folder, or he does not
// know that model.
std::uint64_t capture_trace(const std::filesystem::path& data_dir, const std::string& model,
                            const CaptureLimits& limits,
                            const std::function<void(const TracedRequest&)>& write);

}  // namespace troupe::deploy
