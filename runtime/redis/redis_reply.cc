// Parses Redis replies from bytes with hiredis, within bounds on their bytes and elements. A faulty
// server thus causes an error, not unbounded memory use.
#include "runtime/redis/redis_reply.h"

#include <hiredis/read.h>

#include <algorithm>
#include <new>

namespace troupe {
namespace {

using Kind = RedisReply::Kind;

struct ElementsLeft {
  std::size_t of_one_list = 0, of_all = 0;
  std::string fault;  // set if a list was longer
};

// ---- hiredis builds our replies: we delete the root; the others are members of their parents ----

RedisReply* target_of(const redisReadTask* task) {
  if (!task->parent) return new RedisReply;
  return &static_cast<RedisReply*>(task->parent->obj)->list.at(static_cast<std::size_t>(task->idx));
}

// A null reply makes hiredis stop; an exception must not pass through it.
template <class Fill>
void* make_reply(const redisReadTask* task, Fill fill) noexcept {
  RedisReply* made = nullptr;
  try {
    made = target_of(task);
    fill(*made);
    return made;
  } catch (...) {
    if (made && !task->parent) delete made;
    return nullptr;
  }
}

void* make_text(const redisReadTask* task, char* text, std::size_t size) {
  return make_reply(task, [&](RedisReply& reply) {
    reply.kind = task->type == REDIS_REPLY_ERROR    ? Kind::error
                 : task->type == REDIS_REPLY_STATUS ? Kind::status
                                                    : Kind::text;
    reply.text.assign(text, size);
  });
}

void* make_list(const redisReadTask* task, int elements) {
  return make_reply(task, [&](RedisReply& reply) {
    auto& left = *static_cast<ElementsLeft*>(task->privdata);
    const auto wanted = static_cast<std::size_t>(elements);
    const std::size_t most = std::min(left.of_one_list, left.of_all);
    if (elements < 0 || wanted > most) {
      left.fault =
          "a list of " + std::to_string(elements) + " elements; expected at most " + std::to_string(most);
      throw std::bad_alloc();
    }
    left.of_all -= wanted;
    reply.kind = Kind::list;
    reply.list.resize(static_cast<std::size_t>(elements));
  });
}

void* make_integer(const redisReadTask* task, long long value) {
  return make_reply(task, [&](RedisReply& reply) { reply.kind = Kind::integer, reply.integer = value; });
}

void* make_nil(const redisReadTask* task) {
  return make_reply(task, [](RedisReply&) {});
}

void free_reply(void* reply) { delete static_cast<RedisReply*>(reply); }

redisReplyObjectFunctions reply_makers{make_text, make_list, make_integer, make_nil, free_reply};

}  // namespace

struct RedisReplyReader::Parser {
  explicit Parser(const RedisReplyLimits& l)
      : limits(l), reader(redisReaderCreateWithFunctions(&reply_makers)) {
    if (!reader) throw std::bad_alloc();
    reader->privdata = &left;
  }
  ~Parser() { redisReaderFree(reader); }
  Parser(const Parser&) = delete;
  Parser& operator=(const Parser&) = delete;

  RedisReplyLimits limits;
  ElementsLeft left;
  redisReader* reader;
};

RedisReplyReader::RedisReplyReader(const RedisReplyLimits& limits)
    : parser_(std::make_unique<Parser>(limits)) {}
RedisReplyReader::~RedisReplyReader() = default;

void RedisReplyReader::begin() {
  bytes_left_ = parser_->limits.bytes_max;
  parser_->left = {parser_->limits.elements_max, parser_->limits.all_elements_max, ""};
}

std::string RedisReplyReader::add(std::string_view bytes) {
  if (bytes.size() > bytes_left_)
    return "a reply that is too long: expected at most " + std::to_string(parser_->limits.bytes_max) +
           " bytes";
  bytes_left_ -= bytes.size();
  redisReaderFeed(parser_->reader, bytes.data(), bytes.size());
  return "";
}

std::variant<RedisReply, RedisReplyReader::NeedsBytes, std::string> RedisReplyReader::next() {
  void* found = nullptr;
  if (redisReaderGetReply(parser_->reader, &found) != REDIS_OK)
    return "not a Redis reply: " +
           (parser_->left.fault.empty() ? std::string(parser_->reader->errstr) : parser_->left.fault);
  if (!found) return NeedsBytes{};
  const std::unique_ptr<RedisReply> root(static_cast<RedisReply*>(found));
  return std::move(*root);
}

bool RedisReplyReader::is_empty() const { return parser_->reader->pos == parser_->reader->len; }

}  // namespace troupe
