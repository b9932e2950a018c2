// The secret of a run, and the proof of knowing it. Each connection between ranks begins with this
// exchange, in which the acceptor reveals nothing to a dialer that has not proved the secret:
//
//   acceptor   Challenge  a random number
//   dialer     Response   its rank, the acceptor's rank, the number of ranks, another
//                         random number, and an HMAC-SHA256 of all of these
//   acceptor   Verdict    accepted or refused; if accepted, an HMAC-SHA256 of the same
//
// The two codes begin with different words, so neither answers for the other, and the random
// numbers make a recorded exchange useless.
#ifndef SHALE_RUNTIME_COMM_MESH_SECRET_H
#define SHALE_RUNTIME_COMM_MESH_SECRET_H

#include <array>
#include <cstdint>
#include <string>

namespace shale::rt {

using Bytes32 = std::array<uint8_t, 32>;

/// Random bytes of the kernel.
Bytes32 randomBytes();
std::string hex(const uint8_t *bytes, size_t count);

/// The key of a run, derived from the secret that its ranks share and the name of the run.
class Secret {
public:
  Secret(const std::string &token, const std::string &run);
  /// Returns the HMAC-SHA256 of `word` and `bytes` bytes of data.
  Bytes32 codeOf(const char *word, const void *data, size_t bytes) const;

private:
  Bytes32 key;
};

/// Returns the token of the environment: SHALE_TOKEN, or the text of the file SHALE_TOKEN_FILE.
/// Removes SHALE_TOKEN from the environment. Empty if neither is set. Fails with exit code 64 if
/// the token is shorter than 16 characters, or if others than the owner can read the file.
std::string takeToken();

// The messages, as they are sent. All fields are bytes or little-endian numbers.
struct Challenge {
  char magic[8];
  Bytes32 random;
};
struct Response {
  char magic[8];
  uint32_t from, to, ranks, reserved;
  Bytes32 random;
  Bytes32 code;
};
enum class Answer : uint32_t { Accepted = 0, NoProof = 1, OtherRanks = 2, NotExpected = 3 };
struct Verdict {
  Answer answer;
  uint32_t reserved;
  Bytes32 code; // zero if refused
};

/// Both ends of a connection.
struct Ends {
  int from, to, ranks;
};

Challenge makeChallenge();
/// Whether a message is a challenge of a rank.
bool isChallenge(const Challenge &challenge);
Response respond(const Secret &secret, const Challenge &challenge, const Ends &ends);
/// The acceptor's answer to a response. `self` is its rank. Whether the rank `from` is expected is
/// the caller's to decide.
Answer judge(const Secret &secret, const Challenge &challenge, const Response &response, int self,
             int ranks);
Verdict makeVerdict(const Secret &secret, const Challenge &challenge, const Response &response,
                    Answer answer);
/// Whether the acceptor's code is right.
bool proves(const Secret &secret, const Challenge &challenge, const Response &response,
            const Verdict &verdict);

} // namespace shale::rt

#endif
