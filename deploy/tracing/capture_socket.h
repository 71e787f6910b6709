#pragma once
// Lets `troupe trace capture` record requests of a running process. The question "capture MODEL
// REQUESTS SECONDS" on the socket `capture` of the data folder is answered by "ok", request trace
// lines as requests finish, and "end LEFT_OUT"; or by "error WHY". The asker may hang up at any
// time.
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "deploy/tracing/folder_socket.h"
#include "deploy/tracing/trace_capture.h"

namespace troupe::deploy {

// Capture of one model that the process serves.
struct CapturedModel {
  std::string model;  // "": no name
  TraceCapture* capture = nullptr;
  std::function<CatalogPointer()> catalog;
  TraceCapture::FindProfile find;
};

class CaptureSocket {
 public:
  // Throws std::runtime_error.
  CaptureSocket(const std::filesystem::path& data_dir, std::vector<CapturedModel> models);
  ~CaptureSocket() { socket_.end(); }

 private:
  void answer(int connection, const std::string& question);

  const std::vector<CapturedModel> models_;
  FolderSocket socket_;
};

// Records a trace from the process that serves `data_dir`. Returns the number of requests left out.
// Throws std::runtime_error if no process serves that folder or it does not serve that model.
std::uint64_t capture_trace(const std::filesystem::path& data_dir, const std::string& model,
                            const CaptureLimits& limits,
                            const std::function<void(const TracedRequest&)>& write);

}  // namespace troupe::deploy
