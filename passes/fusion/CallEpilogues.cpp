//===- CallEpilogues.cpp - Lets a library compute epilogues of matmuls ----===//
//
// A value that a matmul is added to, or scaled by, is matched backwards: from a GELU, from the
// rounded sum of a matmul and a bias, or from the matmul that ends a GELU's gradient. The ops in
// between must have no other readers, apart from the values that the library stores as well.
//
//===----------------------------------------------------------------------===//
#include "dialects/interfaces/Numeric.h"
#include "dialects/nn/Ops/Cast.h"
#include "dialects/nn/Ops/Data.h"
#include "dialects/nn/Ops/Elementwise.h"
#include "dialects/nn/Ops/Epilogue.h"
#include "dialects/nn/Ops/Matmul.h"
#include "dialects/nn/Ops/Reduce.h"
#include "lib/Support/DeadOps.h"
#include "lib/Support/Remarks.h"
#include "lib/Target/Target.h"
#include "passes/fusion/Passes.h"

namespace shale {
#define GEN_PASS_DEF_CALLEPILOGUESPASS
#include "passes/fusion/Passes.h.inc"
} // namespace shale

using namespace mlir;
using namespace shale;

static RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

/// Whether the op, which is no library call, is or becomes part of a kernel of a phase. Copies to
/// the host and collectives do not.
static bool isKernelOf(Operation *op, nn::PhaseAttr phase) {
  return isa<nn::NNDialect>(op->getDialect()) && nn::phaseOf(op) == phase;
}

static bool isNarrow(Value value) { return is16BitFloat(getElementTypeOrSelf(value)); }

/// Whether the op changes the shape or the float type of a value, and nothing else.
static bool isWrapping(Operation *op) { return isa_and_nonnull<nn::ReshapeOp, nn::CastOp>(op); }

/// Returns the value below reshapes and casts that have no other readers.
static Value peel(Value value) {
  while (value.hasOneUse() && isWrapping(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  return value;
}

namespace {

/// The sum of a matmul and a bias, and what the sum is rounded to.
struct BiasedMatmul {
  nn::MatmulOp matmul;
  nn::AddOp sum;
  Value bias;
  Value rounded; ///< null: the sum is only read in its own type
};

class Caller {
public:
  explicit Caller(const Target &target) : target(target) {}

  void run(func::FuncOp function) {
    trains = false;
    function.walk([&](Operation *op) { trains |= nn::isInPhase(op, nn::Phase::Backward); });
    // Replace gradients first, so that the values that they need from a GELU are read by library
    // calls. A GELU includes the sum before it.
    forEach<nn::MulOp>(function, [&](nn::MulOp op) { replaceGradient(op); });
    forEach<nn::GeluOp>(function, [&](nn::GeluOp op) { replaceGelu(op); });
    forEach<nn::AddOp>(function, [&](nn::AddOp op) { replaceSum(op); });
  }

private:
  /// Calls `replace` for all ops of a kind, and then erases the ops whose results are not read.
  template <typename OpT>
  static void forEach(func::FuncOp function, function_ref<void(OpT)> replace) {
    SmallVector<OpT> ops;
    function.walk([&](OpT op) { ops.push_back(op); });
    llvm::for_each(ops, replace);
    for (Block &block : function.getBody())
      eraseDeadOps(block);
  }

  /// Whether the value has to be stored, because a library call reads it, and no kernel of its
  /// phase is left that could compute it as well. Sums over rows need a kernel of their own.
  bool isStored(Value value, nn::PhaseAttr phase) const {
    bool called = false;
    SmallVector<Value> work{value};
    while (!work.empty())
      for (Operation *user : work.pop_back_val().getUsers()) {
        if (isWrapping(user))
          work.push_back(user->getResult(0));
        else if (target.isLibraryCall(user))
          called = true;
        else if (isKernelOf(user, phase) && !isa<nn::ReduceOp>(user))
          return false;
      }
    return called;
  }

  /// Matches `value`, an element of which is that of a matmul plus that of a bias.
  static std::optional<BiasedMatmul> matchSum(Value value) {
    BiasedMatmul found;
    while (isWrapping(value.getDefiningOp())) {
      if (isNarrow(value))
        found.rounded = value;
      Value below = value.getDefiningOp()->getOperand(0);
      if (found.rounded && !isNarrow(below) && !below.hasOneUse())
        return std::nullopt;
      value = below;
    }
    found.sum = value.getDefiningOp<nn::AddOp>();
    if (!found.sum || !value.hasOneUse())
      return std::nullopt;
    for (bool swapped : {false, true}) {
      Value left = found.sum->getOperand(swapped), right = found.sum->getOperand(!swapped);
      found.matmul = peel(left).getDefiningOp<nn::MatmulOp>();
      auto repeated = peel(right).getDefiningOp<nn::BroadcastOp>();
      if (!found.matmul || !peel(left).hasOneUse() || !repeated ||
          nn::phaseOf(found.matmul) != nn::phaseOf(found.sum))
        continue;
      RankedTensorType type = typeOf(repeated), matmul = typeOf(found.matmul);
      found.bias = repeated.getInput();
      if (matmul.getRank() == 2 && type.getShape() == typeOf(right).getShape() &&
          repeated.getDims() == ArrayRef<int64_t>{type.getRank() - 1} &&
          type.getShape().back() == matmul.getDimSize(1) &&
          typeOf(left).getShape().back() == matmul.getDimSize(1))
        return found;
    }
    return std::nullopt;
  }

  /// Returns the 16-bit value to which a value is rounded, perhaps after reshapes, if it has no
  /// other reader, else null.
  static Value roundingOf(Value value) {
    while (value.hasOneUse() && isWrapping(*value.user_begin())) {
      value = value.user_begin()->getResult(0);
      if (isNarrow(value))
        return value;
    }
    return {};
  }

  /// Builds a matmul with an epilogue in front of `at`, and replaces the values that are its
  /// results, if the target's library has such a matmul. With `keeps` it has two; `before` is null
  /// if nothing reads the second.
  void replace(nn::Epilogue epilogue, nn::MatmulOp matmul, Value with, Operation *at, Value result,
               bool keeps, Value before) {
    OpBuilder b(at);
    RankedTensorType type = typeOf(matmul);
    auto shaped = [&](Value value, Type to) -> Value {
      if (value.getType() == to)
        return value;
      if (auto reshape = value.getDefiningOp<nn::ReshapeOp>();
          reshape && reshape.getInput().getType() == to)
        return reshape.getInput();
      auto made = nn::ReshapeOp::create(b, value.getLoc(), to, value);
      made->setDiscardableAttrs(matmul->getDiscardableAttrDictionary());
      return made;
    };
    Value taken = epilogue == nn::Epilogue::GeluGrad ? shaped(with, type) : with;
    auto made = nn::MatmulEpilogueOp::create(b, matmul.getLoc(), type, keeps ? Type(type) : Type(),
                                             epilogue, matmul.getLhs(), matmul.getRhs(), taken,
                                             matmul.getTransposeLhs(), matmul.getTransposeRhs());
    made->setDiscardableAttrs(matmul->getDiscardableAttrDictionary());
    if (!target.isLibraryCall(made)) {
      made.erase();
      return;
    }
    for (auto [old, value] : {std::pair{result, made.getResult()}, {before, made.getBefore()}}) {
      if (!old)
        continue;
      for (Operation *user : llvm::make_early_inc_range(old.getUsers()))
        if (isa<nn::ReshapeOp>(user) && user->getResult(0).getType() == type) {
          user->getResult(0).replaceAllUsesWith(value);
          user->erase();
        }
      old.replaceAllUsesWith(shaped(value, old.getType()));
    }
    emitDecision(
        matmul.getLoc(), "call-epilogues",
        ("the matmul's " + nn::stringifyEpilogue(epilogue) + " may be computed by the library")
            .str());
  }

  void replaceGelu(nn::GeluOp op) {
    Value result = roundingOf(op.getResult());
    if (!op.getApproximate() || !result || !isStored(result, nn::phaseOf(op)))
      return;
    std::optional<BiasedMatmul> match = matchSum(op.getInput());
    if (!match || nn::phaseOf(match->matmul) != nn::phaseOf(op) || !isNarrow(match->matmul) ||
        !isNarrow(match->bias))
      return;
    Value before = match->rounded ? match->rounded : match->sum.getResult();
    bool isRead = !isOnlyRead(before, op);
    if (isRead && (before == match->sum || !isReadByOthers(before, op)))
      return;
    replace(nn::Epilogue::Gelu, match->matmul, match->bias, match->sum, result, isRead || trains,
            isRead ? before : Value());
  }

  /// Whether `reader` is the only reader of a value, perhaps after reshapes and casts.
  static bool isOnlyRead(Value value, Operation *reader) {
    return llvm::all_of(value.getUsers(), [&](Operation *user) {
      return user == reader || (isWrapping(user) && isOnlyRead(user->getResult(0), reader));
    });
  }

  /// Whether all readers but `reader` are library calls, copies, or ops of other phases.
  bool isReadByOthers(Value value, Operation *reader) const {
    return llvm::all_of(value.getUsers(), [&](Operation *user) {
      return user == reader || target.isLibraryCall(user) ||
             !isKernelOf(user, nn::phaseOf(reader)) ||
             (isWrapping(user) && isReadByOthers(user->getResult(0), reader));
    });
  }

  void replaceSum(nn::AddOp op) {
    Value result = roundingOf(op.getResult());
    if (!result || !isStored(result, nn::phaseOf(op)))
      return;
    std::optional<BiasedMatmul> match = matchSum(result);
    if (match && isNarrow(match->matmul) && isNarrow(match->bias))
      replace(nn::Epilogue::Bias, match->matmul, match->bias, op, result, false, Value());
  }

  /// Replaces the matmul of a result's gradient and the derivative of a GELU.
  void replaceGradient(nn::MulOp op) {
    auto matmul = peel(op.getLhs()).getDefiningOp<nn::MatmulOp>();
    Value result = roundingOf(op.getResult());
    if (!matmul || !matmul->hasOneUse() || !isNarrow(matmul) || typeOf(matmul).getRank() != 2 ||
        nn::phaseOf(matmul) != nn::phaseOf(op) || !result || !isStored(result, nn::phaseOf(op)))
      return;
    if (Value input = matchGeluDerivative(op))
      replace(nn::Epilogue::GeluGrad, matmul, input, op, result, false, Value());
  }

  /// Returns the 16-bit value before the GELU if `op` is what autodiff builds for its gradient,
  /// else null.
  static Value matchGeluDerivative(nn::MulOp op) {
    Block scratch;
    Location loc = op.getLoc();
    Value x = scratch.addArgument(op.getType(), loc), grad = scratch.addArgument(op.getType(), loc);
    OpBuilder b(op.getContext());
    b.setInsertionPointToEnd(&scratch);
    auto gelu = nn::GeluOp::create(b, loc, op.getType(), x, /*approximate=*/true);
    SmallVector<Value> expected(1);
    Value input;
    bool same = succeeded(gelu.buildGradient(b, {grad}, {true}, expected)) &&
                isEqual(op, expected[0], x, input, grad);
    return same && isNarrow(input) ? input : Value();
  }

  /// Whether `value` is computed by the same ops as `expected`, with any value for `grad` and one
  /// value, possibly cast, for `x`. Sets `input` to the latter.
  static bool isEqual(Value value, Value expected, Value x, Value &input, Value grad) {
    if (expected == grad)
      return true;
    if (expected == x) {
      auto wide = value.getDefiningOp<nn::CastOp>();
      Value source = wide ? wide.getInput() : value;
      input = input ? input : source;
      return input == source;
    }
    Operation *made = value.getDefiningOp(), *model = expected.getDefiningOp();
    return made &&
           OperationEquivalence::isEquivalentTo(
               made, model, OperationEquivalence::ignoreValueEquivalence, nullptr,
               OperationEquivalence::IgnoreLocations |
                   OperationEquivalence::IgnoreDiscardableAttrs) &&
           llvm::all_of(llvm::zip(made->getOperands(), model->getOperands()), [&](auto pair) {
             return isEqual(std::get<0>(pair), std::get<1>(pair), x, input, grad);
           });
  }

  const Target &target;
  /// Whether the function has a backward pass. Its GELUs then all keep the values before them,
  /// though only a recomputation may read them: the bits of the library differ if it does not
  /// store them, and recomputed values must have the same bits as before.
  bool trains = false;
};

struct CallEpiloguesPass : shale::impl::CallEpiloguesPassBase<CallEpiloguesPass> {
  using CallEpiloguesPassBase::CallEpiloguesPassBase;

  void runOnOperation() override {
    const Target *target = targetOf(getOperation());
    if (!target)
      return signalPassFailure();
    Caller caller(*target);
    for (auto function : getOperation().getOps<func::FuncOp>())
      caller.run(function);
  }
};

} // namespace
