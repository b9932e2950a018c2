//===- ReductionSearch.cpp - Tries candidates until none is smaller -------===//
#include "tools/shale-reduce/ReductionSearch.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "llvm/Support/CrashRecoveryContext.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Support/xxhash.h"
#include <chrono>

using namespace mlir;
using namespace shale;

/// Runs something on a candidate without messages. Returns false if it crashes, as a verifier or
/// a printer may on a module that nobody would write.
static bool runSafely(MLIRContext *context, llvm::function_ref<void()> run) {
  ScopedDiagnosticHandler handler(context, [](Diagnostic &) { return success(); });
  return llvm::CrashRecoveryContext().RunSafely(run);
}

/// A verifier that crashes finds its module invalid.
static bool isValid(ModuleOp module) {
  bool valid = false;
  return runSafely(module.getContext(), [&] { valid = succeeded(verify(module)); }) && valid;
}

ReductionSearch::ReductionSearch(ModuleOp module, const Test &test, std::string folder,
                                 SearchOptions options)
    : best(module.clone()), test(test), folder(std::move(folder)), options(options),
      size(measure(module)), text(print(module, isValid(module))) {
  size.bytes = text.size();
}

std::string ReductionSearch::print(ModuleOp module, bool isValid) const {
  OpPrintingFlags flags;
  if (isValid)
    flags.assumeVerified();
  else
    flags.printGenericOpForm();
  if (options.locations)
    flags.enableDebugInfo(true, /*prettyForm=*/false);
  std::string text;
  llvm::raw_string_ostream os(text);
  module.print(os, flags);
  os << "\n";
  return text;
}

llvm::Expected<Outcome> ReductionSearch::runTest(StringRef candidate) {
  std::string path = folder + "/candidate.mlir";
  std::error_code error;
  llvm::raw_fd_ostream os(path, error);
  if (!error) {
    os << candidate;
    os.close();
    error = os.error();
    os.clear_error();
  }
  if (error)
    return llvm::createStringError("cannot write '" + path + "': " + error.message());
  ++tested;
  return test.run(path, folder + "/output.txt", options.seconds);
}

llvm::Expected<Outcome> ReductionSearch::testInput() { return runTest(text); }

/// Makes a candidate with a part of the reduction's targets. Returns whether it is the new best.
llvm::Expected<bool> ReductionSearch::tryPart(const Reduction &reduction, unsigned begin,
                                              unsigned end) {
  interrupt = takeInterrupt();
  if (interrupt)
    return false;
  OwningOpRef<ModuleOp> candidate(best->clone());
  Part part(begin, end, options.allowInvalid);
  if (!runSafely(best->getContext(), [&] { reduction.apply(*candidate, part); })) {
    candidate.release(); // not safe to delete
    return false;
  }
  Size candidateSize = measure(*candidate);
  candidateSize.bytes = size.bytes;
  if (size < candidateSize)
    return false;
  bool valid = isValid(*candidate);
  if (!valid && !options.allowInvalid)
    return false;
  std::string candidateText;
  if (!runSafely(best->getContext(), [&] { candidateText = print(*candidate, valid); }))
    return false;
  candidateSize.bytes = candidateText.size();
  if (!(candidateSize < size) || !seen.insert(llvm::xxh3_64bits(candidateText)).second)
    return false;
  llvm::Expected<Outcome> outcome = runTest(candidateText);
  if (!outcome)
    return outcome.takeError();
  interrupt = outcome->interrupt;
  if (interrupt || !outcome->isInteresting)
    return false;
  best = std::move(candidate);
  size = candidateSize;
  text = std::move(candidateText);
  if (llvm::Error error = improved(text))
    return error;
  return true;
}

/// The number of targets in the best module so far.
unsigned ReductionSearch::countTargets(const Reduction &reduction) {
  OwningOpRef<ModuleOp> copy(best->clone());
  Part none(0, 0, options.allowInvalid);
  if (!runSafely(best->getContext(), [&] { reduction.apply(*copy, none); })) {
    copy.release();
    return 0;
  }
  return none.asked();
}

/// Tries all targets at once, then halves, quarters, .. down to each alone. Goes from the last
/// target to the first: users before what they use, and no removal shifts what is still to try.
llvm::Expected<bool> ReductionSearch::apply(const Reduction &reduction) {
  bool changed = false;
  unsigned left = countTargets(reduction);
  for (unsigned length = left; length > 0; length = std::min(length / 2, left)) {
    for (unsigned end = left; end > 0;) {
      unsigned begin = end > length ? end - length : 0;
      llvm::Expected<bool> smaller = tryPart(reduction, begin, end);
      if (!smaller || interrupt)
        return smaller;
      changed |= *smaller;
      end = begin;
    }
    left = countTargets(reduction);
  }
  return changed;
}

llvm::Error ReductionSearch::run(llvm::function_ref<llvm::Error(StringRef text)> onImprovement) {
  using Clock = std::chrono::steady_clock;
  improved = onImprovement;
  auto start = Clock::now();
  for (bool again = true; again;) {
    again = false;
    for (const Reduction &reduction : getReductions()) {
      unsigned before = size.allOps(), testedBefore = tested;
      llvm::Expected<bool> changed = apply(reduction);
      if (!changed)
        return changed.takeError();
      if (interrupt)
        return llvm::Error::success();
      again |= *changed;
      if (tested > testedBefore)
        llvm::errs() << "shale-reduce: " << reduction.name << ": " << before << " -> "
                     << size.allOps() << " ops; " << tested << " candidates"
                     << llvm::format(", %.1f s\n",
                                     std::chrono::duration<double>(Clock::now() - start).count());
    }
  }
  return llvm::Error::success();
}
