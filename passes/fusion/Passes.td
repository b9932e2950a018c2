//===- Passes.td - Passes of the fusion stage -----------------------------===//
#ifndef SHALE_PASSES_FUSION_TD
#define SHALE_PASSES_FUSION_TD

include "mlir/Pass/PassBase.td"

def ConvertGathersPass : Pass<"shale-convert-gathers", "::mlir::ModuleOp"> {
  let summary = "Casts what is sent in another type than it is stored in";
  let description = [{
    A `dist.unit_gather` whose shard is stored wider than it is sent becomes an
    `nn.cast` of the shard and a gather of the cast shards: conversion comes
    before sending. Over an axis of one rank only the cast is left.
  }];
  let dependentDialects = ["::shale::nn::NNDialect"];
}

def WidenPass : Pass<"shale-widen", "::mlir::ModuleOp"> {
  let summary = "Computes on half types in f32";
  let description = [{
    Every op that computes on 16-bit floats and that the target does not take as it
    is gets operands cast to f32, and each 16-bit result is rounded once, by a cast
    behind it. Ops that only move elements stay. Values keep their types, so the
    bits that other ranks and steps see are the same.

    On a CPU, products, attention, tables and updates take 16-bit floats: they widen
    operands a piece at a time in scratch, and a product of which only the rounded
    value is read rounds as it writes. All others become part of a kernel, and so do
    the casts: no f32 copy of a 16-bit value is stored.
  }];
  let dependentDialects = ["::shale::nn::NNDialect"];
}

def DecomposePass : Pass<"shale-decompose", "::mlir::ModuleOp"> {
  let summary = "Decomposes ops that have no library call or dedicated kernel";
  let description = [{
    Every `Decomposable` op for which the target has no kernel is replaced by its
    decomposition, until none is left; unused results go away. With `all`, ops
    for which it has one are decomposed, too.
  }];
  let options = [Option<"all", "all", "bool", "false", "Decompose ops that have a kernel of their own, too">];
  let dependentDialects = ["::shale::nn::NNDialect"];
}

def FusionPass : Pass<"shale-fusion", "::mlir::ModuleOp"> {
  let summary = "Puts ops that become one kernel into one nn.cluster";
  let description = [{
    After it, no `Elementwise` op and no `Indexed` op that moves or computes
    anything is outside of a cluster. A cluster has one domain of R rows and C
    columns: its values have R*C elements or, one for each row, R; anything else is read
    through an index map on the way in. A half value that is read wide is stored as
    it is, and widened by each cluster that reads it. Fusion changes no bits. With
    `singletons` each op becomes a cluster of its own.
  }];
  let options = [Option<"singletons", "singletons", "bool", "false", "One op a cluster">];
  let dependentDialects = ["::shale::nn::NNDialect"];
}

def SplitClustersPass : Pass<"shale-split-clusters", "::mlir::ModuleOp"> {
  let summary = "Splits clusters that no kernel schedule fits; refuses ops that no kernel computes";
  let description = [{
    The exit contract of fusion: after it, code generation takes every cluster and
    every op with a kernel of its own. The kernel of each different one is generated
    for trial. A cluster of which none can be generated becomes one cluster for each
    of its ops. An op that has no kernel alone either is an error; one error lists
    all of them, each with the reason.
  }];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::math::MathDialect", "::mlir::memref::MemRefDialect",
    "::mlir::scf::SCFDialect", "::mlir::vector::VectorDialect", "::mlir::LLVM::LLVMDialect",
    "::mlir::func::FuncDialect", "::shale::nn::NNDialect"
  ];
}

#endif // SHALE_PASSES_FUSION_TD
