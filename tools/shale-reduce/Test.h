//===- Test.h - Whether a candidate still shows the fault -----------------===//
#ifndef SHALE_REDUCE_TEST_H
#define SHALE_REDUCE_TEST_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <csignal>
#include <optional>
#include <string>
#include <vector>

namespace shale {

/// How a test ended.
struct Outcome {
  /// Whether the candidate still shows the fault.
  bool isInteresting = false;
  /// Whether it was stopped at the time limit.
  bool timedOut = false;
  /// How the command ended: "exited with 1", "was killed by signal 11 (Segmentation fault)".
  std::string end;
  /// The end of what the command printed.
  std::string output;
  /// The signal that asked this process to stop during the test, else 0.
  int interrupt = 0;
};

/// Blocks the signals that stop this process and SIGCHLD, so that a test's wait receives them.
/// Signals that the parent process ignores (nohup) stay ignored. Call once, before any test.
void blockSignals();

/// A signal that asked this process to stop since the last test, or 0.
int takeInterrupt();

/// A command that runs on a candidate, in a process group of its own, without standard input.
class Test {
public:
  /// Interesting if the script exits with 0.
  static llvm::Expected<Test> fromScript(llvm::StringRef path);
  /// shale-opt with these arguments; `program` is its path, or empty for the one beside this
  /// program or else on PATH. Interesting if it crashes or, with `expect`, if it fails
  /// or crashes and its messages match the regular expression.
  static llvm::Expected<Test> fromOpt(llvm::StringRef program, std::vector<std::string> arguments,
                                      std::optional<std::string> expect);

  /// Runs the command on the file. `output` is a file for what it prints. When `seconds` have
  /// passed, the command and its children are killed. Fails if the command cannot be started.
  llvm::Expected<Outcome> run(llvm::StringRef candidate, llvm::StringRef output,
                              unsigned seconds) const;

  /// What an interesting candidate does, for messages: "exits with 0".
  llvm::StringRef describe() const { return description; }

private:
  /// Sets the program, which must be executable.
  llvm::Error setProgram(llvm::StringRef path);
  bool isInteresting(int status, llvm::StringRef text) const;

  std::vector<std::string> command;
  std::string description;
  bool isScript = false;
  std::optional<std::string> expect;
};

} // namespace shale

#endif // SHALE_REDUCE_TEST_H
