// Runs a test of ctest, and writes the processor time that it and its children took.
//
// usage: shale-measure FOLDER NAME COMMAND...
//
// If there is FOLDER, FOLDER/NAME gets one line: seconds of user time and of system time, of all
// processes that the test waited for. About once in kPeriod seconds the reference is timed, too, a
// fixed compilation that belongs to no test: one more line of FOLDER/reference. tools/scripts/times
// makes the folder and reads it.
//
// Tests of the tools get servers that make their starts cheap (test/starts), which end with
// COMMAND.
//
// Threads of COMMAND sleep while they wait, unless the environment says otherwise: ctest runs two
// tests at a time, and threads that spin for each other take up to twenty times the processor time
// of the work. Results do not depend on that.
//
// Ends as COMMAND does: with its exit code, or by its signal.
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <dirent.h>
#include <fcntl.h>
#include <string>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

constexpr int kPeriod = 30;
constexpr int kDoesNotStart = 127;

/// Starts a command; its standard streams are those of this process.
pid_t start(char **command) {
  pid_t child = fork();
  if (child == 0) {
    execvp(command[0], command);
    perror(command[0]);
    _exit(kDoesNotStart);
  }
  return child;
}

/// Waits for `child`. Children of it that it left behind end as zombies of this process, whose time
/// counts once they are waited for. Returns the status of `child`.
int waitFor(pid_t child) {
  int status = 0, other;
  for (pid_t ended; (ended = waitpid(-1, &status, 0)) != child;)
    if (ended < 0 && errno != EINTR)
      return kDoesNotStart << 8;
  while (waitpid(-1, &other, WNOHANG) > 0)
    ;
  return status;
}

/// Makes the folder of servers of a test; empty if that fails, and tools start by themselves.
std::string makeStarts() {
  char folder[] = "/tmp/shale-starts-XXXXXX";
  if (!mkdtemp(folder))
    return "";
  setenv("SHALE_STARTS", folder, 1);
  setenv("SHALE_STARTS_OWNER", std::to_string(getpid()).c_str(), 1);
  return folder;
}

/// Ends the servers of a folder, so that their time counts, and removes it.
void endStarts(const std::string &folder) {
  DIR *entries = opendir(folder.c_str());
  while (dirent *entry = entries ? readdir(entries) : nullptr) {
    std::string path = folder + "/" + entry->d_name;
    if (path.size() > 4 && path.compare(path.size() - 4, 4, ".pid") == 0)
      if (FILE *file = fopen(path.c_str(), "r")) {
        int server = 0;
        if (fscanf(file, "%d", &server) == 1 && server > 1 && kill(server, SIGKILL) == 0)
          waitpid(server, nullptr, 0);
        fclose(file);
      }
    unlink(path.c_str());
  }
  if (entries)
    closedir(entries);
  rmdir(folder.c_str());
}

double seconds(const timeval &time) { return time.tv_sec + time.tv_usec * 1e-6; }

/// Times the reference, unless that was done less than kPeriod seconds ago.
void timeReference(const std::string &folder) {
  int file = open((folder + "/reference").c_str(), O_CREAT | O_RDWR | O_APPEND | O_CLOEXEC, 0644);
  struct stat known;
  if (file < 0 || flock(file, LOCK_EX | LOCK_NB) != 0 || fstat(file, &known) != 0 ||
      (known.st_size > 0 && time(nullptr) - known.st_mtime < kPeriod)) {
    close(file);
    return;
  }
  char *command[] = {const_cast<char *>(SHALE_REFERENCE_COMPILER),
                     const_cast<char *>("-O2"),
                     const_cast<char *>("-c"),
                     const_cast<char *>("-o"),
                     const_cast<char *>("/dev/null"),
                     const_cast<char *>(SHALE_REFERENCE),
                     nullptr};
  rusage before, after;
  getrusage(RUSAGE_CHILDREN, &before);
  int status = waitFor(start(command));
  getrusage(RUSAGE_CHILDREN, &after);
  if (status == 0)
    dprintf(file, "%.3f %.3f\n", seconds(after.ru_utime) - seconds(before.ru_utime),
            seconds(after.ru_stime) - seconds(before.ru_stime));
  close(file);
}

} // namespace

int main(int count, char **words) {
  if (count < 4) {
    fprintf(stderr, "usage: shale-measure FOLDER NAME COMMAND...\n");
    return 64;
  }
  setenv("OMP_WAIT_POLICY", "passive", 0); // of programs
  setenv("OPENBLAS_NUM_THREADS", "1", 0);  // of numpy
  std::string folder = words[1];
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  std::string starts = makeStarts();
  int status = waitFor(start(words + 3));
  if (!starts.empty())
    endStarts(starts);
  rusage used;
  getrusage(RUSAGE_CHILDREN, &used);
  if (FILE *file = fopen((folder + "/" + words[2]).c_str(), "w")) {
    fprintf(file, "%.3f %.3f\n", seconds(used.ru_utime), seconds(used.ru_stime));
    fclose(file);
    timeReference(folder);
  }
  if (WIFSIGNALED(status)) {
    signal(WTERMSIG(status), SIG_DFL);
    raise(WTERMSIG(status));
  }
  return WEXITSTATUS(status);
}
