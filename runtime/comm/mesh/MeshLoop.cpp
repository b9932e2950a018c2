// Messages between ranks: the thread that reads, writes what is left, and notices failures.
#include "runtime/comm/mesh/Mesh.h"
#include "runtime/comm/mesh/Neighbours.h"
#include "runtime/core/Error.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <sys/epoll.h>

namespace shale::rt {

void Mesh::loop() {
  sigset_t all; // signals are for other threads
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  auto next = Clock::now() + interval;
  while (!ending) {
    epoll_event events[64];
    milliseconds pause = waits.failed() ? std::min(interval, milliseconds(100)) : interval;
    int count = epoll_wait(epoll.get(), events, 64, static_cast<int>(pause.count()));
    for (int i = 0; i < count; ++i) {
      Peer *peer = neighbours->find(static_cast<int>(events[i].data.u32));
      if (!peer)
        continue; // the mesh ends
      if (events[i].events & ~EPOLLOUT)
        handleInput(*peer);
      if (events[i].events & EPOLLOUT)
        peer->outbox.flush();
    }
    if (waits.failed() || Clock::now() >= next) {
      tick();
      next = Clock::now() + interval;
    }
  }
}

/// Asks whether other ranks are alive while this one waits, and looks for hosts that are gone.
void Mesh::tick() {
  if (waits.failed()) {
    if (!leaving)
      waits.dieUnlessThrown(options.grace);
    return;
  }
  for (Peer *peer : neighbours->lookAfter(/*ask=*/waits.kinds(interval) != 0))
    lose(*peer, ETIMEDOUT);
}

/// Nothing more arrives from a rank.
void Mesh::lose(Peer &peer, int error) {
  if (!peer.closed.exchange(true))
    epoll_ctl(epoll.get(), EPOLL_CTL_DEL, peer.socket.get(), nullptr);
  waits.wake(); // for findSilent()
  if (ending || leaving || (peer.left && !peer.isNeeded()))
    return;
  bool unreachable = error == ETIMEDOUT || error == EHOSTUNREACH || error == ENETUNREACH;
  fail(peer.name + (unreachable ? " is cut off: its host or the network is gone"
                    : peer.left ? " ended its run, but this rank still waits for it"
                                : " ended"));
}

void Mesh::handleInput(Peer &peer) {
  Inbox::Result result = peer.inbox.read(
      [&](const Frame &frame, std::string_view text) { return handle(peer, frame, text); });
  if (result.ended)
    lose(peer, result.error);
  else if (!result.misfit.empty())
    refuse(peer, result.misfit);
}

/// Does what a frame asks for. Returns as Inbox::Handler.
std::string Mesh::handle(Peer &peer, const Frame &frame, std::string_view text) {
  switch (frame.kind) {
  case Ready:
    return peer.outbox.takeReady(frame);
  case Ping:
    peer.outbox.control({Pong, 0, waits.kinds(interval), 0});
    return "";
  case Pong:
    peer.waits = (frame.slot & kWaits) != 0;
    peer.patient = (frame.slot & kPatient) != 0;
    return "";
  case Failure: {
    std::string reason(text);
    for (char &c : reason)
      if (c < ' ' || c > '~')
        c = '?';
    if (!(frame.slot & kAttributed))
      reason += format(", as rank %d reports", peer.rank);
    fail(reason, true); // others may not have heard it, and that rank may have ended
    return "";
  }
  case Leave:
    peer.left = true;
    return "";
  case Stuck:
    peer.stuck = true;
    waits.wake();
    return "";
  default:
    return format("sent a frame of the unknown kind %u", frame.kind);
  }
}

} // namespace shale::rt
