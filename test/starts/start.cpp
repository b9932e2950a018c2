// Stands for a tool of the build while a test runs: tests start tools some thousands of times, and
// 35 of the 40 milliseconds of a start go to relocations and constructors of LLVM and MLIR.
//
// usage: by the name of the tool, found in the PATH
//
// A server (server.cpp) is the tool itself, stopped before main(); this program asks it for a copy
// with its own arguments, environment, limits, working directory and open files, passes signals on,
// and ends as the copy does: with its exit code, or by its signal. The first start of a test starts
// the server (SHALE_STARTS is the folder of the sockets; test/times/measure.cpp makes it, and ends
// the servers).
//
// Starts the tool itself, if there is no such folder, or if a variable is set that works before
// main(), such as LD_PRELOAD.
#include "request.h"
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <functional>
#include <string>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

namespace {

volatile pid_t copy = 0;

void passOn(int signal) { kill(copy, signal); }

/// Writes the signals that are blocked and ignored to a header.
void describeSignals(Header &header) {
  sigset_t blocked;
  sigprocmask(SIG_SETMASK, nullptr, &blocked);
  for (int number = 1; number <= 64; ++number) {
    struct sigaction action = {};
    sigaction(number, nullptr, &action);
    header.blocked |= uint64_t(sigismember(&blocked, number) == 1) << (number - 1);
    header.ignored |= uint64_t(action.sa_handler == SIG_IGN) << (number - 1);
  }
}

/// Waits for the copy's number; false if there is no copy, because the tool does not load.
bool awaitCopy(int connection) {
  pid_t number = 0;
  bool isThere = recv(connection, &number, sizeof number, MSG_WAITALL) == sizeof number;
  copy = number;
  return isThere;
}

/// Passes signals on until the copy ends; false if the server is gone.
bool follow(int connection, int &status) {
  for (int number : {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2}) {
    struct sigaction action = {};
    action.sa_handler = passOn;
    action.sa_flags = SA_RESTART;
    sigaction(number, &action, nullptr);
  }
  return recv(connection, &status, sizeof status, MSG_WAITALL) == sizeof status;
}

bool worksBeforeMain(const char *variable) {
  for (const char *start : {"LD_", "MALLOC_", "GLIBC_TUNABLES="})
    if (strncmp(variable, start, strlen(start)) == 0)
      return true;
  return false;
}

/// The name of the server of a tool. Sanitizers read their options before main(), so tools with
/// other options have another server.
std::string nameOfServer(const char *tool) {
  std::string options;
  for (const char *name : {"ASAN_OPTIONS", "LSAN_OPTIONS", "UBSAN_OPTIONS"})
    if (const char *value = getenv(name))
      options += std::string(name) + "=" + value + ";";
  return tool + (options.empty() ? "" : "-" + std::to_string(std::hash<std::string>()(options)));
}

/// Writes the open descriptors to a header; false if a copy of a server could not be told from a
/// process of its own.
bool describe(Header &header) {
  for (char **variable = environ; *variable; ++variable)
    if (worksBeforeMain(*variable))
      return false;
  DIR *open = opendir("/proc/self/fd");
  if (!open)
    return false;
  bool fits = true;
  while (dirent *entry = readdir(open)) {
    int number = atoi(entry->d_name);
    if (entry->d_name[0] == '.' || number == dirfd(open))
      continue;
    fits &= header.count < kDescriptors - 1 && number < kDescriptorEnd;
    if (fits)
      header.numbers[header.count++] = number;
  }
  closedir(open);
  return fits;
}

/// Starts a server of `tool` at a listening socket, and writes its process number to PLACE.pid.
void startServer(const std::string &tool, const std::string &place, int listening) {
  pid_t server = fork();
  if (server == 0) {
    int nothing = open("/dev/null", O_RDWR);
    for (int stream = 0; stream < 3; ++stream)
      dup2(nothing, stream);
    dup2(listening, kListening);
    fcntl(kListening, F_SETFD, 0);
    close_range(kListening + 1, ~0U, 0);
    setenv("LD_PRELOAD", SHALE_SERVER, 1);
    execl(tool.c_str(), tool.c_str(), nullptr);
    _exit(127);
  }
  if (FILE *file = fopen((place + ".pid").c_str(), "w")) {
    fprintf(file, "%d\n", server);
    fclose(file);
  }
}

/// A connection to the server of a tool, which is started first if there is none; negative if that
/// fails.
int connectTo(const std::string &tool, const std::string &place) {
  sockaddr_un address = {AF_UNIX, {}};
  if (place.size() >= sizeof address.sun_path)
    return -1;
  strcpy(address.sun_path, place.c_str());
  auto *at = reinterpret_cast<sockaddr *>(&address);
  int listening = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (bind(listening, at, sizeof address) == 0 && listen(listening, 64) == 0)
    startServer(tool, place, listening);
  close(listening);
  int connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  for (int tries = 0; tries < 100; ++tries) {
    if (connect(connection, at, sizeof address) == 0)
      return connection;
    usleep(1000); // another start has bound the socket and does not listen yet
  }
  return -1;
}

bool sendAll(int connection, const char *data, size_t size) {
  for (ssize_t sent; size; data += sent, size -= sent)
    if ((sent = send(connection, data, size, MSG_NOSIGNAL)) <= 0)
      return false;
  return true;
}

/// Sends the request; false if the server is gone.
bool ask(int connection, Header &header, char **words) {
  std::string data;
  for (char **word = words; *word; ++word, ++header.words)
    data.append(*word, strlen(*word) + 1);
  for (char **variable = environ; *variable; ++variable, ++header.variables)
    data.append(*variable, strlen(*variable) + 1);
  header.size = data.size();
  umask(header.mask = umask(0));
  describeSignals(header);
  int sent[kDescriptors];
  memcpy(sent, header.numbers, sizeof sent);
  sent[header.count] = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
  size_t bytes = (header.count + 1) * sizeof *sent;
  iovec part = {&header, sizeof header};
  alignas(cmsghdr) char space[CMSG_SPACE(sizeof sent)] = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = space;
  message.msg_controllen = CMSG_SPACE(bytes);
  cmsghdr *rights = CMSG_FIRSTHDR(&message);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(bytes);
  memcpy(CMSG_DATA(rights), sent, bytes);
  return sent[header.count] >= 0 && sendmsg(connection, &message, MSG_NOSIGNAL) == sizeof header &&
         sendAll(connection, data.data(), data.size());
}

} // namespace

int main(int, char **words) {
  const char *name = strrchr(words[0], '/');
  name = name ? name + 1 : words[0];
  std::string tool = SHALE_TOOLS + std::string("/") + name;
  const char *folder = getenv("SHALE_STARTS");
  Header header = {};
  int connection = folder && describe(header)
                       ? connectTo(tool, folder + std::string("/") + nameOfServer(name))
                       : -1;
  if (connection < 0 || !ask(connection, header, words) || !awaitCopy(connection)) {
    execv(tool.c_str(), words);
    perror(tool.c_str());
    return 127;
  }
  int status = 0;
  if (!follow(connection, status)) {
    fprintf(stderr, "%s: its server has ended\n", name);
    return 127;
  }
  if (WIFSIGNALED(status)) {
    signal(WTERMSIG(status), SIG_DFL);
    raise(WTERMSIG(status));
  }
  return WEXITSTATUS(status);
}
