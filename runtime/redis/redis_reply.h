#pragma once
// Replies of a Redis, from bytes to values; the only place that knows hiredis, whose parser it is. Whatever
// is not a sound reply within the bounds is a fault, after which the bytes that follow mean nothing.
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
  std::string text;  // of text, status and error
  std::vector<RedisReply> list;
  bool is(Kind other) const { return kind == other; }
};

struct RedisReplyLimits {
  std::size_t bytes_max = std::size_t{16} << 20;  // of one pipeline's replies
  std::size_t elements_max = 1 << 16;             // of one list
  std::size_t all_elements_max = 1 << 18;         // of all lists of one pipeline's replies
};

class RedisReplyReader {
 public:
  explicit RedisReplyReader(const RedisReplyLimits& limits);
  ~RedisReplyReader();
  RedisReplyReader(const RedisReplyReader&) = delete;
  RedisReplyReader& operator=(const RedisReplyReader&) = delete;

  // From now on so much may come: a pipeline's replies.
  void begin();
  std::string add(std::string_view bytes);  // "" or what is wrong
  // A reply; nothing, if more bytes are needed; or what is wrong.
  struct Needs {};
  std::variant<RedisReply, Needs, std::string> next();
  bool is_empty() const;  // all bytes are read

 private:
  struct Parser;
  const std::unique_ptr<Parser> parser_;
  std::size_t bytes_left_ = 0;
};

}  // namespace troupe
