//===- Interfaces.td - What passes ask of ops -----------------------------===//
//
// A pass never lists op names: it asks one of these. An op that implements
// them works with every pass.
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_INTERFACES_TD
#define SHALE_INTERFACES_TD

include "mlir/IR/OpBase.td"

def DifferentiableInterface : OpInterface<"Differentiable"> {
  let cppNamespace = "::shale";
  let description = [{
    An op that builds its own gradient. Autodiff calls it once, in reverse
    order, after all uses of the results have been visited.
  }];
  let methods = [
    InterfaceMethod<[{
      Appends ops to `builder` that compute the gradient of each operand.
      `resultGrads[i]` is the gradient of result i, of its type, or null when
      no path from result i leads to the loss. `wanted[j]` is false where
      nobody needs operand j's gradient; `operandGrads[j]` (sized by the
      caller) is set to a value of operand j's type, or left null where the
      derivative is zero everywhere (integers, conditions). Fails after an
      error on the op when there is no gradient.
    }],
    "::mlir::LogicalResult", "buildGradient",
    (ins "::mlir::OpBuilder &":$builder,
         "::llvm::ArrayRef<::mlir::Value>":$resultGrads,
         "::llvm::ArrayRef<bool>":$wanted,
         "::llvm::SmallVectorImpl<::mlir::Value> &":$operandGrads)>
  ];
}

def ShardingRuleInterface : OpInterface<"ShardingRuleOp"> {
  let cppNamespace = "::shale";
  let description = [{
    An op that says how its dimensions relate, as factors (see
    dialects/interfaces/ShardingRule.h). Propagation and the partitioner ask
    nothing else of most ops.
  }];
  let methods = [
    InterfaceMethod<"Returns the factors of this op's operands and results.",
    "::shale::ShardingRule", "getShardingRule", (ins)>
  ];
}

def ElementwiseInterface : OpInterface<"Elementwise"> {
  let cppNamespace = "::shale";
  let description = [{
    An op whose result element i depends only on element i of each operand;
    all operands and the result have one shape.
  }];
  let methods = [
    InterfaceMethod<[{
      Emits the op on scalars or on vectors in `arith` and `math`: `args` has
      one value per operand, of the operand's element type or of a vector of
      it; returns the same of the result's element type.
    }],
    "::mlir::Value", "emitElement",
    (ins "::mlir::OpBuilder &":$builder, "::mlir::Location":$loc,
         "::mlir::ValueRange":$args)>
  ];
}

def IndexedInterface : OpInterface<"Indexed"> {
  let cppNamespace = "::shale";
  let description = [{
    An op with one result whose element can be computed from elements of its
    operands at other indices: data movement, broadcasts, lookups, reductions.
    With `Elementwise` this is all that fusion puts into clusters and all that
    the kernel generator knows of ops.
  }];
  let methods = [
    InterfaceMethod<[{
      Emits element `index` (row-major, linear) of the result; null when the
      emitter asks for another schedule (dialects/interfaces/ElementEmitter.h).
    }],
    "::mlir::Value", "emitAt",
    (ins "::shale::ElementEmitter &":$emitter, "const ::shale::LinearIndex &":$index)>,
    InterfaceMethod<[{
      Whether the op can be emitted at all; one that cannot stays outside of
      clusters (a constant that is not one value everywhere).
    }],
    "bool", "canEmit", (ins), "", "return true;">,
    InterfaceMethod<[{
      Whether operand `number` is read at indices known only at run time, so
      that it has to be in memory (the table of a lookup).
    }],
    "bool", "readsMemory", (ins "unsigned":$number), "", "return false;">,
    InterfaceMethod<"Says which elements of operand `number` an element needs.",
    "::shale::Access", "getAccess", (ins "unsigned":$number), "", "return ::shale::Access::Any;">
  ];
}

def DecomposableInterface : OpInterface<"Decomposable"> {
  let cppNamespace = "::shale";
  let description = [{
    An op that can be said in simpler ops of `nn`: elementwise ops, broadcast,
    reduce, iota and data movement. Fusion decomposes what no library and no
    generator of its own takes.
  }];
  let methods = [
    InterfaceMethod<[{
      Builds the same meaning at `builder` and returns one value per result.
    }],
    "::llvm::SmallVector<::mlir::Value>", "decompose",
    (ins "::mlir::OpBuilder &":$builder)>
  ];
}

def CostInterface : OpInterface<"Cost"> {
  let cppNamespace = "::shale";
  let description = [{
    An op that knows how many floating-point operations it does. The bytes it
    moves follow from its types.
  }];
  let methods = [
    InterfaceMethod<"Returns the floating-point operations of one execution.",
    "int64_t", "getFlops", (ins)>
  ];
}

def PrecisionInterface : OpInterface<"Precision"> {
  let cppNamespace = "::shale";
  let description = [{
    An op that says in which element types it takes and gives floats. The
    precision stage inserts casts from these answers alone; what a target cannot
    compute in a half type, fusion widens.
  }];
  let methods = [
    InterfaceMethod<"Says in which type operand `number`, a float tensor, is taken.",
    "::shale::Numeric", "getOperandNumeric", (ins "unsigned":$number), "", "return ::shale::Numeric::Follows;">,
    InterfaceMethod<"Says in which type result `number`, a float tensor, is given.",
    "::shale::Numeric", "getResultNumeric", (ins "unsigned":$number), "", "return ::shale::Numeric::Follows;">,
    InterfaceMethod<[{
      Whether every result element is an operand's element or a constant: nothing
      is computed, so a half type needs no widening.
    }],
    "bool", "movesOnly", (ins), "", "return false;">
  ];
}

def OptimizerUpdateInterface : OpInterface<"OptimizerUpdate"> {
  let cppNamespace = "::shale";
  let description = [{
    An op that updates one parameter, or one flat group of parameters, and its
    optimizer state: element i of every result depends only on element i of the
    parameter, the gradient and the state. The partitioner moves it onto flat
    shards, whatever the optimizer is.
  }];
  let methods = [
    InterfaceMethod<"Returns the operand that is the parameter.",
    "::mlir::OpOperand &", "getParameterOperand", (ins)>,
    InterfaceMethod<"Returns the operand that is the gradient.",
    "::mlir::OpOperand &", "getGradientOperand", (ins)>,
    InterfaceMethod<"Returns the optimizer state operands; result 0 is the new parameter, result i+1 the new state i.",
    "::llvm::SmallVector<::mlir::OpOperand *>", "getStateOperands", (ins)>,
    InterfaceMethod<"Returns the factor on weight decay.",
    "double", "getDecayFactor", (ins)>,
    InterfaceMethod<[{
      Makes this the update of a flat group: `segments` is a list of `#nn.segment`,
      `offset` the group's element at which the operands begin, or null.
    }],
    "void", "setSegments", (ins "::mlir::Value":$offset, "::mlir::ArrayAttr":$segments)>
  ];
}

def PartitionableInterface : OpInterface<"Partitionable"> {
  let cppNamespace = "::shale";
  let description = [{
    An op whose local form is not its global form with other sizes: it depends on
    which slice a rank holds. The partitioner asks it to build the local form;
    all other ops are cloned with local types.
  }];
  let methods = [
    InterfaceMethod<[{
      Builds this op's local form at `builder` and returns one value per result,
      of the types in `local`. Fails after an error on the op.
    }],
    "::llvm::FailureOr<::llvm::SmallVector<::mlir::Value>>", "partition",
    (ins "::mlir::OpBuilder &":$builder, "const ::shale::LocalForm &":$local)>
  ];
}

def ElementReductionInterface : OpInterface<"ElementReduction"> {
  let cppNamespace = "::shale";
  let description = [{
    An op that adds up something of every element of every operand, to which a
    zero adds nothing, in any order and grouping of the operands: a norm's square.
    The partitioner applies it to flat shards and adds up the parts.
  }];
}

def ViewInterface : OpInterface<"View"> {
  let cppNamespace = "::shale";
  let description = [{
    An op whose results may be (part of) its operands' bytes: it costs nothing,
    and after plan it is an address. Ask `isView` whether all results are.
  }];
  let methods = [
    InterfaceMethod<"Returns where result `number` lies. Asked of ops that are views.",
    "::shale::ViewPlace", "getViewPlace", (ins "unsigned":$number)>,
    InterfaceMethod<[{
      Whether result `number` is part of an operand's bytes; a slice along another dimension than the first is not. Asked
      often: it looks nothing up.
    }],
    "bool", "isViewOf", (ins "unsigned":$number), "", "return true;">
  ];
}

def ElementMoveInterface : OpInterface<"ElementMove"> {
  let cppNamespace = "::shale";
  let description = [{
    An op each of whose result elements is an element of an operand, unchanged in
    value, or a constant of the op.
  }];
  let methods = [
    InterfaceMethod<"Says which elements of operand `number` are in the result.",
    "::shale::MovedElements", "getMovedElements", (ins "unsigned":$number), "",
    "return ::shale::MovedElements::All;">
  ];
}

def IndexUserInterface : OpInterface<"IndexUser"> {
  let cppNamespace = "::shale";
  let description = [{
    An op that uses integers as indices (rows of a table, classes) and means
    something only for those of a range. From it follows what a program's data
    may hold.
  }];
  let methods = [
    InterfaceMethod<"Returns the range of operand `number`, or nothing when it is no index.",
    "::std::optional<::shale::IndexRange>", "getIndexRange", (ins "unsigned":$number)>
  ];
}

def PlacedAtUseInterface : OpInterface<"PlacedAtUse"> {
  let cppNamespace = "::shale";
  let description = [{
    An op that schedule brings to its first user: before it nobody needs what the
    op makes, and from it on the result takes memory.
  }];
  let methods = [
    InterfaceMethod<"Whether this op is such a one, as it stands.",
    "bool", "isPlacedAtUse", (ins), "", "return true;">
  ];
}

def StochasticInterface : OpInterface<"Stochastic"> {
  let cppNamespace = "::shale";
  let description = [{
    An op that draws random numbers where something is learnt, and none where it is
    only evaluated.
  }];
  let methods = [
    InterfaceMethod<"Whether this op draws any, as it stands.",
    "bool", "drawsRandom", (ins), "", "return true;">,
    InterfaceMethod<"Builds at `builder` what the op means in an evaluation; one value per result.",
    "::llvm::SmallVector<::mlir::Value>", "buildEvaluation", (ins "::mlir::OpBuilder &":$builder)>
  ];
}

def CollectiveInterface : OpInterface<"Collective"> {
  let cppNamespace = "::shale";
  let description = [{
    An op of one operand and one result by which the ranks along one mesh axis
    exchange data. All of them execute it in one order.
  }];
  let methods = [
    InterfaceMethod<"Returns the mesh axis along which ranks take part.",
    "::llvm::StringRef", "getCollectiveAxis", (ins)>,
    InterfaceMethod<"Returns what kind of exchange it is.",
    "::shale::CollectiveKind", "getCollectiveKind", (ins)>,
    InterfaceMethod<[{
      Returns the bytes that one rank sends when `size` ranks take part and each
      piece goes straight to its receiver: an all-gather sends the own piece to
      size - 1 others, a reduce-scatter or all-to-all one piece to each of them,
      an all-reduce is a reduce-scatter of ceil(count / size) elements a piece and
      an all-gather of these.
    }],
    "int64_t", "getSentBytes", (ins "int64_t":$size)>
  ];
}

#endif // SHALE_INTERFACES_TD
