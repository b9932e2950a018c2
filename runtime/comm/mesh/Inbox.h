// Messages that another rank sends to this rank.
#ifndef SHALE_RUNTIME_COMM_MESH_INBOX_H
#define SHALE_RUNTIME_COMM_MESH_INBOX_H

#include "runtime/comm/mesh/Frames.h"
#include "runtime/comm/mesh/Messages.h"

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

namespace shale::rt {

/// Returns the time of the steady clock in ms.
int64_t nowMilliseconds();

/// Room for a message of another rank.
struct Incoming {
  char *data;
  size_t bytes;
  Awaited *transfers;
};

/// Reads from a connection: messages go into the room that was posted for them, other frames to a
/// function.
class Inbox {
public:
  /// Takes a frame other than Data. `text` is that of a Failure. Returns in which way the other
  /// rank does not fit to this one; "": it does.
  using Handler = std::function<std::string(const Frame &frame, std::string_view text)>;
  struct Result {
    bool ended = false; // nothing more arrives
    int error = 0;      // of the system, if `ended`; 0: the other end has closed the connection
    std::string misfit; // in which way the other rank does not fit to this one
  };

  /// The socket must outlive this object.
  Inbox(int rank, int socket) : rank(rank), socket(socket), lastHeard(nowMilliseconds()) {}

  /// Makes room for a message.
  void post(const MessageKey &key, const Incoming &room);
  /// Reads what has arrived. The frames are handled under lock().
  Result read(const Handler &handle);

  /// Whether there is room for a message, or for one of a buffer, that has not begun to arrive.
  bool expects();
  bool expects(const Awaited &transfers);
  /// Returns when something arrived last, in ms of the clock.
  int64_t heard() const { return lastHeard; }

  /// Keeps other threads from reading.
  std::unique_lock<std::mutex> lock() { return std::unique_lock<std::mutex>(mutex); }
  /// Drops the room of a buffer. Returns whether a message is arriving in it: then cut() must
  /// follow. The caller holds lock().
  bool forget(const Awaited &transfers);
  /// Says that the rest of the message that is arriving will not come. The caller holds lock().
  void cut() { inData = false; }

private:
  bool parse(const Handler &handle, std::string &misfit);
  std::string takeData(const Frame &frame);

  const int rank, socket;
  std::atomic<int64_t> lastHeard;

  std::mutex mutex; // held while the loop reads
  char stage[4096]; // frames that have arrived, from `begin` to `end`
  size_t begin = 0, end = 0;
  Incoming current{}; // the message that is arriving, if `inData`
  size_t currentAt = 0;
  bool inData = false;

  std::mutex postMutex;
  std::pmr::multimap<MessageKey, Incoming> posted{messageMemory()}; // room for messages
};

} // namespace shale::rt

#endif
