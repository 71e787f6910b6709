#pragma once
// Reads the bytes of a file, or of standard input, part by part. A file may be compressed with gzip or zstd,
// whatever its name; its first bytes tell.
#include <filesystem>
#include <memory>
#include <string>

namespace troupe::deploy {

// Reads a file whole or names its fault: the end of a compressed file is never where a library stops reading,
// as it does at a damaged second member, but where the last member ends.
class ByteSource {
 public:
  // "-" is standard input. Throws ImportError (deploy/data/text_file.h) for a file that cannot be opened.
  explicit ByteSource(const std::filesystem::path& path);
  static ByteSource of_bytes(std::string bytes);  // of a file that has them
  ByteSource(ByteSource&&) noexcept;
  ~ByteSource();

  // Replaces `out` by the next bytes, at most 64 KiB. Returns false at the end, and after a fault, which it
  // names in `fault`.
  bool read(std::string& out, const char*& fault);

 private:
  class Input;
  class Decoder;
  class Gzip;
  class Zstd;
  explicit ByteSource(std::unique_ptr<Input> input);
  bool decode(std::string& out, const char*& fault);

  std::unique_ptr<Input> input_;
  std::unique_ptr<Decoder> decoder_;  // null: a plain file
  bool is_begun_ = false;
};

}  // namespace troupe::deploy
