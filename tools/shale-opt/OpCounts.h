//===- OpCounts.h - What each pass does to the number of ops --------------===//
#ifndef SHALE_TOOLS_SHALE_OPT_OPCOUNTS_H
#define SHALE_TOOLS_SHALE_OPT_OPCOUNTS_H

#include "mlir/Pass/PassInstrumentation.h"
#include "mlir/Support/LLVM.h"
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace shale {

/// Counts ops by name before and after each pass, and prints a line for each pass at the end. Takes
/// the place of MLIR's statistics of passes, which an LLVM without assertions, as Debian's, does
/// not count.
class OpCounts : public mlir::PassInstrumentation {
public:
  explicit OpCounts(mlir::raw_ostream &os) : os(os) {}
  ~OpCounts() override;

  void runBeforePass(mlir::Pass *pass, mlir::Operation *op) override;
  void runAfterPass(mlir::Pass *pass, mlir::Operation *op) override;

private:
  using Counts = std::map<std::string, int64_t>;
  struct Line {
    std::string pass;
    Counts before, after; // of all ops that it ran on
  };

  mlir::raw_ostream &os;
  std::mutex mutex; // nested passes run on several threads
  std::map<mlir::Pass *, Counts> running;
  std::vector<Line> lines; // in the order in which passes ended first
};

} // namespace shale

#endif // SHALE_TOOLS_SHALE_OPT_OPCOUNTS_H
