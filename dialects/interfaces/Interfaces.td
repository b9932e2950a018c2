//===- Interfaces.td - Op interfaces used by the passes -------------------===//
//
// A pass handles an op by the interfaces that the op implements, not by its name. Exception: a pass
// that recognizes a pattern of several ops, such as a recovery pass, names these ops.
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_INTERFACES_TD
#define SHALE_INTERFACES_TD

include "mlir/IR/OpBase.td"

def DifferentiableInterface : OpInterface<"DifferentiableOpInterface"> {
  let cppNamespace = "::shale";
  let description = [{
    An op that builds its own gradient. Autodiff calls it once, in reverse
    order, after all uses of the results have been visited.
  }];
  let methods = [
    InterfaceMethod<[{
      Builds ops at `builder` that compute the gradient of each operand.
      `resultGrads[i]` is the gradient of result i and has its type, or is null
      if no path leads from result i to the loss. `wanted[j]` is whether the
      gradient of operand j is needed. `operandGrads` has one entry per operand,
      sized by the caller; entry j is set to a value of operand j's type, or
      left null where the derivative is zero everywhere (integers, conditions).
      If the op has no gradient, emits an error on the op and fails.
    }],
    "::mlir::LogicalResult", "buildGradient",
    (ins "::mlir::OpBuilder &":$builder,
         "::llvm::ArrayRef<::mlir::Value>":$resultGrads,
         "::llvm::ArrayRef<bool>":$wanted,
         "::llvm::SmallVectorImpl<::mlir::Value> &":$operandGrads)>
  ];
}

def ShardingRuleInterface : OpInterface<"ShardingRuleOpInterface"> {
  let cppNamespace = "::shale";
  let description = [{
    An op that describes how the dimensions of its operands and results relate,
    as factors (see dialects/interfaces/ShardingRule.h). For most ops,
    propagation and partition use nothing else.
  }];
  let methods = [
    InterfaceMethod<"Returns the factors of this op's operands and results; by default those of an elementwise op.",
    "::shale::ShardingRule", "getShardingRule", (ins), "", "return ::shale::elementwiseRule($_op);">
  ];
}

def ElementwiseInterface : OpInterface<"ElementwiseOpInterface"> {
  let cppNamespace = "::shale";
  let description = [{
    An op whose result element i depends only on element i of each operand;
    all operands and the result have one shape.
  }];
  let methods = [
    InterfaceMethod<[{
      Emits the op on scalars or on vectors in `arith` and `math`. `args` has
      one value per operand: a scalar of the operand's element type or a vector
      of it. Returns a scalar or a vector of the result's element type.
    }],
    "::mlir::Value", "emitElement",
    (ins "::mlir::OpBuilder &":$builder, "::mlir::Location":$loc,
         "::mlir::ValueRange":$args)>
  ];
}

def IndexedInterface : OpInterface<"IndexedOpInterface"> {
  let cppNamespace = "::shale";
  let description = [{
    An op with one result whose elements can be computed from elements of its
    operands at other indices: data movement, broadcasts, lookups, reductions.
    Fusion puts only `ElementwiseOpInterface` and `IndexedOpInterface` ops into clusters, and the
    kernel generator uses ops only through these two interfaces.
  }];
  let methods = [
    InterfaceMethod<[{
      Emits element `index` (row-major, linear) of the result. Returns null if
      the emitter has requested another schedule
      (dialects/interfaces/ElementEmitter.h).
    }],
    "::mlir::Value", "emitAt",
    (ins "::shale::ElementEmitter &":$emitter, "const ::shale::LinearIndex &":$index)>,
    InterfaceMethod<[{
      Whether the op can be emitted. An op that cannot, such as a constant that
      is not a splat, stays outside clusters.
    }],
    "bool", "canEmit", (ins), "", "return true;">,
    InterfaceMethod<[{
      Whether operand `number` is read at indices known only at run time, so
      that it must be in memory (the table of a lookup).
    }],
    "bool", "readsMemory", (ins "unsigned":$number), "", "return false;">,
    InterfaceMethod<"Returns which elements of operand `number` a result element needs.",
    "::shale::Access", "getAccess", (ins "unsigned":$number), "", "return ::shale::Access::Any;">
  ];
}

def DecomposableInterface : OpInterface<"DecomposableOpInterface"> {
  let cppNamespace = "::shale";
  let description = [{
    An op that can be expressed in simpler ops of `nn`: elementwise ops,
    broadcast, reduce, iota and data movement. Fusion decomposes ops that have
    no library call or dedicated kernel.
  }];
  let methods = [
    InterfaceMethod<[{
      Builds equivalent ops at `builder` and returns one value per result.
    }],
    "::llvm::SmallVector<::mlir::Value>", "decompose",
    (ins "::mlir::OpBuilder &":$builder)>
  ];
}

def CostInterface : OpInterface<"CostOpInterface"> {
  let cppNamespace = "::shale";
  let description = [{
    An op that reports its number of floating-point operations. The bytes that
    it moves follow from its types.
  }];
  let methods = [
    InterfaceMethod<"Returns the number of floating-point operations of one execution.",
    "int64_t", "getFlops", (ins)>,
    InterfaceMethod<"Whether these are the operations of a matmul, whose rate depends on the type of the first operand.",
    "bool", "isMatmul", (ins), "", "return false;">
  ];
}

def PrecisionInterface : OpInterface<"PrecisionOpInterface"> {
  let cppNamespace = "::shale";
  let description = [{
    An op that declares the element types of its float operands and results. The
    precision stage inserts casts from these declarations alone. Fusion widens
    computations that a target cannot do in a 16-bit float type.
  }];
  let methods = [
    InterfaceMethod<"Returns the type in which operand `number`, a float tensor, is taken.",
    "::shale::Numeric", "getOperandNumeric", (ins "unsigned":$number), "", "return ::shale::Numeric::Follows;">,
    InterfaceMethod<"Returns the type in which result `number`, a float tensor, is produced.",
    "::shale::Numeric", "getResultNumeric", (ins "unsigned":$number), "", "return ::shale::Numeric::Follows;">,
    InterfaceMethod<[{
      Whether every result element is an operand element or a constant. Nothing
      is computed then, so a 16-bit float type needs no widening.
    }],
    "bool", "movesOnly", (ins), "", "return false;">
  ];
}

def GradientPartsInterface : OpInterface<"GradientPartsOpInterface"> {
  let cppNamespace = "::shale";
  let description = [{
    An op on whole gradients that is applied to parts of them: an update, a sum
    over micro-batches or a reduction of elements. No sharding propagates through
    it. `shale-partition` gives it parts of the parameter's layout, and
    `shale-materialize-units` rebuilds it on flat groups, before or after the sums
    over ranks.
  }];
}

def GradientAccumulationInterface : OpInterface<"GradientAccumulationOpInterface", [GradientPartsInterface]> {
  let cppNamespace = "::shale";
  let description = [{
    An op that adds the gradient of a micro-batch to the sum of the earlier ones.
    `shale-partition` gives it the layout of the parameter;
    `shale-materialize-units` makes it one sum per flat group.
  }];
  let methods = [
    InterfaceMethod<"Returns the symbol of the parameter's state.",
    "::llvm::StringRef", "getParameter", (ins), "", "return $_op.getParam();">,
    InterfaceMethod<"Returns the operand that is the gradient.",
    "::mlir::OpOperand &", "getGradientOperand", (ins), "", "return $_op.getGradientMutable();">,
    InterfaceMethod<"Returns the sum of the earlier micro-batches; null in the first one.",
    "::mlir::Value", "getEarlierSum", (ins), "", "return $_op.getInto();">
  ];
}

def UpdateFactorsAttrInterface : AttrInterface<"UpdateFactorsAttrInterface"> {
  let cppNamespace = "::shale";
  let description = [{
    The factors of a parameter, which multiply scalars of the formula of its update.
    Passes copy them unchanged from the parameter to its update.
  }];
  let methods = [
    InterfaceMethod<"Returns the value of the factor with this number.", "double", "getFactor", (ins "unsigned":$number)>
  ];
}

def OptimizerUpdateInterface : OpInterface<"OptimizerUpdateOpInterface", [GradientPartsInterface]> {
  let cppNamespace = "::shale";
  let description = [{
    An op that updates one parameter, or one flat group of parameters, and its
    optimizer state. Operands are in this order: parameter, gradient, state,
    `enable` (if false nothing changes), `scale` (a factor of the gradient),
    scalars of the formula, optionally the offset. The op of an optimizer
    implements `ElementwiseUpdateOpInterface` or `GroupUpdateOpInterface`, too;
    these say how `shale-materialize-units` moves it onto flat groups.
  }];
  let methods = [
    InterfaceMethod<"Returns the operand that is the parameter.",
    "::mlir::OpOperand &", "getParameterOperand", (ins), "", "return $_op->getOpOperand(0);">,
    InterfaceMethod<"Returns the operand that is the gradient.",
    "::mlir::OpOperand &", "getGradientOperand", (ins), "", "return $_op->getOpOperand(1);">,
    InterfaceMethod<"Returns the optimizer state operands. Result 0 is the new parameter, result i + 1 the new value of state i.",
    "::llvm::SmallVector<::mlir::OpOperand *>", "getStateOperands", (ins), "", [{
      ::llvm::SmallVector<::mlir::OpOperand *> operands;
      for (::mlir::OpOperand &operand : $_op->getOpOperands().slice(2, $_op->getNumResults() - 1))
        operands.push_back(&operand);
      return operands;
    }]>,
    InterfaceMethod<"Returns the operands that belong to the parameter: the parameter, its gradient and its state.",
    "::llvm::SmallVector<::mlir::OpOperand *>", "getOwnOperands", (ins), "", [{
      ::llvm::SmallVector<::mlir::OpOperand *> operands{&$_op.getParameterOperand(), &$_op.getGradientOperand()};
      ::llvm::append_range(operands, $_op.getStateOperands());
      return operands;
    }]>,
    InterfaceMethod<[{
      Whether the states have the parameter's shape. They are then stored and split as the parameter's flat group is.
      Other states are whole on every rank, in a flat group of their own.
    }],
    "bool", "hasElementwiseState", (ins), "", "return true;">,
    InterfaceMethod<"Returns the number of the operand `enable`; that of `scale` follows.",
    "unsigned", "getEnableNumber", (ins), "", "return $_op.getEnableMutable().getOperandNumber();">,
    InterfaceMethod<"Returns the numbers of the scalars of the formula.",
    "::llvm::iota_range<unsigned>", "getHyperNumbers", (ins), "", [{
      unsigned begin = 3 + $_op->getNumResults(), end = $_op->getNumOperands() - bool($_op.getOffset());
      return ::llvm::seq(begin, end);
    }]>,
    InterfaceMethod<"Returns the number of the factor that multiplies operand `number`, a scalar of the formula, or nothing.",
    "std::optional<unsigned>", "getFactorOn", (ins "unsigned":$number)>,
    InterfaceMethod<"Returns the factors of the parameter, or null if all are 1.",
    "::shale::UpdateFactorsAttrInterface", "getUpdateFactors", (ins), "", "return $_op.getFactorsAttr();">,
    InterfaceMethod<"Returns the operand with the first element of the operands in their group, or null.",
    "::mlir::Value", "getGroupOffset", (ins), "", "return $_op.getOffset();">,
    InterfaceMethod<"Returns the list of `#nn.update_range` of a flat group, or null.",
    "::mlir::ArrayAttr", "getGroupSegments", (ins), "", "return $_op.getSegmentsAttr();">,
    InterfaceMethod<[{
      Makes this op the update of a flat group. `segments` is a list of
      `#nn.update_range`. `offset` is the element of the group at which the operands
      begin, or null if the operands are the whole group.
    }],
    "void", "setSegments", (ins "::mlir::Value":$offset, "::mlir::ArrayAttr":$segments), "", [{
      if (offset)
        $_op.getOffsetMutable().assign(offset);
      $_op.removeFactorsAttr(); // each segment has its own
      $_op.setSegmentsAttr(segments);
    }]>
  ];
}

def ElementwiseUpdateInterface : OpInterface<"ElementwiseUpdateOpInterface"> {
  let cppNamespace = "::shale";
  let description = [{
    An update (`OptimizerUpdateOpInterface`) of which element i of every result
    depends only on element i of the parameter, the gradient and the state.
    `shale-materialize-units` therefore applies the op itself to flat groups
    and to slices of them, and targets make its kernel of the formula.
  }];
  let methods = [
    InterfaceMethod<[{
      Emits the update of one element, or of a vector of elements, in `arith` and
      `math`. Returns the new parameter and the new state.
    }],
    "::llvm::SmallVector<::mlir::Value>", "emitUpdate", (ins "const ::shale::UpdateElement &":$at)>
  ];
}

def GroupUpdateInterface : OpInterface<"GroupUpdateOpInterface"> {
  let cppNamespace = "::shale";
  let description = [{
    An update (`OptimizerUpdateOpInterface`) that is not elementwise: it needs
    sums over the elements of a parameter, or whole parameters. On a flat group it is several ops:
    sums of what the rank has, sums over ranks, gathered matrices, and ops on the rank's slice.
  }];
  let methods = [
    InterfaceMethod<[{
      Whether `buildGroupUpdate` gathers what tensor axes split (`GroupUpdate::isSplit`) where it needs whole parameters.
    }],
    "bool", "gathersParameters", (ins), "", "return false;">,
    InterfaceMethod<[{
      Builds the update of a flat group, or of this rank's slice of it. Returns the new parameters and the new state.
    }],
    "::llvm::SmallVector<::mlir::Value>", "buildGroupUpdate",
    (ins "::mlir::OpBuilder &":$builder, "const ::shale::GroupUpdate &":$group)>
  ];
}

def PartitionableInterface : OpInterface<"PartitionableOpInterface"> {
  let cppNamespace = "::shale";
  let description = [{
    An op whose local form is not its global form with other sizes, because it
    depends on which slice the rank holds. Such an op builds its own local form;
    partition clones all other ops with local types.

    A slice need not be contiguous: an axis may split each of several blocks of a
    factor (SplitAxis::blocks). An op that computes with indexes along a factor
    and does not handle blocks must mark the factor in its rule
    (RuleBuilder::contiguous).
  }];
  let methods = [
    InterfaceMethod<[{
      Builds this op's local form at `builder` and returns one value per result,
      of the types in `local`. Emits an error on the op if it fails.
    }],
    "::llvm::FailureOr<::llvm::SmallVector<::mlir::Value>>", "partition",
    (ins "::mlir::OpBuilder &":$builder, "const ::shale::LocalForm &":$local)>
  ];
}

def ElementReductionInterface : OpInterface<"ElementReductionOpInterface", [GradientPartsInterface]> {
  let cppNamespace = "::shale";
  let description = [{
    An op that sums a function of each element of each operand, such as the
    square of a norm. Zero elements contribute nothing, and operands may be
    added in any order and grouping. `shale-materialize-units` applies the op to flat
    shards and adds the partial sums.
  }];
}

def ViewInterface : OpInterface<"ViewOpInterface"> {
  let cppNamespace = "::shale";
  let description = [{
    An op whose results may be (parts of) its operands' buffers. A view costs
    nothing, and after plan it is an address. `isView` returns whether all
    results of an op are views.
  }];
  let methods = [
    InterfaceMethod<"Returns where result `number` lies. Called only on ops that are views.",
    "::shale::ViewPlace", "getViewPlace", (ins "unsigned":$number)>,
    InterfaceMethod<[{
      Whether result `number` is part of an operand's buffer; a slice along a dimension other than the first is not.
      Called often, so it must do no lookups.
    }],
    "bool", "isViewOf", (ins "unsigned":$number), "", "return true;">
  ];
}

def ElementMoveInterface : OpInterface<"ElementMoveOpInterface"> {
  let cppNamespace = "::shale";
  let description = [{
    An op each of whose result elements is an element of an operand, unchanged in
    value, or a constant of the op.
  }];
  let methods = [
    InterfaceMethod<"Returns which elements of operand `number` are in the result.",
    "::shale::MovedElements", "getMovedElements", (ins "unsigned":$number), "",
    "return ::shale::MovedElements::All;">
  ];
}

def RowLossInterface : OpInterface<"RowLossOpInterface"> {
  let cppNamespace = "::shale";
  let description = [{
    A loss that is a sum over the rows of a matrix of logits. `shale-chunk-losses`
    computes it in chunks of rows. The gradient of the logits may depend on other
    results, such as the number of labels, which must be known before the first
    chunk.
  }];
  let methods = [
    InterfaceMethod<"Returns the logits.", "::mlir::Value", "getLogits", (ins)>,
    InterfaceMethod<[{
      Builds, from other operands, the results that do not depend on the logits.
      Returns one value per result; null for results that depend on them.
    }],
    "::llvm::SmallVector<::mlir::Value>", "buildWithoutLogits",
    (ins "::mlir::OpBuilder &":$builder)>
  ];
}

def IndexUserInterface : OpInterface<"IndexUserOpInterface"> {
  let cppNamespace = "::shale";
  let description = [{
    An op that uses integers as indices (rows of a table, classes) and is defined
    only for indices in a range. The valid range of a program's input data is
    derived from it.
  }];
  let methods = [
    InterfaceMethod<"Returns the valid range of operand `number`, or nothing if it is not an index.",
    "::std::optional<::shale::IndexRange>", "getIndexRange", (ins "unsigned":$number)>
  ];
}

def PlacedAtUseInterface : OpInterface<"PlacedAtUseOpInterface"> {
  let cppNamespace = "::shale";
  let description = [{
    An op that the schedule stage moves to just before its first user. Computed earlier,
    the result would only occupy memory for longer.
  }];
  let methods = [
    InterfaceMethod<"Whether this particular op is placed at its first user.",
    "bool", "isPlacedAtUse", (ins), "", "return true;">
  ];
}

def StochasticInterface : OpInterface<"StochasticOpInterface"> {
  let cppNamespace = "::shale";
  let description = [{
    An op that draws random numbers in training and none in evaluation.
  }];
  let methods = [
    InterfaceMethod<"Whether this particular op draws random numbers.",
    "bool", "drawsRandom", (ins), "", "return true;">,
    InterfaceMethod<"Builds the op's evaluation form at `builder` and returns one value per result.",
    "::llvm::SmallVector<::mlir::Value>", "buildEvaluation", (ins "::mlir::OpBuilder &":$builder)>
  ];
}

def CollectiveInterface : OpInterface<"CollectiveOpInterface"> {
  let cppNamespace = "::shale";
  let description = [{
    An op with one operand and one result by which the ranks along one mesh axis
    exchange data. All of these ranks execute such ops in the same order.
  }];
  let methods = [
    InterfaceMethod<"Returns the mesh axis along which ranks take part.",
    "::llvm::StringRef", "getCollectiveAxis", (ins)>,
    InterfaceMethod<"Returns the kind of exchange.",
    "::shale::CollectiveKind", "getCollectiveKind", (ins)>,
    InterfaceMethod<[{
      Returns the encoding whose words are exchanged; null if elements are, also if they are to be
      encoded later.
    }],
    "::mlir::Attribute", "getSentEncoding", (ins), "", "return {};">
  ];
}

#endif // SHALE_INTERFACES_TD
