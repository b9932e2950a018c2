// Messages between ranks: the thread that reads, writes what is left, and notices failures.
#include "runtime/comm/mesh/Mesh.h"
#include "runtime/comm/mesh/Peer.h"
#include "runtime/core/Error.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/uio.h>
#include <unistd.h>

namespace shale::rt {

void Mesh::loop() {
  sigset_t all; // signals are for other threads
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  auto next = Clock::now() + interval();
  while (!ending) {
    epoll_event events[64];
    milliseconds pause = failed ? std::min(interval(), milliseconds(100)) : interval();
    int count = epoll_wait(epoll.get(), events, 64, static_cast<int>(pause.count()));
    for (int i = 0; i < count; ++i) {
      auto *peer = static_cast<Peer *>(events[i].data.ptr);
      if (!peer)
        continue; // the mesh ends
      if (events[i].events & ~EPOLLOUT)
        handleInput(*peer);
      if (events[i].events & EPOLLOUT) {
        std::lock_guard<std::mutex> lock(peer->sendMutex);
        flush(*peer);
      }
    }
    if (failed || Clock::now() >= next) {
      tick();
      next = Clock::now() + interval();
    }
  }
}

/// Asks whether other ranks are alive while this one waits, and looks for hosts that are gone.
void Mesh::tick() {
  if (failed) {
    std::unique_lock<std::mutex> lock(stateMutex);
    bool late = Clock::now() - failedAt > options.grace;
    if (late && options.grace.count() > 0 && !leaving && !reported)
      die(SHALE_EXIT_PEER, failure + "; this rank was computing");
    return;
  }
  bool ask = waitsNow() != 0;
  // While this process is stopped, it does not see what others acknowledge.
  bool wasStopped = nowMilliseconds() - ticked > 3000 + interval().count();
  ticked = nowMilliseconds();
  for (auto &peer : peers) {
    if (!peer || peer->closed)
      continue;
    if (wasStopped)
      peer->acknowledged = ticked;
    if (ask)
      control(*peer, {Ping, 0, 0, 0});
    if (isUnreachable(*peer))
      lose(*peer, ETIMEDOUT);
  }
}

/// Whether the host of a rank has not acknowledged for 6.5 seconds what was sent to it, in which
/// TCP has sent it several times. The host of a rank that is stopped does acknowledge.
bool Mesh::isUnreachable(Peer &peer) {
  tcp_info info{};
  socklen_t length = sizeof(info);
  int64_t now = nowMilliseconds();
  bool isTcp =
      getsockopt(peer.socket.get(), IPPROTO_TCP, TCP_INFO, &info, &length) == 0 && length > 0;
  // An acknowledgement that is older may be that of what was sent before.
  if (!isTcp || info.tcpi_unacked == 0 || info.tcpi_last_ack_recv < 2000)
    peer.acknowledged = now;
  return now - peer.acknowledged > 6500;
}

/// Nothing more arrives from a rank.
void Mesh::lose(Peer &peer, int error) {
  bool first = !peer.closed.exchange(true);
  if (first)
    epoll_ctl(epoll.get(), EPOLL_CTL_DEL, peer.socket.get(), nullptr);
  {
    std::lock_guard<std::mutex> lock(stateMutex);
  }
  stateChanged.notify_all(); // for findSilent()
  if (ending || leaving || (peer.left && !isNeeded(peer)))
    return;
  bool unreachable = error == ETIMEDOUT || error == EHOSTUNREACH || error == ENETUNREACH;
  fail(peer.name + (unreachable ? " is cut off: its host or the network is gone"
                    : peer.left ? " ended its run, but this rank still waits for it"
                                : " ended"));
}

void Mesh::arm(Peer &peer, bool output) {
  if (peer.armed == output || peer.closed)
    return;
  epoll_event event{};
  event.events = EPOLLIN | (output ? EPOLLOUT : 0);
  event.data.ptr = &peer;
  epoll_ctl(epoll.get(), EPOLL_CTL_MOD, peer.socket.get(), &event);
  peer.armed = output;
}

/// Adds a frame without data, and writes what can be written.
void Mesh::control(Peer &peer, const Frame &frame, const std::string &text) {
  std::lock_guard<std::mutex> lock(peer.sendMutex);
  // A rank that does not read gets no more pings.
  if (peer.broken || ((frame.kind == Ping || frame.kind == Pong) && !peer.control.empty()))
    return;
  peer.control.append(reinterpret_cast<const char *>(&frame), sizeof(frame));
  peer.control += text;
  flush(peer);
}

/// Writes as much as the kernel takes: first frames without data, unless a message is under way,
/// then messages in order. The caller holds sendMutex. Returns false if the connection is broken,
/// which the loop then finds when it reads.
bool Mesh::flush(Peer &peer) {
  while (!peer.broken && (!peer.control.empty() || !peer.queue.empty())) {
    iovec pieces[3];
    int count = 0;
    auto add = [&](const void *data, size_t bytes) {
      if (bytes > 0)
        pieces[count++] = {const_cast<void *>(data), bytes};
    };
    size_t controls = peer.frontAt == 0 ? peer.control.size() - peer.controlAt : 0;
    add(peer.control.data() + peer.controlAt, controls);
    size_t frame = 0;
    if (!peer.queue.empty()) {
      const Outgoing &front = peer.queue.front();
      frame = sizeof(Frame) + front.frame.bytes;
      size_t head = std::min(peer.frontAt, sizeof(Frame)), body = peer.frontAt - head;
      add(reinterpret_cast<const char *>(&front.frame) + head, sizeof(Frame) - head);
      add(front.data + body, front.frame.bytes - body);
    }
    msghdr message{};
    message.msg_iov = pieces;
    message.msg_iovlen = count;
    ssize_t written = sendmsg(peer.socket.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (written < 0 && errno == EINTR)
      continue;
    if (written < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      arm(peer, true);
      return true;
    }
    if (written < 0) {
      peer.broken = true;
      return false;
    }
    size_t ofControl = std::min<size_t>(written, controls);
    peer.controlAt += ofControl;
    if (peer.controlAt == peer.control.size()) {
      peer.control.clear();
      peer.controlAt = 0;
    }
    peer.frontAt += written - ofControl;
    if (frame > 0 && peer.frontAt == frame) {
      Awaited &transfers = *peer.queue.front().transfers;
      peer.queue.pop_front();
      peer.frontAt = 0;
      complete(transfers, true, peer.rank);
    }
  }
  arm(peer, false);
  return !peer.broken;
}

/// Reads what has arrived: a message goes into its place, frames go into the stage.
void Mesh::handleInput(Peer &peer) {
  std::lock_guard<std::mutex> lock(peer.receiveMutex);
  // A bounded number of times, so that other ranks are heard.
  for (int i = 0; i < 16 && !peer.closed; ++i) {
    iovec pieces[2];
    int count = 0;
    size_t left = peer.inData ? peer.current.bytes - peer.currentAt : 0;
    if (left > 0)
      pieces[count++] = {peer.current.data + peer.currentAt, left};
    size_t room = sizeof(peer.stage) - peer.end;
    pieces[count++] = {peer.stage + peer.end, room};
    ssize_t n = readv(peer.socket.get(), pieces, count);
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
      return;
    if (n <= 0)
      return lose(peer, n < 0 ? errno : 0);
    peer.heard = nowMilliseconds();
    size_t ofData = std::min<size_t>(n, left);
    peer.currentAt += ofData;
    peer.end += n - ofData;
    if (peer.inData && peer.currentAt == peer.current.bytes) {
      peer.inData = false;
      complete(*peer.current.transfers, false, peer.rank);
    }
    while (!peer.inData && parse(peer)) {
    }
    if (peer.begin > 0) {
      std::memmove(peer.stage, peer.stage + peer.begin, peer.end - peer.begin);
      peer.end -= peer.begin;
      peer.begin = 0;
    }
    if (static_cast<size_t>(n) < left + room)
      return; // that was all
  }
}

/// Takes one frame from the stage. Returns false if none is complete.
bool Mesh::parse(Peer &peer) {
  Frame frame;
  size_t have = peer.end - peer.begin;
  if (have < sizeof(frame) || peer.closed)
    return false;
  std::memcpy(&frame, peer.stage + peer.begin, sizeof(frame));
  if (frame.kind == Failure) {
    if (frame.bytes > longestText) {
      refuse(peer, "sent a text that is too long");
      return false;
    }
    if (have < sizeof(frame) + frame.bytes)
      return false;
  }
  peer.begin += sizeof(frame);
  return handle(peer, frame);
}

bool Mesh::handle(Peer &peer, const Frame &frame) {
  switch (frame.kind) {
  case Ready:
    return takeReady(peer, frame);
  case Data:
    return takeData(peer, frame);
  case Ping:
    control(peer, {Pong, 0, waitsNow(), 0});
    return true;
  case Pong:
    peer.waits = (frame.slot & kWaits) != 0;
    peer.patient = (frame.slot & kPatient) != 0;
    return true;
  case Failure: {
    std::string text(peer.stage + peer.begin, frame.bytes);
    peer.begin += frame.bytes;
    for (char &c : text)
      if (c < ' ' || c > '~')
        c = '?';
    if (text.find(", as rank ") == std::string::npos)
      text += format(", as rank %d reports", peer.rank);
    fail(text); // others may not have heard it, and that rank may have ended
    return true;
  }
  case Leave:
    peer.left = true;
    return true;
  case Stuck:
    peer.stuck = true;
    {
      std::lock_guard<std::mutex> lock(stateMutex);
    }
    stateChanged.notify_all();
    return true;
  default:
    refuse(peer, format("sent a frame of the unknown kind %u", frame.kind));
    return false;
  }
}

bool Mesh::takeReady(Peer &peer, const Frame &frame) {
  Key key{frame.channel, frame.slot};
  std::unique_lock<std::mutex> lock(peer.sendMutex);
  auto message = firstOf(peer.unready, key);
  if (message == peer.unready.end()) {
    bool many = peer.ready.size() >= mostReady;
    if (!many)
      peer.ready.emplace(key, frame.bytes);
    lock.unlock();
    if (many)
      refuse(peer, "announced too many messages");
    return !many;
  }
  if (message->second.frame.bytes != frame.bytes) {
    uint64_t own = message->second.frame.bytes;
    lock.unlock();
    refuse(peer, format("expects a message of %llu bytes, where this rank sends %llu",
                        (unsigned long long)frame.bytes, (unsigned long long)own));
    return false;
  }
  peer.queue.push_back(message->second);
  peer.unready.erase(message);
  flush(peer);
  return true;
}

bool Mesh::takeData(Peer &peer, const Frame &frame) {
  {
    std::lock_guard<std::mutex> lock(peer.postMutex);
    auto place = firstOf(peer.posted, Key{frame.channel, frame.slot});
    if (place != peer.posted.end() && place->second.bytes == frame.bytes) {
      peer.current = place->second;
      peer.currentAt = 0;
      peer.inData = true;
      peer.posted.erase(place);
    }
  }
  if (!peer.inData) {
    refuse(peer, format("sent a message of %llu bytes that this rank does not expect",
                        (unsigned long long)frame.bytes));
    return false;
  }
  size_t here = std::min<uint64_t>(peer.end - peer.begin, frame.bytes);
  if (here > 0) // a message of 0 bytes may have no place
    std::memcpy(peer.current.data, peer.stage + peer.begin, here);
  peer.begin += here;
  peer.currentAt = here;
  if (here == frame.bytes) {
    peer.inData = false;
    complete(*peer.current.transfers, false, peer.rank);
  }
  return true;
}

} // namespace shale::rt
