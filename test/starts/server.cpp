// A tool as a server: preloaded, it runs instead of main(), once the tool's libraries are relocated
// and constructed. For each connection it makes a copy of the process, in which main() runs with
// what the request gives (request.h). A copy ends when its connection does, and the server when the
// process SHALE_STARTS_OWNER does.
#include "request.h"
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <map>
#include <poll.h>
#include <string>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

extern char **environ;

namespace {

constexpr int kPatience = 5000; // milliseconds between looks for the owner

using Main = int (*)(int, char **, char **);
Main tool;

/// Ends a copy that cannot start.
[[noreturn]] void give_up() { _exit(127); }

/// Reads a header and the descriptors that come with it.
Header receive(int connection, int *descriptors) {
  Header header = {};
  iovec part = {&header, sizeof header};
  alignas(cmsghdr) char space[CMSG_SPACE(kDescriptors * sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = space;
  message.msg_controllen = sizeof space;
  if (recvmsg(connection, &message, MSG_WAITALL) != sizeof header || header.count >= kDescriptors)
    give_up();
  cmsghdr *rights = CMSG_FIRSTHDR(&message);
  size_t bytes = (header.count + 1) * sizeof(int);
  if (!rights || rights->cmsg_len != CMSG_LEN(bytes))
    give_up();
  memcpy(descriptors, CMSG_DATA(rights), bytes);
  return header;
}

/// Gives the descriptors their numbers and closes all others; enters the folder.
void takeDescriptors(const Header &header, int *descriptors) {
  if (fchdir(descriptors[header.count]) != 0)
    give_up();
  for (uint32_t i = 0; i < header.count; ++i)
    if ((descriptors[i] = fcntl(descriptors[i], F_DUPFD, kDescriptorEnd)) < 0)
      give_up();
  close_range(0, kDescriptorEnd - 1, 0);
  for (uint32_t i = 0; i < header.count; ++i)
    dup2(descriptors[i], header.numbers[i]);
  close_range(kDescriptorEnd, ~0U, 0);
}

/// Takes over the limits of the process that asked.
void takeLimits(int connection) {
  ucred peer = {};
  socklen_t size = sizeof peer;
  if (getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
    give_up();
  for (int which = 0; which < RLIM_NLIMITS; ++which) {
    rlimit limit;
    auto resource = static_cast<__rlimit_resource>(which);
    if (prlimit(peer.pid, resource, nullptr, &limit) == 0)
      prlimit(0, resource, &limit, nullptr);
  }
}

void takeSignals(const Header &header) {
  sigset_t blocked;
  sigemptyset(&blocked);
  for (int number = 1; number <= 64; ++number) {
    if (header.blocked >> (number - 1) & 1)
      sigaddset(&blocked, number);
    bool ignored = header.ignored >> (number - 1) & 1;
    signal(number, ignored ? SIG_IGN : SIG_DFL);
  }
  sigprocmask(SIG_SETMASK, &blocked, nullptr);
}

/// Runs main() as the request says.
[[noreturn]] void runCopy(int connection) {
  int descriptors[kDescriptors];
  Header header = receive(connection, descriptors);
  static std::string data; // lives as long as the arguments
  data.resize(header.size);
  if (recv(connection, data.data(), data.size(), MSG_WAITALL) != ssize_t(data.size()))
    give_up();
  static std::vector<char *> words, variables;
  char *next = data.data();
  for (uint32_t i = 0; i < header.words; ++i, next += strlen(next) + 1)
    words.push_back(next);
  for (uint32_t i = 0; i < header.variables; ++i, next += strlen(next) + 1)
    variables.push_back(next);
  words.push_back(nullptr);
  variables.push_back(nullptr);
  takeLimits(connection);
  umask(header.mask);
  takeDescriptors(header, descriptors);
  takeSignals(header);
  environ = variables.data();
  exit(tool(int(header.words), words.data(), environ));
}

/// Answers the connections of the copies that have ended.
void answer(std::map<pid_t, int> &copies) {
  int status;
  for (pid_t ended; (ended = waitpid(-1, &status, WNOHANG)) > 0;)
    if (auto copy = copies.find(ended); copy != copies.end()) {
      send(copy->second, &status, sizeof status, MSG_NOSIGNAL);
      close(copy->second);
      copies.erase(copy);
    }
}

int serve(int, char **, char **) {
  const char *text = getenv("SHALE_STARTS_OWNER");
  pid_t owner = text ? atoi(text) : 0;
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGCHLD);
  sigprocmask(SIG_BLOCK, &ends, nullptr);
  int ended = signalfd(-1, &ends, SFD_CLOEXEC);
  std::map<pid_t, int> copies;
  while (owner > 0 && kill(owner, 0) == 0) {
    std::vector<pollfd> events = {{kListening, POLLIN, 0}, {ended, POLLIN, 0}};
    std::vector<pid_t> owners;
    for (auto [copy, connection] : copies) {
      events.push_back({connection, POLLRDHUP, 0});
      owners.push_back(copy);
    }
    if (poll(events.data(), events.size(), kPatience) < 0 && errno != EINTR)
      return 1;
    signalfd_siginfo one;
    if (events[1].revents && read(ended, &one, sizeof one) == sizeof one)
      answer(copies);
    for (size_t i = 0; i < owners.size(); ++i)
      if (events[i + 2].revents && copies.count(owners[i])) // it may have ended since
        kill(owners[i], SIGKILL);
    if (!events[0].revents)
      continue;
    int connection = accept4(kListening, nullptr, nullptr, SOCK_CLOEXEC);
    pid_t copy = connection < 0 ? -1 : fork();
    if (copy == 0)
      runCopy(connection);
    if (copy > 0) {
      send(connection, &copy, sizeof copy, MSG_NOSIGNAL);
      copies[copy] = connection;
    } else {
      close(connection);
    }
  }
  return 0;
}

} // namespace

/// Replaces the function of glibc that runs constructors and then main(): main() is kept in `tool`,
/// and serve() runs in its place.
extern "C" int __libc_start_main(Main main, int count, char **words, void (*init)(), void (*fini)(),
                                 void (*rtld)(), void *stack) {
  using Start = int (*)(Main, int, char **, void (*)(), void (*)(), void (*)(), void *);
  tool = main;
  return reinterpret_cast<Start>(dlsym(RTLD_NEXT, "__libc_start_main"))(serve, count, words, init,
                                                                        fini, rtld, stack);
}
