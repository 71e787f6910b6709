#pragma once
// Defines how a store fails: the kind, the exception when opening one, and the value of a failed
// write.
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace troupe {

enum class StoreFault : std::uint8_t {
  cannot_create,  // the folder, or one above it
  read_only,
  locked,  // by another process, or by another Store in this one
  corrupt,
  disk_full,
  foreign_format,  // written by another version of Troupe, or not by Troupe
  bad_row,         // invalid row in an import
  failed           // any other disk failure
};
std::string_view describe(StoreFault fault);  // such as "the disk is full"

// `what()` has the form "<where>: <what is wrong>; expected <what>".
struct StoreError : std::runtime_error {
  StoreError(StoreFault f, const std::string& text) : std::runtime_error(text), fault(f) {}
  StoreFault fault;
};

struct StoreFailure {
  StoreFault fault = StoreFault::failed;
  std::string why;  // for logs: names files
};

}  // namespace troupe
