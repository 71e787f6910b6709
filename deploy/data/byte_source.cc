// Reads plain, gzip and zstd files part by part. A compressed file is a list of members (frames of zstd),
// each of which must be whole.
#include "deploy/data/byte_source.h"

#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <cstdio>
#include <string_view>
#include <utility>

#include "deploy/data/text_file.h"

namespace troupe::deploy {

namespace {

constexpr std::size_t part_bytes = 64 << 10;
constexpr const char* damaged = "the compressed data is damaged or truncated";
constexpr const char* large_window =
    "the compressed data needs a window of more than 128 MiB (zstd --long=28 or more)";

// A frame of zstd, or a skippable frame, with which parallel compressors begin.
bool is_zstd(std::string_view beginning) {
  if (beginning.starts_with("\x28\xb5\x2f\xfd")) return true;
  return beginning.size() >= 4 && (beginning[0] & 0xf0) == 0x50 &&
         beginning.substr(1).starts_with("\x2a\x4d\x18");
}

}  // namespace

// Bytes of an open file, or of memory.
class ByteSource::Input {
 public:
  explicit Input(std::FILE* file) : file_(file) {}
  explicit Input(std::string bytes) : bytes_(std::move(bytes)), end_(bytes_.size()) {}
  ~Input() {
    if (file_ && file_ != stdin) std::fclose(file_);
  }
  Input(const Input&) = delete;
  Input& operator=(const Input&) = delete;

  // Reads bytes if none is left. Returns false at the end; sets `fault` if reading fails.
  bool fill(const char*& fault) {
    if (begin_ < end_ || !file_) return begin_ < end_;
    begin_ = 0;
    bytes_.resize(part_bytes);
    end_ = std::fread(bytes_.data(), 1, bytes_.size(), file_);
    if (end_ == 0 && std::ferror(file_)) fault = "the file cannot be read";
    return end_ > 0;
  }
  std::string_view rest() const { return std::string_view(bytes_).substr(begin_, end_ - begin_); }
  void skip(std::size_t count) { begin_ += count; }
  bool is_open() const { return file_ || end_ > 0; }

 private:
  std::FILE* file_ = nullptr;
  std::string bytes_;
  std::size_t begin_ = 0, end_ = 0;  // the part of `bytes_` that was not read yet
};

class ByteSource::Decoder {
 public:
  virtual ~Decoder() = default;
  // Prepares for the next member. Returns false if `rest` cannot begin one.
  virtual bool begin() = 0;
  // Decodes from `in` into `out`, and removes from `in` what was used. Returns false for damaged data.
  virtual bool decode(std::string_view& in, std::string& out) = 0;

  const char* fault = damaged;  // of data that cannot be decoded
  bool in_member = false;
  bool is_full = false;  // the last part of a member filled `out`: more of it may follow without input
  bool pads_with_zeros = false;  // zeros may stand behind the last member
  bool is_padded = false;
};

class ByteSource::Gzip : public Decoder {
 public:
  Gzip() { pads_with_zeros = true; }  // they fill up the last block of a tape
  ~Gzip() override {
    if (is_open_) inflateEnd(&stream_);
  }
  bool begin() override {
    if (is_open_) return inflateReset(&stream_) == Z_OK;
    return is_open_ = inflateInit2(&stream_, any_window_gzip) == Z_OK;
  }
  bool decode(std::string_view& in, std::string& out) override {
    out.resize(part_bytes);
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(in.data()));
    stream_.avail_in = static_cast<uInt>(in.size());
    stream_.next_out = reinterpret_cast<Bytef*>(out.data());
    stream_.avail_out = static_cast<uInt>(out.size());
    const int code = ::inflate(&stream_, Z_NO_FLUSH);
    in.remove_prefix(in.size() - stream_.avail_in);
    out.resize(out.size() - stream_.avail_out);
    in_member = code != Z_STREAM_END;
    return code == Z_OK || code == Z_STREAM_END || code == Z_BUF_ERROR;
  }

 private:
  static constexpr int any_window_gzip = 15 + 16;  // the largest window; gzip's header and checksum

  z_stream stream_{};
  bool is_open_ = false;
};

// The window of a frame is at most 128 MiB, zstd's default for decoding.
class ByteSource::Zstd : public Decoder {
 public:
  Zstd() : stream_(ZSTD_createDStream()) {}
  ~Zstd() override { ZSTD_freeDStream(stream_); }
  Zstd(const Zstd&) = delete;
  Zstd& operator=(const Zstd&) = delete;
  bool begin() override { return stream_ && !ZSTD_isError(ZSTD_initDStream(stream_)); }
  bool decode(std::string_view& in, std::string& out) override {
    out.resize(part_bytes);
    ZSTD_inBuffer from{in.data(), in.size(), 0};
    ZSTD_outBuffer to{out.data(), out.size(), 0};
    const std::size_t more = ZSTD_decompressStream(stream_, &to, &from);
    in.remove_prefix(from.pos);
    out.resize(to.pos);
    in_member = more != 0;
    is_full = in_member && out.size() == part_bytes;
    if (ZSTD_getErrorCode(more) == ZSTD_error_frameParameter_windowTooLarge) fault = large_window;
    return !ZSTD_isError(more);
  }

 private:
  ZSTD_DStream* stream_;
};

ByteSource::ByteSource(std::unique_ptr<Input> input) : input_(std::move(input)) {}

ByteSource::ByteSource(const std::filesystem::path& path)
    : ByteSource(std::make_unique<Input>(path == "-" ? stdin : std::fopen(path.c_str(), "rb"))) {
  if (!input_->is_open())
    throw ImportError(path.string() +
                      ": cannot be opened; expected a readable text file, plain, gzip or zstd");
}

ByteSource ByteSource::of_bytes(std::string bytes) {
  return ByteSource(std::make_unique<Input>(std::move(bytes)));
}

ByteSource::ByteSource(ByteSource&&) noexcept = default;
ByteSource::~ByteSource() = default;

bool ByteSource::read(std::string& out, const char*& fault) {
  out.clear();
  if (!is_begun_) {
    is_begun_ = true;
    if (!input_->fill(fault)) return false;
    if (input_->rest().starts_with("\x1f\x8b")) decoder_ = std::make_unique<Gzip>();
    if (is_zstd(input_->rest())) decoder_ = std::make_unique<Zstd>();
  }
  if (decoder_) return decode(out, fault);
  if (!input_->fill(fault)) return false;
  out = input_->rest();
  input_->skip(out.size());
  return true;
}

// Ends at bytes, at the end, or at a fault.
bool ByteSource::decode(std::string& out, const char*& fault) {
  for (;;) {
    if (!decoder_->is_full && !input_->fill(fault)) {
      if (decoder_->in_member && !fault) fault = damaged;
      return false;
    }
    std::string_view in = input_->rest();
    if (!decoder_->in_member) {
      const std::size_t zeros = std::min(in.find_first_not_of('\0'), in.size());
      if (decoder_->pads_with_zeros && zeros > 0) {
        decoder_->is_padded = true;
        input_->skip(zeros);
        continue;
      }
      if (decoder_->is_padded || !decoder_->begin()) {
        fault = damaged;
        return false;
      }
      decoder_->in_member = true;
    }
    const bool is_sound = decoder_->decode(in, out);
    input_->skip(input_->rest().size() - in.size());
    if (!is_sound) fault = decoder_->fault;
    if (fault || !out.empty()) return !fault;
  }
}

}  // namespace troupe::deploy
