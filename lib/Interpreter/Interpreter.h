//===- Interpreter.h - Runs IR on N virtual ranks in one process ----------===//
//
// The interpreter defines the semantics of every op. Passes are tested by
// running programs before and after them. The compiler does not use it, and
// folds constants by lib/Folding, so that tests can compare the two.
//
// All ranks run in lockstep, op by op. An op that is local to a rank registers
// a function of one Call, which is applied to each rank. An op that
// communicates (a collective) registers a function of all ranks' Calls, indexed
// by rank. A family of evaluators is one file with one function
// `registerXxx(Registry &)`, listed in Interpreter.cpp. The framework rounds
// results to their declared types.
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_INTERPRETER_INTERPRETER_H
#define SHALE_INTERPRETER_INTERPRETER_H

#include "lib/Interpreter/Tensor.h"
#include "mlir/IR/Operation.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Error.h"
#include <functional>

namespace mlir::func {
class FuncOp;
}

namespace shale::interp {

class Interpreter;

/// One op on one rank: its operands, and the results that the evaluator fills.
class Call {
public:
  Call(mlir::Operation *op, Interpreter &interpreter, int64_t rank, std::vector<Tensor> operands)
      : op(op), interpreter(interpreter), rank(rank), operands(std::move(operands)),
        results(op->getNumResults()) {}

  const Tensor &operand(unsigned i) const { return operands[i]; }
  /// Returns result i. The first access allocates it with the result's type.
  Tensor &result(unsigned i = 0);

  mlir::Operation *op;
  Interpreter &interpreter;
  int64_t rank;
  std::vector<Tensor> operands;
  std::vector<Tensor> results;
};

class Registry {
public:
  /// Evaluates an op on all ranks; calls[r] is the call of rank r.
  using Evaluator = std::function<mlir::LogicalResult(llvm::MutableArrayRef<Call> calls)>;

  /// Registers an op that is local to a rank: LogicalResult fn(OpT, Call &).
  template <typename OpT, typename Fn> void add(Fn fn) {
    evaluators[OpT::getOperationName()] =
        [fn](llvm::MutableArrayRef<Call> calls) -> mlir::LogicalResult {
      for (Call &call : calls)
        if (mlir::failed(fn(mlir::cast<OpT>(call.op), call)))
          return mlir::failure();
      return mlir::success();
    };
  }
  /// Registers an op that communicates between ranks, or that has regions.
  template <typename OpT> void addLockstep(Evaluator fn) {
    evaluators[OpT::getOperationName()] = std::move(fn);
  }
  /// Adds the evaluators of another registry. Adds none and fails if an op of it has an evaluator
  /// here.
  llvm::Error merge(const Registry &other);
  const Evaluator *find(llvm::StringRef name) const {
    auto it = evaluators.find(name);
    return it == evaluators.end() ? nullptr : &it->second;
  }

private:
  llvm::StringMap<Evaluator> evaluators;
};

/// Returns the evaluators of all ops. Plug-ins add theirs before anything is evaluated.
Registry &getRegistry();

struct Options {
  int64_t ranks = 1;
  /// Whether to compute all floats in f64, without rounding to declared types.
  bool asF64 = false;
  /// Limit of the bytes of live values, at 8 per element.
  int64_t maxBytes = int64_t(16) << 30;
};

/// Tensors by rank and number: values[rank][i].
using RankValues = std::vector<std::vector<Tensor>>;

class Interpreter {
public:
  explicit Interpreter(Options options) : options(options) {}

  /// Runs a function; `arguments` has one entry per rank.
  mlir::FailureOr<RankValues> run(mlir::func::FuncOp function, RankValues arguments);
  /// Runs a block up to its terminator and returns the terminator's operands.
  mlir::FailureOr<RankValues> runBlock(mlir::Block &block, RankValues arguments);
  /// Evaluates one op that has no successors on given operands.
  mlir::FailureOr<RankValues> runOp(mlir::Operation *op, RankValues operands);

  const Options options;

private:
  int64_t liveBytes = 0;
  int64_t depth = 0;
};

} // namespace shale::interp

#endif // SHALE_INTERPRETER_INTERPRETER_H
