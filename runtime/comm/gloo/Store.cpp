// Rendezvous stores. Under Shale's own launcher and on one host: a private
// folder. Otherwise a small TCP store: rank 0 serves, all ranks are clients.
// Protocol, little-endian: magic u32, op u8 ('S' or 'G'), key length u32, key;
// 'S': value length u32, value, answered by one byte; 'G' waits for the key and
// is answered by value length u32, value.
#include "runtime/comm/gloo/Gloo.h"
#include "runtime/core/Error.h"
#include "runtime/core/Files.h"

#include <arpa/inet.h>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <gloo/rendezvous/file_store.h>
#include <ifaddrs.h>
#include <map>
#include <mutex>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

namespace shale::rt {

namespace {
constexpr uint32_t magic = 0x53484c45; // "ELHS"
constexpr uint32_t keyLimit = 1 << 10, valueLimit = 1 << 24;

bool transferAll(int fd, void *data, size_t bytes, bool out) {
  char *at = static_cast<char *>(data);
  while (bytes) {
    ssize_t n = out ? ::send(fd, at, bytes, MSG_NOSIGNAL) : ::recv(fd, at, bytes, 0);
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      return false;
    at += n;
    bytes -= n;
  }
  return true;
}
bool put(int fd, const void *data, size_t bytes) {
  return transferAll(fd, const_cast<void *>(data), bytes, true);
}
bool take(int fd, void *data, size_t bytes) { return transferAll(fd, data, bytes, false); }

/// Serves the table until the process ends; threads are detached and share it.
struct Server {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, std::vector<char>> table;

  void talk(int fd) {
    for (;;) {
      uint32_t head = 0, length = 0;
      char op = 0;
      if (!take(fd, &head, 4) || head != magic || !take(fd, &op, 1) || !take(fd, &length, 4) ||
          length > keyLimit)
        break;
      std::string key(length, '\0');
      if (!take(fd, key.data(), length))
        break;
      if (op == 'S') {
        if (!take(fd, &length, 4) || length > valueLimit)
          break;
        std::vector<char> value(length);
        if (!take(fd, value.data(), length))
          break;
        {
          std::lock_guard<std::mutex> lock(mutex);
          table[key] = std::move(value);
        }
        changed.notify_all();
        if (!put(fd, &op, 1))
          break;
      } else if (op == 'G') {
        std::unique_lock<std::mutex> lock(mutex);
        changed.wait(lock, [&] { return table.count(key) != 0; });
        std::vector<char> value = table[key];
        lock.unlock();
        length = value.size();
        if (!put(fd, &length, 4) || !put(fd, value.data(), length))
          break;
      } else {
        break;
      }
    }
    close(fd);
  }
};

addrinfo *resolve(const std::string &address, int port, bool passive) {
  addrinfo hints{}, *result = nullptr;
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = passive ? AI_PASSIVE : 0;
  int status = getaddrinfo(address.empty() ? nullptr : address.c_str(),
                           std::to_string(port).c_str(), &hints, &result);
  if (status != 0)
    fail(SHALE_EXIT_PEER, "cannot resolve MASTER_ADDR '%s': %s", address.c_str(),
         gai_strerror(status));
  return result;
}

/// Listens on the address of MASTER_ADDR when all ranks are on this host, else
/// on all of them: a host's own name often resolves to a loopback address.
void serve(const Rendezvous &rendezvous) {
  bool local = rendezvous.localSize == rendezvous.worldSize;
  addrinfo *info = resolve(local ? rendezvous.address : "", rendezvous.port, true);
  int fd = socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  int yes = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  bool bound = fd >= 0 && bind(fd, info->ai_addr, info->ai_addrlen) == 0 && listen(fd, 1024) == 0;
  int error = errno;
  freeaddrinfo(info);
  if (!bound)
    fail(SHALE_EXIT_PEER,
         "rank 0 cannot listen on port %d: %s; set SHALE_PORT to a free port "
         "on every rank",
         rendezvous.port, strerror(error));
  auto *server = new Server; // lives as long as its threads: to the end
  std::thread([fd, server] {
    for (;;) {
      int peer = accept4(fd, nullptr, nullptr, SOCK_CLOEXEC);
      if (peer >= 0)
        std::thread([peer, server] { server->talk(peer); }).detach();
      else if (errno != EINTR && errno != ECONNABORTED)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }).detach();
}

class TcpStore : public gloo::rendezvous::Store {
public:
  TcpStore(const Rendezvous &rendezvous, std::chrono::milliseconds timeout) : timeout(timeout) {
    auto deadline = std::chrono::steady_clock::now() + timeout;
    while ((fd = dial(rendezvous)) < 0) {
      if (std::chrono::steady_clock::now() > deadline)
        fail(SHALE_EXIT_PEER, "rank 0 did not answer on %s port %d within %lld s",
             rendezvous.address.c_str(), rendezvous.port, (long long)timeout.count() / 1000);
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    int yes = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
    timeval limit{};
    limit.tv_sec = timeout.count() / 1000;
    limit.tv_usec = timeout.count() % 1000 * 1000;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  }
  ~TcpStore() override { close(fd); }

  void set(const std::string &key, const std::vector<char> &data) override {
    uint32_t length = data.size();
    char answer = 0;
    if (!ask('S', key) || !put(fd, &length, 4) || !put(fd, data.data(), data.size()) ||
        !take(fd, &answer, 1))
      lost(key);
  }
  std::vector<char> get(const std::string &key) override {
    uint32_t length = 0;
    if (!ask('G', key) || !take(fd, &length, 4) || length > valueLimit)
      lost(key);
    std::vector<char> value(length);
    if (!take(fd, value.data(), length))
      lost(key);
    return value;
  }
  void wait(const std::vector<std::string> &keys) override {
    for (const std::string &key : keys)
      get(key);
  }
  void wait(const std::vector<std::string> &keys, const std::chrono::milliseconds &) override {
    wait(keys);
  }

private:
  static int dial(const Rendezvous &rendezvous) {
    addrinfo *info = resolve(rendezvous.address, rendezvous.port, false);
    int fd = -1;
    for (addrinfo *at = info; at && fd < 0; at = at->ai_next) {
      fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
      if (fd >= 0 && ::connect(fd, at->ai_addr, at->ai_addrlen) != 0) {
        close(fd);
        fd = -1;
      }
    }
    freeaddrinfo(info);
    return fd;
  }
  bool ask(char op, const std::string &key) {
    uint32_t length = key.size();
    return put(fd, &magic, 4) && put(fd, &op, 1) && put(fd, &length, 4) &&
           put(fd, key.data(), length);
  }
  [[noreturn]] void lost(const std::string &key) {
    fail(SHALE_EXIT_PEER,
         "rendezvous failed: no answer for '%s' within %lld s; a rank is "
         "missing "
         "or has ended",
         key.c_str(), (long long)timeout.count() / 1000);
  }
  int fd = -1;
  std::chrono::milliseconds timeout;
};
} // namespace

std::unique_ptr<gloo::rendezvous::Store> openStore(const Rendezvous &rendezvous,
                                                   std::chrono::milliseconds timeout) {
  if (!rendezvous.storePath.empty()) {
    if (mkdir(rendezvous.storePath.c_str(), 0700) != 0 && errno != EEXIST)
      fail(SHALE_EXIT_PEER, "cannot make the rendezvous folder '%s': %s",
           rendezvous.storePath.c_str(), strerror(errno));
    return std::make_unique<gloo::rendezvous::FileStore>(rendezvous.storePath);
  }
  if (rendezvous.rank == 0)
    serve(rendezvous);
  return std::make_unique<TcpStore>(rendezvous, timeout);
}

/// Returns the first address of this host that other hosts may reach; empty if there is none.
static std::string outwardAddress() {
  ifaddrs *list = nullptr;
  std::string found;
  if (getifaddrs(&list) != 0)
    return found;
  for (ifaddrs *at = list; at && found.empty(); at = at->ifa_next) {
    char text[NI_MAXHOST];
    bool usable = at->ifa_addr && at->ifa_addr->sa_family == AF_INET && (at->ifa_flags & IFF_UP) &&
                  !(at->ifa_flags & IFF_LOOPBACK);
    if (usable && getnameinfo(at->ifa_addr, sizeof(sockaddr_in), text, sizeof(text), nullptr, 0,
                              NI_NUMERICHOST) == 0)
      found = text;
  }
  freeifaddrs(list);
  return found;
}

std::string ownAddress(const Rendezvous &rendezvous) {
  if (rendezvous.localSize == rendezvous.worldSize || rendezvous.address.empty())
    return "127.0.0.1";
  // Connecting a datagram socket determines the route without sending anything.
  addrinfo *info = resolve(rendezvous.address, rendezvous.port, false);
  int fd = socket(info->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_storage self{};
  socklen_t length = sizeof(self);
  char text[NI_MAXHOST] = "127.0.0.1";
  if (fd >= 0 && ::connect(fd, info->ai_addr, info->ai_addrlen) == 0 &&
      getsockname(fd, reinterpret_cast<sockaddr *>(&self), &length) == 0)
    getnameinfo(reinterpret_cast<sockaddr *>(&self), length, text, sizeof(text), nullptr, 0,
                NI_NUMERICHOST);
  if (fd >= 0)
    close(fd);
  freeaddrinfo(info);
  // A loopback address: this is rank 0's own host.
  if (strncmp(text, "127.", 4) == 0 || strcmp(text, "::1") == 0) {
    std::string outward = outwardAddress();
    return outward.empty() ? text : outward;
  }
  return text;
}

} // namespace shale::rt
