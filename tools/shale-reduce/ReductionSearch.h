//===- ReductionSearch.h - Tries candidates until none is smaller ---------===//
#ifndef SHALE_REDUCE_REDUCTIONSEARCH_H
#define SHALE_REDUCE_REDUCTIONSEARCH_H

#include "tools/shale-reduce/Reductions.h"
#include "tools/shale-reduce/Test.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace shale {

struct SearchOptions {
  unsigned seconds = 60;     // limit on one test
  bool allowInvalid = false; // try candidates that do not verify
  bool locations = false;    // print locations
};

/// Reduces one module by delta debugging. Candidates are written to `folder`.
class ReductionSearch {
public:
  ReductionSearch(mlir::ModuleOp module, const Test &test, std::string folder,
                  SearchOptions options);

  /// Runs the test on the module as it is.
  llvm::Expected<Outcome> testInput();

  /// Applies all reductions until none makes the module smaller, a signal asks to stop, or
  /// `improved` fails. Calls `improved` with the text of each module that is smaller and
  /// interesting.
  llvm::Error run(llvm::function_ref<llvm::Error(llvm::StringRef text)> improved);

  const Size &getSize() const { return size; }
  const std::string &getText() const { return text; }
  unsigned getTested() const { return tested; }
  /// The signal that stopped the search, or 0.
  int getInterrupt() const { return interrupt; }

private:
  std::string print(mlir::ModuleOp module, bool isValid) const;
  llvm::Expected<Outcome> runTest(llvm::StringRef text);
  llvm::Expected<bool> tryPart(const Reduction &reduction, unsigned begin, unsigned end);
  unsigned countTargets(const Reduction &reduction);
  llvm::Expected<bool> apply(const Reduction &reduction);

  mlir::OwningOpRef<mlir::ModuleOp> best;
  const Test &test;
  std::string folder;
  SearchOptions options;
  Size size;
  std::string text;
  llvm::function_ref<llvm::Error(llvm::StringRef)> improved;
  llvm::DenseSet<uint64_t> seen; // hashes of texts that were tried
  unsigned tested = 0;
  int interrupt = 0;
};

} // namespace shale

#endif // SHALE_REDUCE_REDUCTIONSEARCH_H
