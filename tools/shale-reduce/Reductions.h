//===- Reductions.h - Ways to make a module smaller -----------------------===//
#ifndef SHALE_REDUCE_REDUCTIONS_H
#define SHALE_REDUCE_REDUCTIONS_H

#include "mlir/IR/BuiltinOps.h"
#include <tuple>

namespace shale {

/// The part of a reduction's targets that one candidate is made with. A reduction asks it once
/// for each target, in the order of the program.
class Part {
public:
  /// Targets [begin, end). With `allowInvalid`, what does not verify is a target, too.
  Part(unsigned begin, unsigned end, bool allowInvalid)
      : begin(begin), end(end), allowInvalid(allowInvalid) {}
  bool takes() {
    unsigned index = count++;
    return index >= begin && index < end;
  }
  /// The number of targets asked for so far.
  unsigned asked() const { return count; }
  /// Whether an op may be left as it is now, as far as the op alone shows.
  bool allows(mlir::Operation *op) const {
    return allowInvalid || mlir::succeeded(op->getName().verifyInvariants(op));
  }

private:
  unsigned begin, end, count = 0;
  bool allowInvalid;
};

/// A kind of change that makes a module smaller. A target is what it removes or simplifies.
struct Reduction {
  llvm::StringRef name; // "drop ops"
  /// Changes the targets that `part` takes. The result need not verify.
  void (*apply)(mlir::ModuleOp module, Part &part);
};

/// All reductions, those that remove most first.
llvm::ArrayRef<Reduction> getReductions();

/// How much a module holds. A candidate is tried only if it is less than the best module so
/// far, in the order of the fields: so a reduction ends.
struct Size {
  unsigned ops = 0;       // without constants
  unsigned values = 0;    // arguments of blocks, results of functions and of ops with regions
  unsigned constants = 0; // ops that are constants
  unsigned operands = 0;
  unsigned attributes = 0; // with the entries of lists and dictionaries
  size_t bytes = 0;        // of the text; measure() leaves it 0

  unsigned allOps() const { return ops + constants; }
  bool operator<(const Size &other) const {
    return std::tie(ops, values, constants, operands, attributes, bytes) <
           std::tie(other.ops, other.values, other.constants, other.operands, other.attributes,
                    other.bytes);
  }
};

Size measure(mlir::ModuleOp module);

} // namespace shale

#endif // SHALE_REDUCE_REDUCTIONS_H
