// Messages that another rank sends to this rank.
#include "runtime/comm/mesh/Inbox.h"
#include "runtime/core/Error.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <sys/uio.h>

namespace shale::rt {

int64_t nowMilliseconds() {
  auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

void Inbox::post(const MessageKey &key, const Incoming &room) {
  std::lock_guard<std::mutex> lock(postMutex);
  posted.emplace(key, room);
}

/// A message goes into its place, frames go into the stage.
Inbox::Result Inbox::read(const Handler &handle) {
  std::lock_guard<std::mutex> lock(mutex);
  Result result;
  // A bounded number of times, so that other ranks are heard.
  for (int i = 0; i < 16 && result.misfit.empty(); ++i) {
    iovec pieces[2];
    int count = 0;
    size_t left = inData ? current.bytes - currentAt : 0;
    if (left > 0)
      pieces[count++] = {current.data + currentAt, left};
    size_t room = sizeof(stage) - end;
    pieces[count++] = {stage + end, room};
    ssize_t n = readv(socket, pieces, count);
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
      return result;
    if (n <= 0) {
      result.ended = true;
      result.error = n < 0 ? errno : 0;
      return result;
    }
    lastHeard = nowMilliseconds();
    size_t ofData = std::min<size_t>(n, left);
    currentAt += ofData;
    end += n - ofData;
    if (inData && currentAt == current.bytes) {
      inData = false;
      current.transfers->complete(false, rank);
    }
    while (!inData && parse(handle, result.misfit)) {
    }
    if (begin > 0) {
      std::memmove(stage, stage + begin, end - begin);
      end -= begin;
      begin = 0;
    }
    if (static_cast<size_t>(n) < left + room)
      break; // that was all
  }
  return result;
}

/// Takes one frame from the stage. Returns false if none is complete, or if it does not fit.
bool Inbox::parse(const Handler &handle, std::string &misfit) {
  Frame frame;
  size_t have = end - begin;
  if (have < sizeof(frame))
    return false;
  std::memcpy(&frame, stage + begin, sizeof(frame));
  std::string_view text;
  if (frame.kind == Failure) {
    if (frame.bytes > longestText) {
      misfit = "sent a text that is too long";
      return false;
    }
    if (have < sizeof(frame) + frame.bytes)
      return false;
    text = {stage + begin + sizeof(frame), frame.bytes};
  }
  begin += sizeof(frame) + text.size();
  misfit = frame.kind == Data ? takeData(frame) : handle(frame, text);
  return misfit.empty();
}

std::string Inbox::takeData(const Frame &frame) {
  {
    std::lock_guard<std::mutex> lock(postMutex);
    auto place = firstOf(posted, MessageKey(frame));
    if (place != posted.end() && place->second.bytes == frame.bytes) {
      current = place->second;
      currentAt = 0;
      inData = true;
      posted.erase(place);
    }
  }
  if (!inData)
    return format("sent a message of %llu bytes that this rank does not expect",
                  (unsigned long long)frame.bytes);
  size_t here = std::min<uint64_t>(end - begin, frame.bytes);
  if (here > 0) // a message of 0 bytes may have no place
    std::memcpy(current.data, stage + begin, here);
  begin += here;
  currentAt = here;
  if (here == frame.bytes) {
    inData = false;
    current.transfers->complete(false, rank);
  }
  return "";
}

bool Inbox::expects() {
  std::lock_guard<std::mutex> lock(postMutex);
  return !posted.empty();
}

bool Inbox::expects(const Awaited &transfers) {
  std::lock_guard<std::mutex> lock(postMutex);
  return std::any_of(posted.begin(), posted.end(),
                     [&](const auto &entry) { return entry.second.transfers == &transfers; });
}

bool Inbox::forget(const Awaited &transfers) {
  auto isOwn = [&](const Incoming &one) { return one.transfers == &transfers; };
  std::lock_guard<std::mutex> lock(postMutex);
  for (auto it = posted.begin(); it != posted.end();)
    it = isOwn(it->second) ? posted.erase(it) : std::next(it);
  return inData && isOwn(current);
}

} // namespace shale::rt
