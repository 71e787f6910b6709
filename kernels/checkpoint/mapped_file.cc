// Maps a file's bytes read-only, so that a checkpoint is read without a second copy in memory.
#include "kernels/checkpoint/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "kernels/checkpoint/json_file.h"

namespace troupe::kernels {
namespace {

struct Descriptor {
  int number;
  ~Descriptor() {
    if (number >= 0) ::close(number);
  }
};

[[noreturn]] void system_fault(const std::filesystem::path& file, const char* call, const char* expected) {
  throw_load_error(file, std::string(call) + " failed: " + std::strerror(errno), expected);
}

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& file) {
  const Descriptor descriptor{::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (descriptor.number < 0) system_fault(file, "open", "a readable file");
  struct stat status {};
  if (::fstat(descriptor.number, &status) != 0) system_fault(file, "fstat", "a readable file");
  if (!S_ISREG(status.st_mode)) throw_load_error(file, "not a regular file", "a regular file");
  if (status.st_size == 0) return;  // an empty mapping is an error to mmap
  const auto size = static_cast<std::size_t>(status.st_size);
  void* const start = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor.number, 0);
  if (start == MAP_FAILED) system_fault(file, "mmap", "a file that can be mapped");
  bytes_ = {static_cast<const std::byte*>(start), size};
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

// Only advice: whether the system follows it changes nothing but speed.
void MappedFile::expect_scattered_reads() const {
  if (!bytes_.empty()) ::madvise(const_cast<std::byte*>(bytes_.data()), bytes_.size(), MADV_RANDOM);
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace troupe::kernels
