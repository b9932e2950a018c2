// The protocol between the program that stands for a tool (start.cpp) and its server (server.cpp).
//
// A request is a Header, which comes with the open file descriptors and that of the working
// directory (SCM_RIGHTS), and `size` bytes: `words` arguments and then `variables` variables of the
// environment, each with a NUL at its end. The answer is two numbers (int): first the number of the
// process, then its status as waitpid() gives it. Both processes run on one machine, for one user.
#ifndef SHALE_TEST_STARTS_REQUEST_H
#define SHALE_TEST_STARTS_REQUEST_H

#include <cstdint>

constexpr int kDescriptors = 32;    // at most in a request
constexpr int kDescriptorEnd = 512; // all their numbers are below it

struct Header {
  uint64_t size;
  uint32_t words, variables, mask; // umask
  uint64_t blocked, ignored;       // signals: bit i is signal i + 1
  uint32_t count;
  int numbers[kDescriptors]; // of `count` descriptors; the one that comes after them is the
                             // folder's
};

/// The descriptor at which a server gets its listening socket.
constexpr int kListening = 3;

#endif // SHALE_TEST_STARTS_REQUEST_H
