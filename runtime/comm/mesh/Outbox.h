// What this rank sends to another one.
#ifndef SHALE_RUNTIME_COMM_MESH_OUTBOX_H
#define SHALE_RUNTIME_COMM_MESH_OUTBOX_H

#include "runtime/comm/mesh/Frames.h"
#include "runtime/comm/mesh/Messages.h"

#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

namespace shale::rt {

/// A message to another rank.
struct Outgoing {
  Frame frame;
  const char *data;
  Awaited *transfers;
};

/// Sends another rank frames without data, and each message when that rank has announced room for
/// it.
///
/// Calls of any thread write as much as the kernel takes. The thread of the mesh writes the rest by
/// flush(): the outbox has `epoll` tell it when the socket takes more. Functions that return a text
/// say in which way the other rank does not fit to this one; "": it does.
class Outbox {
public:
  /// The socket must be in `epoll`, with the rank as its data, and outlive this object.
  Outbox(int rank, int socket, int epoll) : rank(rank), socket(socket), epoll(epoll) {}

  std::string send(const Outgoing &message);
  /// Takes the announcement of the other rank that it has room.
  std::string takeReady(const Frame &frame);
  /// Adds a frame without data, and writes what can be written.
  void control(const Frame &frame, std::string_view text = {});
  void flush();
  /// Returns whether no frame without data is left to write, after a flush().
  bool flushControl();

  /// Whether the other rank has announced no room yet for a message of a buffer.
  bool lacksRoom(const Awaited &transfers);
  /// Whether a message is not complete.
  bool hasMessages();
  /// Drops the messages of a buffer. If one of them is under way, or if the connection is `cut`
  /// anyway, ends the connection. Returns whether it has.
  bool forget(const Awaited &transfers, bool cut);

private:
  void write();
  void arm(bool output);

  const int rank, socket, epoll;
  std::mutex mutex;     // of what follows
  std::string controls; // frames without data, which go before the next message
  size_t controlAt = 0; // bytes of them that are written
  std::pmr::deque<Outgoing> queue{messageMemory()};
  size_t frontAt = 0; // bytes of the first message that are written, with its frame
  bool armed = false; // whether the loop waits until more can be written
  bool broken = false;
  std::pmr::multimap<MessageKey, Outgoing> unready{
      messageMemory()}; // sends that the other rank has announced no room for
  std::pmr::multimap<MessageKey, uint64_t> ready{
      messageMemory()}; // room that nothing was sent to yet, in bytes
};

} // namespace shale::rt

#endif
