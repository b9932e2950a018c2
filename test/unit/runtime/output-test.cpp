// Standard output whose reader stalls.
#include "runtime/core/Output.h"

#include <csignal>
#include <cstdio>
#include <gtest/gtest.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

using namespace shale::rt;

namespace {

/// Runs `body` in a process of its own, with a pipe as output. Returns its exit code and what the
/// pipe has, which is read only once the process has written to `ready`, or has ended.
template <typename Body> std::pair<int, std::string> readLate(const Body &body) {
  int output[2], ready[2];
  if (pipe(output) != 0 || pipe(ready) != 0)
    return {-1, ""};
  pid_t pid = fork();
  if (pid == 0) {
    close(output[0]);
    dup2(output[1], STDOUT_FILENO);
    close(output[1]);
    alarm(60);
    startOutput();
    _exit(body(ready[1]));
  }
  close(output[1]);
  close(ready[1]);
  char one;
  (void)!read(ready[0], &one, 1);
  std::string text;
  char part[4096];
  for (ssize_t n; (n = read(output[0], part, sizeof(part))) > 0;)
    text.append(part, n);
  int status = 0;
  waitpid(pid, &status, 0);
  close(output[0]);
  close(ready[0]);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status), text};
}

std::string lines(int from, int to) {
  std::string text;
  char line[32];
  for (int i = from; i < to; ++i) {
    snprintf(line, sizeof(line), "line %06d of text\n", i);
    text += line;
  }
  return text;
}

void print(int from, int to) {
  fputs(lines(from, to).c_str(), stdout);
  fflush(stdout);
}

TEST(Output, PrintingDoesNotWaitForTheReader) {
  // More than a pipe takes, and less than what is kept.
  auto [code, text] = readLate([](int ready) {
    for (int i = 0; i < 10000; i += 100)
      print(i, i + 100);
    (void)!write(ready, "", 1);
    flushOutput(std::nullopt);
    return 0;
  });
  EXPECT_EQ(code, 0);
  EXPECT_EQ(text, lines(0, 10000));
}

TEST(Output, WhatIsLeftOutIsSaid) {
  auto [code, text] = readLate([](int ready) {
    for (int i = 0; i < 100000; i += 10)
      print(i, i + 10);
    (void)!write(ready, "", 1);
    flushOutput(std::nullopt);
    return 0;
  });
  EXPECT_EQ(code, 0);
  size_t said = text.rfind('[');
  ASSERT_NE(said, std::string::npos);
  std::string kept = text.substr(0, said);
  EXPECT_EQ(kept, lines(0, 100000).substr(0, kept.size()));
  EXPECT_GT(kept.size(), size_t(250000));
  EXPECT_EQ(text.substr(said), "[" + std::to_string(lines(0, 100000).size() - kept.size()) +
                                   " bytes of output were left out, since nothing read them]\n");
}

TEST(Output, TheEndWaitsAsLongAsItIsTold) {
  auto [code, text] = readLate([](int) {
    print(0, 10000);
    flushOutput(1);
    return 7;
  });
  EXPECT_EQ(code, 7);
  EXPECT_EQ(text, lines(0, 10000).substr(0, text.size()));
  EXPECT_LT(text.size(), lines(0, 10000).size());
}

TEST(Output, AReaderThatIsGoneStopsNothing) {
  int output[2];
  ASSERT_EQ(pipe(output), 0);
  pid_t pid = fork();
  if (pid == 0) {
    close(output[0]);
    dup2(output[1], STDOUT_FILENO);
    alarm(60);
    signal(SIGPIPE, SIG_IGN);
    startOutput();
    print(0, 10000);
    flushOutput(std::nullopt);
    _exit(0);
  }
  close(output[0]);
  close(output[1]);
  int status = 0;
  waitpid(pid, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

} // namespace
