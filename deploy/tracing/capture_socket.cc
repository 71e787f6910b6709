// Lets `troupe trace capture` record requests of a running process through a socket in its data
// folder. This file has both sides: the one that answers and the one that asks.
#include "deploy/tracing/capture_socket.h"

#include <algorithm>
#include <sstream>
#include <stdexcept>

#include "deploy/data/request_trace.h"

namespace troupe::deploy {
namespace {

constexpr const char* capture_name = "capture";
constexpr std::size_t traced_line_bytes_max = 16 << 20;
constexpr const char* no_model = "-";

struct CaptureQuestion {
  std::string model;
  CaptureLimits limits;
};
// Returns nullopt if the text is not a valid capture question.
std::optional<CaptureQuestion> read_capture_question(const std::string& text) {
  std::istringstream words(text);
  std::string kind, more;
  CaptureQuestion question;
  std::int64_t seconds = 0;
  if (!(words >> kind >> question.model >> question.limits.requests >> seconds) || words >> more ||
      kind != "capture")
    return std::nullopt;
  question.limits.us = seconds * 1'000'000;
  const bool bounded = question.limits.requests >= 1 &&
                       question.limits.requests <= TraceCapture::requests_max && seconds >= 1 &&
                       seconds <= TraceCapture::us_max / 1'000'000;
  if (question.model == no_model) question.model.clear();
  return bounded ? std::optional(question) : std::nullopt;
}

}  // namespace

CaptureSocket::CaptureSocket(const std::filesystem::path& data_dir, std::vector<CapturedModel> models)
    : models_(std::move(models)), socket_(data_dir, capture_name) {
  socket_.serve([this](int connection, const std::string& question) { answer(connection, question); });
}

void CaptureSocket::answer(int connection, const std::string& text) {
  const auto question = read_capture_question(text);
  if (!question)
    return void(send_text(
        connection, "error unknown question; expected capture MODEL REQUESTS SECONDS, within bounds\n"));
  const auto of = std::ranges::find(models_, question->model, &CapturedModel::model);
  std::string names;
  for (const CapturedModel& model : models_)
    names += (names.empty() ? "" : ", ") + (model.model.empty() ? "the model without a name" : model.model);
  if (of == models_.end())
    return void(send_text(connection,
                          "error there is no model \"" + question->model + "\"; expected " + names + "\n"));
  const CatalogPointer catalog = of->catalog();
  if (!catalog)
    return void(send_text(connection, "error the catalog is not read yet; expected a loaded catalog\n"));
  if (!send_text(connection, "ok\n")) return;
  std::string line;
  const auto write = [&](const TracedRequest& request) {
    line.clear();
    append_request(line, request);
    return send_text(connection, line += '\n');
  };
  const std::uint64_t left_out = of->capture->record(question->limits, *catalog, of->find, write,
                                                     [&] { return socket_.is_closing(connection); });
  send_text(connection, "end " + std::to_string(left_out) + "\n");
}

std::uint64_t capture_trace(const std::filesystem::path& data_dir, const std::string& model,
                            const CaptureLimits& limits,
                            const std::function<void(const TracedRequest&)>& write) {
  const auto fail = [&](const std::string& what) {
    throw std::runtime_error(data_dir.string() + ": " + what);
  };
  FolderRequest question(data_dir, capture_name,
                         "capture " + (model.empty() ? no_model : model) + " " +
                             std::to_string(limits.requests) + " " + std::to_string(limits.us / 1'000'000));
  if (!question.is_connected())
    fail(
        "no process serves it here; expected the data folder of a running node with a router, and the user "
        "who owns it");
  std::string line;
  if (!question.next_line(line, traced_line_bytes_max) || line != "ok")
    fail(line.empty() ? "the process that serves it ended" : line);
  const LinePosition place{data_dir};
  TraceLines lines(place);
  TracedRequest request;
  while (question.next_line(line, traced_line_bytes_max)) {
    if (line.starts_with("end ")) return std::stoull("0" + line.substr(4));
    lines.read(line, request);
    write(request);
  }
  fail("the process that serves it ended before the trace did");
  return 0;
}

}  // namespace troupe::deploy
