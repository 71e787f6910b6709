// Reads and writes request traces (recorded or generated requests with their times): a header line
// and one JSON line per request, one at a time.
#include "deploy/data/request_trace.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "kernels/base/check.h"
#include "runtime/wire/json_text.h"

namespace troupe::deploy {

namespace {

constexpr std::string_view format_name = "troupe-trace";
constexpr std::uint64_t number_max = std::uint64_t{1} << 53;  // what every JSON library keeps exact
// Maxima that the router's settings allow.
constexpr std::size_t id_bytes_max = 512, candidates_max = 100'000, events_max = 1'000'000;
constexpr std::size_t source_bytes_max = 4'096;
constexpr std::uint64_t width_max = 4'096;  // maximum of the setting router.width_max
constexpr double replay_us_max = 3.2e15;

// Records which fields of one object occurred, by their index in `names`.
template <std::size_t count>
class Fields {
 public:
  Fields(const LinePosition& place, const std::array<std::string_view, count>& names)
      : place_(place), names_(names) {}

  std::size_t note(std::string_view name) {
    const auto at = static_cast<std::size_t>(std::ranges::find(names_, name) - names_.begin());
    if (at == count) place_.fail("there is a field \"" + std::string(name) + "\"", known());
    if (noted_[at]) place_.fail(std::string(name) + " is given twice", "each field once");
    noted_[at] = true;
    return at;
  }
  bool has(std::size_t index) const { return noted_[index]; }
  void need(std::size_t index) const {
    if (!noted_[index])
      place_.fail("there is no field \"" + std::string(names_[index]) + "\"", "that field in every line");
  }

 private:
  std::string known() const {
    std::string text = "only";
    for (std::string_view name : names_) text += " " + std::string(name);
    return text;
  }
  const LinePosition& place_;
  const std::array<std::string_view, count>& names_;
  std::array<bool, count> noted_{};
};

constexpr std::array<std::string_view, 3> header_names{"format", "version", "source"};
enum : std::size_t {
  f_at,
  f_tenant,
  f_user,
  f_profile,
  f_events,
  f_candidates,
  f_kind,
  f_top_k,
  f_width,
  f_truth
};
constexpr std::array<std::string_view, 10> request_names{"at_us",      "tenant", "user",  "profile", "events",
                                                         "candidates", "kind",   "top_k", "width",   "truth"};

void append_list(std::string& out, std::string_view name, const std::vector<std::string>& texts) {
  out += ",\"" + std::string(name) + "\":[";
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (i > 0) out += ',';
    append_json_string(out, texts[i]);
  }
  out += ']';
}

void append_text(std::string& out, std::string_view name, std::string_view text) {
  out += ",\"" + std::string(name) + "\":";
  append_json_string(out, text);
}

}  // namespace

// ---- reading ----

void TraceLines::read_header(std::string_view text) {
  Fields<3> fields(place_, header_names);
  JsonLine line(place_, text);
  line.object([&](std::string_view name) {
    std::string format;
    switch (fields.note(name)) {
      case 0:
        line.text(format, source_bytes_max);
        if (format != format_name)
          place_.fail("format is \"" + format.substr(0, 40) + "\"", "\"troupe-trace\"");
        break;
      case 1:
        if (const std::uint64_t version = line.number(number_max); version != trace_version)
          place_.fail("version is " + std::to_string(version), std::to_string(trace_version));
        break;
      default:
        line.text(source_, source_bytes_max);
    }
  });
  for (std::size_t i = 0; i < header_names.size(); ++i) fields.need(i);
}

void TraceLines::read(std::string_view text, TracedRequest& request) {
  Fields<request_names.size()> fields(place_, request_names);
  request.generates = false;
  request.top_k = request.width = 0;
  JsonLine line(place_, text);
  line.object([&](std::string_view name) {
    switch (fields.note(name)) {
      case f_at:
        request.at.us = static_cast<std::int64_t>(line.number(number_max));
        break;
      case f_tenant:
        line.text(request.tenant, id_bytes_max);
        break;
      case f_user:
        line.text(request.user, id_bytes_max);
        break;
      case f_profile:
        request.profile = line.number(number_max);
        break;
      case f_events:
        line.texts(request.events, events_max, id_bytes_max);
        break;
      case f_candidates:
        line.texts(request.candidates, candidates_max, id_bytes_max);
        break;
      case f_kind:
        request.generates = read_kind(line);
        break;
      case f_top_k:
        request.top_k = static_cast<std::uint32_t>(line.number(width_max));
        break;
      case f_width:
        request.width = static_cast<std::uint32_t>(line.number(width_max));
        break;
      default:
        line.text(request.truth, id_bytes_max);
    }
  });
  for (const std::size_t needed : {f_at, f_user, f_profile}) fields.need(needed);
  if (request.generates) {
    if (fields.has(f_candidates)) place_.fail("there are candidates", "none where kind is \"generate\"");
    request.candidates.clear();
  } else {
    fields.need(f_candidates);
    if (fields.has(f_top_k) || fields.has(f_width))
      place_.fail("there is a top_k or a width", "these only where kind is \"generate\"");
  }
  if (!fields.has(f_tenant)) request.tenant.clear();
  if (!fields.has(f_events)) request.events.clear();
  if (!fields.has(f_truth)) request.truth.clear();
  check(request);
}

// Returns true if the request generates items.
bool TraceLines::read_kind(JsonLine& line) const {
  std::string kind;
  line.text(kind, source_bytes_max);
  if (kind != "rank" && kind != "generate")
    place_.fail("kind is \"" + kind.substr(0, 40) + "\"", "\"rank\" or \"generate\"");
  return kind == "generate";
}

void TraceLines::check(const TracedRequest& request) {
  if (request.at < last_)
    place_.fail("at_us is " + std::to_string(request.at.us),
                "at least " + std::to_string(last_.us) + ", the time of the line before");
  last_ = request.at;
  if (request.user.empty()) place_.fail("user is empty", "the id of a user");
  if (!request.generates) check_candidates(request.candidates);
  if (std::ranges::find(request.events, "") != request.events.end())
    place_.fail("an entry of events is empty", "item ids");
  if (!request.truth.empty() && !request.generates &&
      std::ranges::find(request.candidates, request.truth) == request.candidates.end())
    place_.fail("truth is \"" + request.truth.substr(0, 40) + "\"", "one of the candidates");
}

void TraceLines::check_candidates(const std::vector<std::string>& candidates) {
  if (candidates.empty()) place_.fail("candidates is empty", "at least one item id");
  if (const auto empty = std::ranges::find(candidates, ""); empty != candidates.end())
    place_.fail("candidates[" + std::to_string(empty - candidates.begin()) + "] is empty", "an item id");
  if (const auto again = duplicates_.find(candidates))
    place_.fail(
        "candidates[" + std::to_string(*again) + "] is \"" + candidates[*again].substr(0, 40) + "\" again",
        "each candidate once");
}

TraceReader::TraceReader(std::filesystem::path path) : file_(std::move(path)), lines_(file_.place()) {
  if (!file_.next(line_))
    fail("the file is empty", R"(a header line {"format":"troupe-trace","version":1,"source":"…"})");
  lines_.read_header(line_);
}

bool TraceReader::next(TracedRequest& request) {
  if (!file_.next(line_)) return false;
  lines_.read(line_, request);
  return true;
}

Instant TraceReader::due(const TracedRequest& request, double speed) const {
  const double us = static_cast<double>(request.at.us) / speed;
  if (us > replay_us_max)
    fail("at_us is " + std::to_string(request.at.us) + ", which is due after " + std::to_string(us * 1e-6) +
             " s",
         "at most a century of replay; times count from the trace's start");
  return {static_cast<std::int64_t>(us)};
}

// ---- writing ----

struct TraceWriter::File {
  std::filesystem::path path;
  gzFile handle = nullptr;
  bool is_part = false;  // incomplete; must be removed

  ~File() {
    if (handle) gzclose(handle);
    remove_part();
  }
  void remove_part() {
    std::error_code ignored;
    if (std::exchange(is_part, false) && std::filesystem::is_regular_file(path, ignored))
      std::filesystem::remove(path, ignored);
  }
};

TraceWriter::TraceWriter(std::filesystem::path path, const std::string& source)
    : path_(std::move(path)), file_(new File{path_}) {
  const bool packed = path_.extension() == ".gz";
  file_->handle = gzopen(path_.c_str(), packed ? "wb4" : "wbT");
  if (!file_->handle) fail();
  file_->is_part = true;
  gzbuffer(file_->handle, 256 << 10);
  line_ = R"({"format":"troupe-trace","version":1)";
  append_text(line_, "source", source);
  line_ += '}';
  put_line();
}

TraceWriter::~TraceWriter() = default;

void append_request(std::string& out, const TracedRequest& request) {
  out += "{\"at_us\":" + std::to_string(request.at.us);
  if (!request.tenant.empty()) append_text(out, "tenant", request.tenant);
  append_text(out, "user", request.user);
  out += ",\"profile\":" + std::to_string(request.profile);
  if (!request.events.empty()) append_list(out, "events", request.events);
  if (request.generates) {
    out += R"(,"kind":"generate")";
    if (request.top_k > 0) out += ",\"top_k\":" + std::to_string(request.top_k);
    if (request.width > 0) out += ",\"width\":" + std::to_string(request.width);
  } else {
    append_list(out, "candidates", request.candidates);
  }
  if (!request.truth.empty()) append_text(out, "truth", request.truth);
  out += '}';
}

void TraceWriter::write(const TracedRequest& request) {
  TROUPE_CHECK(request.at >= last_, "a trace is written in order of time");
  last_ = request.at;
  line_.clear();
  append_request(line_, request);
  put_line();
}

void TraceWriter::put_line() {
  line_ += '\n';
  if (gzwrite(file_->handle, line_.data(), static_cast<unsigned>(line_.size())) !=
      static_cast<int>(line_.size()))
    fail();
}

void TraceWriter::close() {
  if (gzclose(std::exchange(file_->handle, nullptr)) == Z_OK) {
    file_->is_part = false;
    return;
  }
  const int why = errno;
  file_->remove_part();
  errno = why;
  fail();
}

void TraceWriter::fail() const {
  throw std::runtime_error(path_.string() + ": cannot be written (" + std::strerror(errno) +
                           "); expected a writable path with free space");
}

}  // namespace troupe::deploy
