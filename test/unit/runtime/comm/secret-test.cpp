// The proof of the secret, and where the secret comes from.
#include "runtime/comm/mesh/Secret.h"
#include "runtime/core/Error.h"

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace shale::rt;

namespace {
const Secret ours("a token of a good length", "run");
const Ends ends{3, 1, 4};

Answer answerTo(const Challenge &challenge, const Response &response) {
  return judge(ours, challenge, response, 1, 4);
}

int codeOf(const std::function<void()> &body) {
  try {
    body();
  } catch (const Error &error) {
    return error.code;
  }
  return 0;
}
} // namespace

TEST(Secret, BothEndsProveIt) {
  Challenge challenge = makeChallenge();
  EXPECT_TRUE(isChallenge(challenge));
  Response response = respond(ours, challenge, ends);
  EXPECT_EQ(answerTo(challenge, response), Answer::Accepted);
  Verdict verdict = makeVerdict(ours, challenge, response, Answer::Accepted);
  EXPECT_TRUE(proves(ours, challenge, response, verdict));
  // The same token proves nothing to another run, and another token nothing to this one.
  for (const Secret &other : {Secret("a token of a good length", "other run"),
                              Secret("another token of a good length", "run")}) {
    EXPECT_EQ(answerTo(challenge, respond(other, challenge, ends)), Answer::NoProof);
    EXPECT_FALSE(proves(ours, challenge, response,
                        makeVerdict(other, challenge, response, Answer::Accepted)));
  }
}

TEST(Secret, ARecordedExchangeProvesNothing) {
  Challenge first = makeChallenge(), second = makeChallenge();
  Response recorded = respond(ours, first, ends);
  Verdict answer = makeVerdict(ours, first, recorded, Answer::Accepted);
  EXPECT_EQ(answerTo(second, recorded), Answer::NoProof);
  // A dialer that repeats itself to an acceptor that repeats itself would be answered alike; its
  // own random number differs.
  EXPECT_FALSE(proves(ours, first, respond(ours, first, ends), answer));
}

TEST(Secret, AReflectedCodeProvesNothing) {
  // What the acceptor computes is not what a dialer has to send, nor the other way round.
  Challenge challenge = makeChallenge();
  Response response = respond(ours, challenge, ends);
  Verdict verdict = makeVerdict(ours, challenge, response, Answer::Accepted);
  Response reflected = response;
  reflected.code = verdict.code;
  EXPECT_EQ(answerTo(challenge, reflected), Answer::NoProof);
  verdict.code = response.code;
  EXPECT_FALSE(proves(ours, challenge, response, verdict));
}

TEST(Secret, EveryFieldIsCovered) {
  Challenge challenge = makeChallenge();
  const Response right = respond(ours, challenge, ends);
  for (size_t bit = 0; bit < 8 * sizeof(Response); ++bit) {
    Response changed = right;
    reinterpret_cast<uint8_t *>(&changed)[bit / 8] ^= 1 << bit % 8;
    ASSERT_EQ(answerTo(challenge, changed), Answer::NoProof) << bit;
  }
  EXPECT_EQ(makeVerdict(ours, challenge, right, Answer::NoProof).code, Bytes32{});
}

TEST(Secret, RanksMustFit) {
  Challenge challenge = makeChallenge();
  auto answer = [&](Ends other) { return answerTo(challenge, respond(ours, challenge, other)); };
  EXPECT_EQ(answer({3, 1, 5}), Answer::OtherRanks);
  EXPECT_EQ(answer({3, 2, 4}), Answer::NotExpected);
  EXPECT_EQ(answer({1, 1, 4}), Answer::NotExpected);
  EXPECT_EQ(answer({4, 1, 4}), Answer::NotExpected);
  EXPECT_EQ(answer({-1, 1, 4}), Answer::NotExpected);
}

TEST(Secret, TheTokenIsTakenFromTheEnvironment) {
  unsetenv("SHALE_TOKEN_FILE");
  unsetenv("SHALE_TOKEN");
  EXPECT_EQ(takeToken(), "");
  setenv("SHALE_TOKEN", "0123456789abcdef", 1);
  const char *place = getenv("SHALE_TOKEN");
  EXPECT_EQ(takeToken(), "0123456789abcdef");
  EXPECT_EQ(getenv("SHALE_TOKEN"), nullptr);
  EXPECT_EQ(place[0], 0); // its memory is cleared
  setenv("SHALE_TOKEN", "0123456789abcde", 1);
  EXPECT_EQ(codeOf(takeToken), SHALE_EXIT_USAGE);
}

TEST(Secret, TheFileOfTheTokenIsPrivate) {
  char path[] = "/tmp/shale-token-XXXXXX";
  close(mkstemp(path));
  std::ofstream(path) << "0123456789abcdef0123\n";
  setenv("SHALE_TOKEN_FILE", path, 1);
  EXPECT_EQ(takeToken(), "0123456789abcdef0123");
  for (mode_t mode : {0640, 0604, 0620}) {
    chmod(path, mode);
    EXPECT_EQ(codeOf(takeToken), SHALE_EXIT_USAGE) << mode;
  }
  chmod(path, 0600);
  std::ofstream(path) << std::string(5000, 'x');
  EXPECT_EQ(codeOf(takeToken), SHALE_EXIT_USAGE);
  unlink(path);
  EXPECT_EQ(codeOf(takeToken), SHALE_EXIT_USAGE);
  ASSERT_EQ(mkfifo(path, 0600), 0);
  EXPECT_EQ(codeOf(takeToken), SHALE_EXIT_USAGE); // and does not wait for a writer
  unlink(path);
  unsetenv("SHALE_TOKEN_FILE");
}
