// The secret of a run, and the proof of knowing it.
#include "runtime/comm/mesh/Secret.h"
#include "runtime/core/Error.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sodium/crypto_auth_hmacsha256.h>
#include <sodium/crypto_verify_32.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

namespace shale::rt {

static_assert(sizeof(Challenge) == 40 && sizeof(Response) == 88 && sizeof(Verdict) == 40,
              "messages have no padding");

// The last character is the version of what ranks send each other.
constexpr char magic[8] = {'S', 'H', 'A', 'L', 'E', '\r', '\n', 1};
constexpr size_t shortestToken = 16, longestToken = 4096;

Bytes32 randomBytes() {
  Bytes32 bytes;
  // getrandom returns up to 256 bytes at once, and is not interrupted for so few.
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    fail(SHALE_EXIT_INTERNAL, "the system has no random numbers: %s", strerror(errno));
  return bytes;
}

std::string hex(const uint8_t *bytes, size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i)
    text += format("%02x", bytes[i]);
  return text;
}

Secret::Secret(const std::string &token, const std::string &run) {
  crypto_auth_hmacsha256_state state;
  crypto_auth_hmacsha256_init(&state, reinterpret_cast<const uint8_t *>(token.data()),
                              token.size());
  crypto_auth_hmacsha256_update(&state, reinterpret_cast<const uint8_t *>(run.data()), run.size());
  crypto_auth_hmacsha256_final(&state, key.data());
}

Bytes32 Secret::codeOf(const char *word, const void *data, size_t bytes) const {
  crypto_auth_hmacsha256_state state;
  Bytes32 code;
  crypto_auth_hmacsha256_init(&state, key.data(), key.size());
  crypto_auth_hmacsha256_update(&state, reinterpret_cast<const uint8_t *>(word), strlen(word) + 1);
  crypto_auth_hmacsha256_update(&state, static_cast<const uint8_t *>(data), bytes);
  crypto_auth_hmacsha256_final(&state, code.data());
  return code;
}

/// Returns the text of a file that only its owner can read.
static std::string readToken(const char *path) {
  // Without blocking: the path may be a FIFO.
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat status{};
  if (fd < 0 || fstat(fd, &status) != 0)
    fail(SHALE_EXIT_USAGE, "cannot read SHALE_TOKEN_FILE '%s': %s", path, strerror(errno));
  std::string wrong, text(longestToken + 1, '\0');
  if (!S_ISREG(status.st_mode))
    wrong = "it is not a file";
  else if ((status.st_mode & 077) != 0)
    wrong = format("its mode is %04o, so others can read or change it; use chmod 600",
                   status.st_mode & 07777);
  else if (status.st_uid != geteuid() && status.st_uid != 0)
    wrong = "it belongs to another user";
  ssize_t n = wrong.empty() ? read(fd, text.data(), text.size()) : 0;
  if (n < 0)
    wrong = strerror(errno);
  else if (n > static_cast<ssize_t>(longestToken))
    wrong = format("it is longer than %zu bytes", longestToken);
  close(fd);
  if (!wrong.empty())
    fail(SHALE_EXIT_USAGE, "SHALE_TOKEN_FILE '%s': %s", path, wrong.c_str());
  text.resize(n);
  text.erase(text.find_last_not_of(" \t\r\n") + 1);
  return text;
}

std::string takeToken() {
  const char *path = std::getenv("SHALE_TOKEN_FILE");
  std::string token;
  if (char *given = std::getenv("SHALE_TOKEN"); given && *given) {
    token = given;
    // /proc/PID/environ shows the memory that the variable was in.
    explicit_bzero(given, token.size());
    unsetenv("SHALE_TOKEN");
  } else if (path && *path) {
    token = readToken(path);
  } else {
    return "";
  }
  if (token.size() < shortestToken || token.size() > longestToken)
    fail(SHALE_EXIT_USAGE,
         "the token of SHALE_TOKEN or SHALE_TOKEN_FILE has %zu characters; it takes %zu to %zu. "
         "To make one: export SHALE_TOKEN=$(head -c 32 /dev/urandom | base64)",
         token.size(), shortestToken, longestToken);
  return token;
}

Challenge makeChallenge() {
  Challenge challenge;
  memcpy(challenge.magic, magic, sizeof(magic));
  challenge.random = randomBytes();
  return challenge;
}

bool isChallenge(const Challenge &challenge) {
  return memcmp(challenge.magic, magic, sizeof(magic)) == 0;
}

/// The code of the acceptor or the dialer over everything that both have said.
static Bytes32 codeOver(const Secret &secret, const char *word, const Challenge &challenge,
                        const Response &response) {
  char said[sizeof(Challenge) + sizeof(Response) - sizeof(Bytes32)];
  memcpy(said, &challenge, sizeof(challenge));
  memcpy(said + sizeof(challenge), &response, sizeof(Response) - sizeof(Bytes32));
  return secret.codeOf(word, said, sizeof(said));
}

Response respond(const Secret &secret, const Challenge &challenge, const Ends &ends) {
  Response response{};
  memcpy(response.magic, magic, sizeof(magic));
  response.from = ends.from;
  response.to = ends.to;
  response.ranks = ends.ranks;
  response.random = randomBytes();
  response.code = codeOver(secret, "dial", challenge, response);
  return response;
}

Answer judge(const Secret &secret, const Challenge &challenge, const Response &response, int self,
             int ranks) {
  Bytes32 code = codeOver(secret, "dial", challenge, response);
  if (memcmp(response.magic, magic, sizeof(magic)) != 0 ||
      crypto_verify_32(code.data(), response.code.data()) != 0)
    return Answer::NoProof;
  if (response.ranks != static_cast<uint32_t>(ranks))
    return Answer::OtherRanks;
  if (response.to != static_cast<uint32_t>(self) || response.from >= response.ranks ||
      response.from == response.to)
    return Answer::NotExpected;
  return Answer::Accepted;
}

Verdict makeVerdict(const Secret &secret, const Challenge &challenge, const Response &response,
                    Answer answer) {
  Verdict verdict{};
  verdict.answer = answer;
  if (answer == Answer::Accepted)
    verdict.code = codeOver(secret, "accept", challenge, response);
  return verdict;
}

bool proves(const Secret &secret, const Challenge &challenge, const Response &response,
            const Verdict &verdict) {
  Bytes32 code = codeOver(secret, "accept", challenge, response);
  return crypto_verify_32(code.data(), verdict.code.data()) == 0;
}

} // namespace shale::rt
