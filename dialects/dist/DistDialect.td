//===- DistDialect.td - Distribution over ranks ---------------------------===//
#ifndef SHALE_DIST_DIALECT_TD
#define SHALE_DIST_DIALECT_TD

include "mlir/IR/OpBase.td"

def Dist_Dialect : Dialect {
  let name = "dist";
  let summary = "Mesh, shardings, units and collectives";
  let description = [{
    The distribution of values over ranks. A module has at most one `dist.mesh`;
    every axis name in this dialect is one of its axes. Ranks are numbered
    row-major over the axes: the last one varies fastest.

    Before partition a value is whole and an attribute gives its later layout.
    After partition types are those of one rank, and the collectives of this
    dialect move data.

    | attribute | on | meaning |
    |---|---|---|
    | `dist.sharding = #dist.sharding<...>` | arguments | the layout at use of the argument |
    | `dist.partitioned` | module | functions are those of one rank (`--shale-partition`) |
    | `dist.sharding = #dist.sharding<...>` | `nn.state` after partition | its layout at use, if it is not whole |
    | `dist.tensor = #dist.tensor_split<column>` | `nn.state` of a parameter | what tensor axes split: the dimension of the results of its matmuls (`column`), the one that these sum over (`row`), nothing (`whole`) |
    | `dist.plan = "..."` | `nn.state` of a parameter | why tensor axes split it as they do, for reports |
    | `dist.plan_costs = [#dist.split_cost<...>]` | `nn.state` of a parameter | what each way to split it costs, if a search decided |
    | `dist.shardings = [...]` | ops | the layout of each result |
    | `dist.factors = #dist.sharding<[{"fsdp"}, {}, {"tp"} ]>` | ops whose factors axes split | the axes of each factor of the op's rule; `partial`: those on which the op adds up partial sums. The layouts of operands and results follow from it |
    | `dist.strategy = #dist.strategy<full>` | module | which state the axes that split state divide at rest |
    | `dist.keep_gathered` | module | gathered units stay whole until their last use |
    | `dist.keep_single_rank` | module | values are split over axes of one rank, too, and collectives along them remain |
    | `dist.quantize_gathers = #dist<encoding int8>` | module | trained parameters are split at rest by every strategy that splits something, and gathered in the encoding; `= bf16` or `= f16`: those of f32 are rounded to it |
    | `dist.quantize_reductions = #dist<encoding int8>` | module | gradients are summed over data axes in the encoding, with error feedback |
    | `dist.wide_sums` | module | sums of matmuls over tensor axes are sent as their terms are added; absent: in the 16-bit type to which the matmuls are rounded, if they are |
    | `dist.reduce_once` | module | gradients of a step's micro-batches are summed whole and reduced with the last one |
    | `dist.partial = ["fsdp"]` | `nn.state` of a flat gradient accumulator | the axes over which it is still to be summed: each rank has one term |
    | `dist.bucket = 0 : i64` | `dist.start` | the number of the bucket: reductions of one bucket, or gathers, are exchanged together |
    | `dist.unit = @u`, `dist.group = 0 : i64` | flat `nn.state` (`--shale-materialize-units`) | the group that it stores |
    | `dist.copy = @s` | flat `nn.state` | the flat state of which this is a rounded copy, rewritten by each update |
    | `dist.axis = "fsdp"` | flat `nn.state` | the axis that splits it at rest; absent: whole on every rank |
  }];
  let cppNamespace = "::shale::dist";
  let discardableAttrs = (ins
    "::shale::dist::ShardingAttr":$sharding,
    "::mlir::ArrayAttr":$shardings,
    "::shale::dist::ShardingAttr":$factors,
    "::mlir::UnitAttr":$partitioned,
    "::shale::dist::TensorSplitAttr":$tensor,
    "::mlir::StringAttr":$plan,
    "::mlir::ArrayAttr":$plan_costs,
    "::shale::dist::StrategyAttr":$strategy,
    "::mlir::UnitAttr":$keep_gathered,
    "::mlir::UnitAttr":$keep_single_rank,
    "::mlir::Attribute":$quantize_gathers,
    "::shale::dist::EncodingAttr":$quantize_reductions,
    "::mlir::UnitAttr":$wide_sums,
    "::mlir::UnitAttr":$reduce_once,
    "::mlir::ArrayAttr":$partial,
    "::mlir::IntegerAttr":$bucket,
    "::mlir::FlatSymbolRefAttr":$unit,
    "::mlir::IntegerAttr":$group,
    "::mlir::FlatSymbolRefAttr":$copy,
    "::mlir::StringAttr":$axis
  );
  let useDefaultAttributePrinterParser = 1;
  let useDefaultTypePrinterParser = 1;
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
  let extraClassDeclaration = [{
    void registerAttributesAndTypes();
  }];
}

#endif // SHALE_DIST_DIALECT_TD
