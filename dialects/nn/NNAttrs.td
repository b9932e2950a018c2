//===- NNAttrs.td - Attributes and enums of nn ----------------------------===//
#ifndef SHALE_NN_ATTRS_TD
#define SHALE_NN_ATTRS_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "dialects/interfaces/Interfaces.td"
include "dialects/nn/NNDialect.td"

class NN_Attr<string name, string mnemonic_, list<Trait> traits = []>
    : AttrDef<NN_Dialect, name, traits> {
  let mnemonic = mnemonic_;
}

def NN_Role : I32EnumAttr<"Role", "what a value is to the training step", [
    I32EnumAttrCase<"Param", 0, "param">,
    I32EnumAttrCase<"Buffer", 1, "buffer">,
    I32EnumAttrCase<"Moment", 2, "moment">,
    I32EnumAttrCase<"Input", 3, "input">,
    I32EnumAttrCase<"Label", 4, "label">,
    I32EnumAttrCase<"Hyper", 5, "hyper">,
    I32EnumAttrCase<"Metric", 6, "metric">,
    I32EnumAttrCase<"LossScale", 7, "loss_scale">,
    I32EnumAttrCase<"GradAccumulator", 8, "grad_accumulator">,
    I32EnumAttrCase<"Seed", 9, "seed">,
    I32EnumAttrCase<"Step", 10, "step">,
    I32EnumAttrCase<"Microbatch", 11, "microbatch">,
    I32EnumAttrCase<"Running", 12, "running">,
    I32EnumAttrCase<"Divided", 13, "divided">,
    I32EnumAttrCase<"Residual", 14, "residual">]> {
  let cppNamespace = "::shale::nn";
  let genSpecializedAttr = 0;
}
def NN_RoleAttr : EnumAttr<NN_Dialect, NN_Role, "role"> {
  let assemblyFormat = "`<` $value `>`";
}

def NN_Phase : I32EnumAttr<"Phase", "the part of the step an op belongs to", [
    I32EnumAttrCase<"Forward", 0, "forward">,
    I32EnumAttrCase<"Backward", 1, "backward">,
    I32EnumAttrCase<"Update", 2, "update">]> {
  let cppNamespace = "::shale::nn";
  let genSpecializedAttr = 0;
}
def NN_PhaseAttr : EnumAttr<NN_Dialect, NN_Phase, "phase"> {
  let assemblyFormat = "`<` $value `>`";
}

def NN_ReduceKind : I32EnumAttr<"ReduceKind", "how elements are reduced", [
    I32EnumAttrCase<"Sum", 0, "sum">,
    I32EnumAttrCase<"Max", 1, "max">,
    I32EnumAttrCase<"Min", 2, "min">,
    I32EnumAttrCase<"Prod", 3, "prod">]> {
  let cppNamespace = "::shale::nn";
  let genSpecializedAttr = 0;
}
def NN_ReduceKindAttr : EnumAttr<NN_Dialect, NN_ReduceKind, "reduce_kind">;

def NN_Predicate : I32EnumAttr<"Predicate", "an ordered comparison (ne: unordered)", [
    I32EnumAttrCase<"EQ", 0, "eq">,
    I32EnumAttrCase<"NE", 1, "ne">,
    I32EnumAttrCase<"LT", 2, "lt">,
    I32EnumAttrCase<"LE", 3, "le">,
    I32EnumAttrCase<"GT", 4, "gt">,
    I32EnumAttrCase<"GE", 5, "ge">]> {
  let cppNamespace = "::shale::nn";
  let genSpecializedAttr = 0;
}
def NN_PredicateAttr : EnumAttr<NN_Dialect, NN_Predicate, "predicate">;

def NN_PartAttr : NN_Attr<"Part", "part"> {
  let summary = "What a state holds of a divided parameter";
  let description = [{
    Indices from `begin` on along dimension `dim` of the divided parameter `whole`, as many as
    the state has along it. The last `padding` of the state's indices are none of the parameter:
    their elements are 0, no rank computes another value for them, and no file has them. They
    follow the end of the parameter, along its first dimension.

    Example: `#nn.part<@"h.0.c_attn.weight", dim = 1, begin = 64>`
  }];
  let parameters = (ins "::mlir::FlatSymbolRefAttr":$whole, "int64_t":$dim, "int64_t":$begin,
                        DefaultValuedParameter<"int64_t", "0">:$padding);
  let assemblyFormat = "`<` $whole `,` `dim` `=` $dim `,` `begin` `=` $begin (`,` `padding` `=` $padding^)? `>`";
}

def NN_FileAttr : NN_Attr<"File", "file"> {
  let summary = "A piece of a file, by reference";
  let description = [{
    The location of an initial value: `length` bytes at `offset` of the file at
    `path`, row-major, little-endian; with `transposed` the file holds the
    transpose of a two-dimensional state. The file's elements have type `type`:
    f32, bf16 or f16. Without it they have the state's type, or f32 if the state
    has a 16-bit float type and the file has twice as many bytes. Importing a
    model copies no weights.

    Example: `#nn.file<"model.onnx", offset = 128, length = 4096, transposed = false>`
  }];
  let parameters = (ins StringRefParameter<"path">:$path, "int64_t":$offset,
                        "int64_t":$length, "bool":$transposed,
                        OptionalParameter<"::mlir::Type">:$type);
  let assemblyFormat = [{
    `<` $path `,` `offset` `=` $offset `,` `length` `=` $length `,`
    `transposed` `=` $transposed (`,` `type` `=` $type^)? `>`
  }];
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Returns the type of the file's elements for a state of `count` elements of type `state`.
    ::mlir::Type elementTypeFor(::mlir::Type state, int64_t count);
  }];
}

def NN_PrecisionAttr : NN_Attr<"Precision", "precision"> {
  let summary = "The element types of a training step";
  let description = [{
    The values of `--param-dtype`, `--reduce-dtype`, `--buffer-dtype`,
    `--master-dtype` and `--optimizer-dtype`: parameters are used in `param`,
    gradients summed over ranks in `reduce`, buffers kept in `buffer`, parameters
    kept in `master` (equal to `param` if there are no master copies) and the
    optimizer state in `optimizer`. Each of the first three is f32, bf16 or f16; `master` is f32 or
    `param`; `optimizer` is f32 or bf16.

    Example: `#nn.precision<param = bf16, reduce = f32, buffer = f32, master = f32, optimizer = f32>`
  }];
  let parameters = (ins "::mlir::Type":$param, "::mlir::Type":$reduce, "::mlir::Type":$buffer,
                        "::mlir::Type":$master, "::mlir::Type":$optimizer);
  let assemblyFormat = [{
    `<` `param` `=` $param `,` `reduce` `=` $reduce `,` `buffer` `=` $buffer `,`
    `master` `=` $master `,` `optimizer` `=` $optimizer `>`
  }];
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Whether the loss is scaled, because gradients pass through f16, whose range is small.
    bool needsLossScale() const { return getParam().isF16() || getReduce().isF16(); }
    /// Whether every type is f32.
    bool isFull() const;
  }];
}

def NN_FillAttr : NN_Attr<"Fill", "fill"> {
  let summary = "Every element has one value";
  let description = [{ Example: `#nn.fill<0.0 : f64>` }];
  let parameters = (ins "::mlir::FloatAttr":$value);
  let assemblyFormat = "`<` $value `>`";
}

def NN_UpdateFactor : I32EnumAttr<"UpdateFactor", "a factor of a parameter in its update", [
    I32EnumAttrCase<"Decay", 0, "decay">,
    I32EnumAttrCase<"LrScale", 1, "lr_scale">]> {
  let cppNamespace = "::shale::nn";
  let genSpecializedAttr = 0;
}

// The factor that multiplies the scalar with this name in the formula of every update, as C++.
class NN_FactorOn<string scalar> {
  string factor = !cond(
    !eq(scalar, "lr"): "unsigned(UpdateFactor::LrScale)",
    !eq(scalar, "weight_decay"): "unsigned(UpdateFactor::Decay)",
    !eq(scalar, "decoupled_decay"): "unsigned(UpdateFactor::Decay)",
    !eq(scalar, "shrink"): "unsigned(UpdateFactor::Decay)",
    true: "std::nullopt");
}

def NN_UpdateFactorsAttr : NN_Attr<"UpdateFactors", "update_factors", [DeclareAttrInterfaceMethods<UpdateFactorsAttrInterface>]> {
  let summary = "Factors of a parameter in its update";
  let description = [{
    `decay` multiplies the weight decay, `lr_scale` the learning rate. `values` has a
    number for each factor. A factor that is not printed is 1. Passes copy the factors unchanged from the
    parameter to its update. If all are 1, there is no attribute.

    Constraints:
    - (C1) there is a value for each factor; all are finite, and one is not 1.

    Example: `#nn.update_factors<decay = 0.000000e+00, lr_scale = 1.000000e-01>`
  }];
  let parameters = (ins "::mlir::DenseF64ArrayAttr":$values);
  let assemblyFormat = "`<` custom<Factors>($values) `>`";
  let genVerifyDecl = 1;
}

def NN_UpdateRangeAttr : NN_Attr<"UpdateRange", "update_range"> {
  let summary = "A parameter's range of a flat group and its factors in the update";
  let description = [{
    Elements [offset, offset + count) of the group, which are updated with
    `factors`. Elements in no range are padding and stay as they are.

    Example: `#nn.update_range<offset = 0, count = 64, factors = #nn.update_factors<lr_scale = 1.000000e-01>>`
  }];
  let parameters = (ins "int64_t":$offset, "int64_t":$count, OptionalParameter<"::shale::UpdateFactorsAttrInterface">:$factors);
  let assemblyFormat = "`<` `offset` `=` $offset `,` `count` `=` $count (`,` `factors` `=` $factors^)? `>`";
}

def NN_FactoredRangeAttr : NN_Attr<"FactoredRange", "factored_range"> {
  let summary = "A parameter's range of a flat group and of a factored moment";
  let description = [{
    Elements of the group from `offset` hold a tensor of `shape`. Elements of the
    factored moment (`nn.adafactor`) from `at` hold its moment. Elements in no
    range are padding.

    Example: `#nn.factored_range<offset = 16, shape = [4, 8], at = 0>`
  }];
  let parameters = (ins "int64_t":$offset, OptionalArrayRefParameter<"int64_t">:$shape, "int64_t":$at);
  let assemblyFormat = "`<` `offset` `=` $offset `,` (`shape` `=` `[` $shape^ `]` `,`)? `at` `=` $at `>`";
  let extraClassDeclaration = [{
    /// Returns the number of elements, or -1 if it overflows 64 bits.
    int64_t getCount() const;
    Factors getFactors() const { return Factors::of(getShape()); }
  }];
}

def NN_DropAttr : NN_Attr<"Drop", "drop"> {
  let summary = "Dropout inside an op";
  let description = [{
    Elements are dropped as by `nn.dropout` with `ratio` and `id`. `of` is the
    shape of the whole tensor if the op has only a part of it.

    Example: `#nn.drop<ratio = 1.000000e-01 : f64, id = 3>`
  }];
  let parameters = (ins "::mlir::FloatAttr":$ratio, "int64_t":$id, OptionalArrayRefParameter<"int64_t">:$whole);
  let assemblyFormat = "`<` `ratio` `=` $ratio `,` `id` `=` $id (`,` `of` `=` `[` $whole^ `]`)? `>`";
}

#endif // SHALE_NN_ATTRS_TD
