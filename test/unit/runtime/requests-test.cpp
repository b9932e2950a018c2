// What signals mean, by signal, time and sender.
#include "runtime/program/launch/Requests.h"

#include <gtest/gtest.h>
#include <vector>

using namespace shale::rt;

namespace {
std::vector<Meaning> meanings(const std::vector<Received> &signals) {
  Requests requests;
  std::vector<Meaning> all;
  for (const Received &one : signals)
    all.push_back(requests.take(one));
  return all;
}

using All = std::vector<Meaning>;
constexpr auto Request = Meaning::Request, Same = Meaning::Same, EndNow = Meaning::EndNow;
constexpr auto Terminal = Sender::Terminal, Parent = Sender::Parent, Other = Sender::Other;

TEST(Requests, CopiesOfOneRequestAreOne) {
  // systemd, slurmstepd or kill -- -PGID, and a launcher that forwards, in any order.
  EXPECT_EQ(meanings({{SIGTERM, 0, Other}, {SIGTERM, 3, Parent}}), (All{Request, Same}));
  EXPECT_EQ(meanings({{SIGTERM, 0, Parent}, {SIGTERM, 3, Other}}), (All{Request, Same}));
  // However late the launcher is.
  EXPECT_EQ(meanings({{SIGTERM, 0, Other}, {SIGTERM, 60000, Parent}}), (All{Request, Same}));
  EXPECT_EQ(meanings({{SIGINT, 0, Terminal}, {SIGINT, 9000, Parent}}), (All{Request, Same}));
  // timeout(1) signals its child, and then its group; Slurm signals a step twice when a job ends.
  EXPECT_EQ(meanings({{SIGTERM, 0, Parent}, {SIGTERM, 1, Parent}, {SIGTERM, 1999, Parent}}),
            (All{Request, Same, Same}));
  // systemd with SendSIGHUP=, and a terminal that is closed.
  EXPECT_EQ(meanings({{SIGTERM, 0, Other}, {SIGHUP, 1, Other}}), (All{Request, Same}));
  EXPECT_EQ(meanings({{SIGHUP, 0, Terminal}, {SIGHUP, 5, Terminal}, {SIGHUP, 6, Parent}}),
            (All{Request, Same, Same}));
}

TEST(Requests, ASecondRequestEndsTheRunAtOnce) {
  EXPECT_EQ(meanings({{SIGTERM, 0, Other}, {SIGTERM, 2000, Other}}), (All{Request, EndNow}));
  EXPECT_EQ(meanings({{SIGTERM, 0, Parent}, {SIGTERM, 2000, Parent}}), (All{Request, EndNow}));
  EXPECT_EQ(meanings({{SIGTERM, 0, Other}, {SIGTERM, 5, Parent}, {SIGTERM, 5000, Parent}}),
            (All{Request, Same, EndNow}));
  // Another signal later is another request, also if it is the first one of its sender.
  EXPECT_EQ(meanings({{SIGUSR1, 0, Other}, {SIGTERM, 60000, Parent}}), (All{Request, EndNow}));
}

// A terminal sends SIGINT once per key, so two are two, however fast they come.
TEST(Requests, ASecondKeyEndsTheRunAtOnce) {
  EXPECT_EQ(meanings({{SIGINT, 0, Terminal}, {SIGINT, 1, Terminal}}), (All{Request, EndNow}));
  // torchrun and its ranks are in one group: each key comes from the terminal and from torchrun.
  EXPECT_EQ(meanings({{SIGINT, 0, Terminal},
                      {SIGINT, 1, Parent},
                      {SIGINT, 700, Terminal},
                      {SIGINT, 701, Parent}}),
            (All{Request, Same, EndNow, Same}));
  EXPECT_EQ(meanings({{SIGTERM, 0, Other}, {SIGINT, 100, Terminal}, {SIGINT, 3000, Terminal}}),
            (All{Request, Same, EndNow}));
}

TEST(Requests, TheLaunchersDecisionHolds) {
  EXPECT_EQ(meanings({{SIGINT, 0, Parent}, {SIGINT, 1, Sender::Launcher}}), (All{Request, EndNow}));
  EXPECT_EQ(meanings({{SIGINT, 0, Sender::Launcher}}), (All{EndNow}));
}

TEST(Requests, SendersAreTold) {
  siginfo_t info{};
  info.si_code = SI_KERNEL;
  EXPECT_EQ(senderOf(info, 17), Terminal);
  info.si_code = SI_USER;
  info.si_pid = 17;
  EXPECT_EQ(senderOf(info, 17), Parent);
  EXPECT_EQ(senderOf(info, 18), Other);
  info.si_code = SI_QUEUE;
  info.si_value.sival_int = kEndNow;
  EXPECT_EQ(senderOf(info, 17), Sender::Launcher);
  EXPECT_EQ(senderOf(info, 18), Other) << "only the parent decides for a rank";
  info.si_value.sival_int = 1;
  EXPECT_EQ(senderOf(info, 17), Parent);
}
} // namespace
