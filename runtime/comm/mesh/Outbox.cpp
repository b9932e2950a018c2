// What this rank sends to another one.
#include "runtime/comm/mesh/Outbox.h"
#include "runtime/core/Error.h"

#include <algorithm>
#include <cerrno>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

namespace shale::rt {

// Announcements of one rank that nothing was sent for yet.
constexpr size_t mostReady = 1 << 20;

static std::string differ(uint64_t expected, uint64_t sent) {
  return format("expects a message of %llu bytes, where this rank sends %llu",
                (unsigned long long)expected, (unsigned long long)sent);
}

std::string Outbox::send(const Outgoing &message) {
  MessageKey key(message.frame);
  std::lock_guard<std::mutex> lock(mutex);
  auto room = firstOf(ready, key);
  bool fits = room != ready.end() && room->second == message.frame.bytes;
  if (!fits) {
    unready.emplace(key, message); // also if the sizes differ, for forget()
    return room == ready.end() ? "" : differ(room->second, message.frame.bytes);
  }
  ready.erase(room);
  queue.push_back(message);
  write();
  return "";
}

std::string Outbox::takeReady(const Frame &frame) {
  MessageKey key(frame);
  std::lock_guard<std::mutex> lock(mutex);
  auto message = firstOf(unready, key);
  if (message == unready.end()) {
    if (ready.size() >= mostReady)
      return "announced too many messages";
    ready.emplace(key, frame.bytes);
    return "";
  }
  if (message->second.frame.bytes != frame.bytes)
    return differ(frame.bytes, message->second.frame.bytes);
  queue.push_back(message->second);
  unready.erase(message);
  write();
  return "";
}

void Outbox::control(const Frame &frame, std::string_view text) {
  std::lock_guard<std::mutex> lock(mutex);
  // A rank that does not read gets no more pings.
  if (broken || ((frame.kind == Ping || frame.kind == Pong) && !controls.empty()))
    return;
  controls.append(reinterpret_cast<const char *>(&frame), sizeof(frame));
  controls += text;
  write();
}

void Outbox::flush() {
  std::lock_guard<std::mutex> lock(mutex);
  write();
}

bool Outbox::flushControl() {
  std::lock_guard<std::mutex> lock(mutex);
  write();
  return controls.empty() || broken;
}

/// Writes first frames without data, unless a message is under way, then messages in order. The
/// caller holds the mutex. If the connection is broken, the loop finds that when it reads.
void Outbox::write() {
  while (!broken && (!controls.empty() || !queue.empty())) {
    iovec pieces[3];
    int count = 0;
    auto add = [&](const void *data, size_t bytes) {
      if (bytes > 0)
        pieces[count++] = {const_cast<void *>(data), bytes};
    };
    size_t waiting = frontAt == 0 ? controls.size() - controlAt : 0;
    add(controls.data() + controlAt, waiting);
    size_t frame = 0;
    if (!queue.empty()) {
      const Outgoing &front = queue.front();
      frame = sizeof(Frame) + front.frame.bytes;
      size_t head = std::min(frontAt, sizeof(Frame)), body = frontAt - head;
      add(reinterpret_cast<const char *>(&front.frame) + head, sizeof(Frame) - head);
      add(front.data + body, front.frame.bytes - body);
    }
    msghdr message{};
    message.msg_iov = pieces;
    message.msg_iovlen = count;
    ssize_t written = sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (written < 0 && errno == EINTR)
      continue;
    if (written < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
      return arm(true);
    if (written < 0) {
      broken = true;
      break;
    }
    size_t ofControls = std::min<size_t>(written, waiting);
    controlAt += ofControls;
    if (controlAt == controls.size()) {
      controls.clear();
      controlAt = 0;
    }
    frontAt += written - ofControls;
    if (frame > 0 && frontAt == frame) {
      Awaited &transfers = *queue.front().transfers;
      queue.pop_front();
      frontAt = 0;
      transfers.complete(true, rank);
    }
  }
  arm(false);
}

/// Asks to be told when the socket takes more, or not any more.
void Outbox::arm(bool output) {
  if (armed == output)
    return;
  epoll_event event{};
  event.events = EPOLLIN | (output ? EPOLLOUT : 0);
  event.data.u32 = static_cast<uint32_t>(rank);
  epoll_ctl(epoll, EPOLL_CTL_MOD, socket, &event);
  armed = output;
}

bool Outbox::lacksRoom(const Awaited &transfers) {
  std::lock_guard<std::mutex> lock(mutex);
  return std::any_of(unready.begin(), unready.end(),
                     [&](const auto &entry) { return entry.second.transfers == &transfers; });
}

bool Outbox::hasMessages() {
  std::lock_guard<std::mutex> lock(mutex);
  return !unready.empty() || !queue.empty();
}

bool Outbox::forget(const Awaited &transfers, bool cut) {
  auto isOwn = [&](const Outgoing &one) { return one.transfers == &transfers; };
  std::lock_guard<std::mutex> lock(mutex);
  for (auto it = unready.begin(); it != unready.end();)
    it = isOwn(it->second) ? unready.erase(it) : std::next(it);
  cut = cut || (frontAt > 0 && isOwn(queue.front()));
  if (cut) { // the rest of the message will not come, so no other can follow
    broken = true;
    queue.clear();
    frontAt = 0;
    shutdown(socket, SHUT_RDWR);
  }
  queue.erase(std::remove_if(queue.begin(), queue.end(), isOwn), queue.end());
  return cut;
}

} // namespace shale::rt
