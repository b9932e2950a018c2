// A connection with another rank.
#include "runtime/comm/mesh/Peer.h"

#include <fcntl.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <utility>

namespace shale::rt {

Peer::Peer(int rank, std::string name, Socket taken, int epoll)
    : rank(rank), name(std::move(name)), socket(std::move(taken)),
      outbox(rank, socket.get(), epoll), inbox(rank, socket.get()),
      acknowledged(nowMilliseconds()) {
  fcntl(socket.get(), F_SETFL, fcntl(socket.get(), F_GETFL) | O_NONBLOCK);
}

bool Peer::isUnreachable() {
  tcp_info info{};
  socklen_t length = sizeof(info);
  int64_t now = nowMilliseconds();
  bool isTcp = getsockopt(socket.get(), IPPROTO_TCP, TCP_INFO, &info, &length) == 0 && length > 0;
  // An acknowledgement that is older may be that of what was sent before.
  if (!isTcp || info.tcpi_unacked == 0 || info.tcpi_last_ack_recv < 2000)
    acknowledged = now;
  return now - acknowledged > 6500;
}

} // namespace shale::rt
