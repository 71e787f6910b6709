// Constructors, destructor and comparison of Message, the variant of all messages between
// actors. They are compiled here once, not in every file that uses a message.
#include "runtime/actor/messages.h"

namespace troupe {

Message::Message() = default;
Message::Message(const Message&) = default;
Message::Message(Message&&) noexcept = default;
Message& Message::operator=(const Message&) = default;
Message& Message::operator=(Message&&) noexcept = default;
Message::~Message() = default;
bool Message::operator==(const Message&) const = default;

}  // namespace troupe
