//===- Interpreter.cpp - Runs IR on N virtual ranks in one process --------===//
#include "lib/Interpreter/Interpreter.h"
#include "lib/Interpreter/Evaluators.h"
#include "lib/Support/MergeTables.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/SymbolTable.h"
#include "llvm/ADT/DenseMap.h"
#include <exception>

using namespace mlir;

namespace shale::interp {

/// The largest depth of nested calls. The language has no recursion that ends.
static constexpr int64_t kMaxDepth = 64;

llvm::Error Registry::merge(const Registry &other) {
  return mergeTables(evaluators, other.evaluators, "op", "an evaluator");
}

Registry &getRegistry() {
  static Registry registry = [] {
    Registry result;
    registerElementwise(result);
    registerData(result);
    registerMatmul(result);
    registerQuantize(result);
    registerEpilogue(result);
    registerNorm(result);
    registerAttention(result);
    registerSdpa(result);
    registerEmbedding(result);
    registerSort(result);
    registerLoss(result);
    registerOptimizer(result);
    registerSegments(result);
    registerRandom(result);
    registerCluster(result);
    registerCollectives(result);
    registerUnits(result);
    registerFunctions(result);
    return result;
  }();
  return registry;
}

Tensor &Call::result(unsigned i) {
  if (!results[i]) {
    auto type = cast<RankedTensorType>(op->getResult(i).getType());
    results[i] = Tensor(*elementOf(type.getElementType()), type.getShape());
  }
  return results[i];
}

/// Returns the bytes of a static tensor type at 8 per element, or -1 if it is not
/// a static tensor or the size overflows.
static int64_t typeBytes(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || !tensor.hasStaticShape() || !elementOf(tensor.getElementType()))
    return -1;
  int64_t bytes = 8;
  for (int64_t size : tensor.getShape())
    if (__builtin_mul_overflow(bytes, size, &bytes))
      return -1;
  return bytes;
}

static LogicalResult checkSizes(Operation *op, int64_t ranks, int64_t live, int64_t limit) {
  int64_t total = live;
  for (Type type : op->getResultTypes()) {
    if (!isa<TensorType>(type))
      continue; // tokens and other types that a family defines
    int64_t bytes = typeBytes(type);
    if (bytes < 0 || __builtin_mul_overflow(bytes, ranks, &bytes) ||
        __builtin_add_overflow(total, bytes, &total) || total > limit)
      return op->emitError("a result of type ")
             << type << " on " << ranks << " ranks exceeds the interpreter's " << (limit >> 20)
             << " MiB";
  }
  return success();
}

FailureOr<RankValues> Interpreter::runOp(Operation *op, RankValues operands) {
  const Registry::Evaluator *evaluator = getRegistry().find(op->getName().getStringRef());
  if (!evaluator)
    return op->emitError("has no evaluator in the interpreter");
  if (failed(checkSizes(op, operands.size(), liveBytes, options.maxBytes)))
    return failure();
  std::vector<Call> calls;
  calls.reserve(operands.size());
  for (auto [rank, values] : llvm::enumerate(operands))
    calls.emplace_back(op, *this, rank, std::move(values));
  try {
    if (failed((*evaluator)(calls)))
      return failure();
  } catch (const std::exception &) { // bad_alloc, length_error
    return op->emitError("does not fit into memory");
  }
  RankValues results;
  for (Call &call : calls) {
    for (Tensor &tensor : call.results)
      if (tensor && !tensor.isToken() && !(options.asF64 && tensor.isFloat()))
        tensor.roundToElement();
    results.push_back(std::move(call.results));
  }
  return results;
}

FailureOr<RankValues> Interpreter::runBlock(Block &block, RankValues arguments) {
  size_t ranks = arguments.size();
  DenseMap<Value, std::vector<Tensor>> values; // by rank
  DenseMap<Value, int64_t> uses;
  int64_t outerBytes = liveBytes;
  auto define = [&](Value value, const RankValues &all, unsigned i) {
    std::vector<Tensor> perRank(ranks);
    for (size_t rank = 0; rank < ranks; ++rank)
      perRank[rank] = all[rank][i];
    liveBytes += perRank.empty() ? 0 : perRank[0].size() * 8 * ranks;
    uses[value] = std::distance(value.use_begin(), value.use_end());
    values[value] = std::move(perRank);
  };
  for (BlockArgument argument : block.getArguments())
    define(argument, arguments, argument.getArgNumber());
  arguments.clear();

  for (Operation &op : block) {
    RankValues operands(ranks);
    for (size_t rank = 0; rank < ranks; ++rank)
      for (Value operand : op.getOperands()) {
        auto it = values.find(operand);
        if (it == values.end())
          return op.emitError("uses a value from outside its function");
        operands[rank].push_back(it->second[rank]);
      }
    for (Value operand : op.getOperands())
      if (--uses[operand] == 0) {
        auto it = values.find(operand);
        liveBytes -= it->second.empty() ? 0 : it->second[0].size() * 8 * ranks;
        values.erase(it);
      }
    if (op.hasTrait<OpTrait::IsTerminator>()) {
      liveBytes = outerBytes;
      return operands;
    }
    FailureOr<RankValues> results = runOp(&op, std::move(operands));
    if (failed(results))
      return failure();
    for (OpResult result : op.getResults())
      define(result, *results, result.getResultNumber());
  }
  return block.getParentOp()->emitError("has a block without a terminator");
}

FailureOr<RankValues> Interpreter::run(func::FuncOp function, RankValues arguments) {
  if (function.isExternal() || !function.getBody().hasOneBlock())
    return function.emitError("the interpreter runs functions of one block");
  if (depth >= kMaxDepth)
    return function.emitError("calls nest more than ") << kMaxDepth << " deep";
  for (auto [rank, values] : llvm::enumerate(arguments)) {
    if (values.size() != function.getNumArguments())
      return function.emitError("takes ")
             << function.getNumArguments() << " arguments, not " << values.size();
    for (auto [i, tensor] : llvm::enumerate(values)) {
      auto type = dyn_cast<RankedTensorType>(function.getArgumentTypes()[i]);
      if (type && (!tensor || tensor.isToken() || type.getShape() != tensor.shape() ||
                   elementOf(type.getElementType()) != tensor.element()))
        return function.emitError("argument ")
               << i << " of rank " << rank << " is " << tensor.shapeString() << ", not " << type;
    }
  }
  ++depth;
  FailureOr<RankValues> results = runBlock(function.getBody().front(), std::move(arguments));
  --depth;
  return results;
}

void registerFunctions(Registry &registry) {
  registry.addLockstep<func::CallOp>([](MutableArrayRef<Call> calls) -> LogicalResult {
    auto op = cast<func::CallOp>(calls[0].op);
    auto callee = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(op, op.getCalleeAttr());
    if (!callee)
      return op.emitError("calls no function");
    RankValues arguments;
    for (Call &call : calls)
      arguments.push_back(std::move(call.operands));
    auto results = calls[0].interpreter.run(callee, std::move(arguments));
    if (failed(results))
      return failure();
    for (auto [call, values] : llvm::zip(calls, *results))
      call.results = std::move(values);
    return success();
  });
}

} // namespace shale::interp
