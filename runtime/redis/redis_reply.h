#pragma once
// Parses replies of a Redis from bytes to values with the parser of hiredis, which only
// redis_reply.cc includes. Anything but a sound reply within the bounds is a fault. The bytes after
// a fault cannot be interpreted, so the caller closes the connection.
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace troupe {

struct RedisReply {
  enum class Kind : std::uint8_t { nil, integer, text, status, error, list } kind = Kind::nil;
  std::int64_t integer = 0;
  std::string text;  // for text, status and error
  std::vector<RedisReply> list;
  bool is(Kind other) const { return kind == other; }
};

struct RedisReplyLimits {
  std::size_t bytes_max = std::size_t{16} << 20;  // bytes of one pipeline's replies
  std::size_t elements_max = 1 << 16;             // elements of one list
  std::size_t all_elements_max = 1 << 18;         // elements of all lists in one pipeline's replies
};

class RedisReplyReader {
 public:
  explicit RedisReplyReader(const RedisReplyLimits& limits);
  ~RedisReplyReader();
  RedisReplyReader(const RedisReplyReader&) = delete;
  RedisReplyReader& operator=(const RedisReplyReader&) = delete;

  // Resets the bounds for the replies to the next pipeline (commands sent together).
  void begin();
  std::string add(std::string_view bytes);  // returns "" or what is wrong
  // Returns the next reply, NeedsBytes if it is not complete yet, or what is wrong.
  struct NeedsBytes {};
  std::variant<RedisReply, NeedsBytes, std::string> next();
  bool is_empty() const;  // all bytes are consumed

 private:
  struct Parser;
  const std::unique_ptr<Parser> parser_;
  std::size_t bytes_left_ = 0;
};

}  // namespace troupe
