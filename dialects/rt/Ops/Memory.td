//===- Memory.td - Buffers, views and copies ------------------------------===//
#ifndef SHALE_RT_MEMORY_TD
#define SHALE_RT_MEMORY_TD

include "dialects/mem/MemBase.td"
include "dialects/rt/RTBase.td"

def RT_SlotOp : RT_Op<"slot", [Symbol, HasParent<"::mlir::ModuleOp">]> {
  let summary = "A piece of the state block";
  let description = [{
    This rank's part of the `nn.state` `NAME`: a tensor of `type` at byte `offset`
    of the block of persistent state that all functions share; with `host`, of the
    block in host memory. The symbol of the slot is `NAME@slot`. With `axis` the
    part is this rank's equal slice along that mesh axis, otherwise the whole.

    Life: made by plan; read by codegen, which writes the program's state table.

    Constraints:
    - (C1) offset is not negative and a multiple of 64.

    Example: `rt.slot @"h.0@slot" parameters offset = 128 : tensor<64xf32>`
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, RT_Int:$offset, TypeAttr:$type,
                       OptionalAttr<StrAttr>:$axis, RT_CategoryAttr:$category,
                       DefaultValuedAttr<Mem_Memory, "::shale::mem::Memory::Device">:$memory);
  let assemblyFormat = "$sym_name (custom<Memory>($memory)^)? `` $category `offset` `=` $offset (`axis` `=` $axis^)? `:` $type attr-dict";
  let hasVerifier = 1;
}

def RT_ConstantOp : RT_Op<"constant", [Symbol, HasParent<"::mlir::ModuleOp">]> {
  let summary = "Read-only data of the program";
  let description = [{
    Life: made by plan from `nn.constant`; becomes a global of the object file.

    Example: `rt.constant @constant_0 dense<[1, 2]> : tensor<2xi64>`
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, ElementsAttr:$value);
  let assemblyFormat = "$sym_name $value attr-dict";
}

def RT_BufferOp : RT_Op<"buffer", [Pure]> {
  let summary = "An allocation: a typed range of a block of memory";
  let description = [{
    `state` and `arena`: `offset` in bytes from the block's start (state: `symbol`
    is the slot); `input`: the `index`-th input; `constant`: the data `symbol`;
    `hyper` and `metric`: the `index`-th float. Categories are for reports.
    `name` is the source node or state. `padding` is the number of bytes of a
    flat group that hold no parameter. With `host` the state block or arena is
    the one in host memory.

    Life: made by plan; becomes an address in codegen.

    Constraints:
    - (C1) offset is not negative and a multiple of 64.
    - (C2) a state or arena buffer ends within `rt.state_bytes` or `rt.arena_bytes` of the module (`rt.host_state_bytes`, `rt.host_arena_bytes`).
    - (C3) input, hyper and metric buffers have an `index`, which is in the function's list; others have none.
    - (C4) constant and state buffers have a `symbol`, which names a constant or a slot; others have none.
    - (C5) a hyper or metric buffer is `memref<f32>`; an input buffer has the input's type.
    - (C6) only a state or arena buffer is in host memory.

    Example: `%0 = rt.buffer arena offset = 64 activations "h.0.ln" : memref<4x8xf32>`
  }];
  let arguments = (ins RT_SpaceAttr:$space, DefaultValuedAttr<RT_Int, "0">:$offset, OptionalAttr<RT_Int>:$index,
                       OptionalAttr<FlatSymbolRefAttr>:$symbol, RT_CategoryAttr:$category,
                       StrAttr:$name, DefaultValuedAttr<RT_Int, "0">:$padding,
                       DefaultValuedAttr<Mem_Memory, "::shale::mem::Memory::Device">:$memory);
  let results = (outs RT_Buffer:$result);
  let assemblyFormat = [{
    `` $space (custom<Memory>($memory)^)? (`offset` `=` $offset^)? (`index` `=` $index^)? ($symbol^)? `` $category $name (`padding` `=` $padding^)? attr-dict `:` type($result)
  }];
  let hasVerifier = 1;
}

def RT_ViewOp : RT_Op<"view", [Pure]> {
  let summary = "Part of a buffer, or the same bytes in another shape";
  let description = [{
    The result begins `offset` bytes into the source.

    Life: made by plan (reshape, parameters within a gathered unit, gradients
    within a packed one); becomes an address in codegen.

    Constraints:
    - (C1) offset is not negative and the result ends within the source.

    Example: `%1 = rt.view %0 offset = 128 : memref<64xf32> -> memref<4x8xf32>`
  }];
  let arguments = (ins RT_Buffer:$source, RT_Int:$offset);
  let results = (outs RT_Buffer:$result);
  let assemblyFormat = "$source `offset` `=` $offset attr-dict `:` type($source) `->` type($result)";
  let hasVerifier = 1;
}

def RT_ShardOp : RT_Op<"shard", [Pure]> {
  let summary = "This rank's equal slice of a buffer";
  let description = [{
    The result begins coordinate(axis) times its own size into the source. The
    coordinate is known only at run time, so all ranks run the same program.

    Life: made by plan (a replicated group's slice that the optimizer updates in
    place, a reduce-scatter in place); becomes an address in codegen.

    Constraints:
    - (C1) element types are equal and the source has a whole multiple of the result's elements.

    Example: `%1 = rt.shard %0 axis = "fsdp" : memref<64xf32> -> memref<16xf32>`
  }];
  let arguments = (ins RT_Buffer:$source, StrAttr:$axis);
  let results = (outs RT_Buffer:$result);
  let assemblyFormat = "$source `axis` `=` $axis attr-dict `:` type($source) `->` type($result)";
  let hasVerifier = 1;
}

def RT_CopyOp : RT_Op<"copy"> {
  let summary = "Copies a buffer's bytes";
  let description = [{
    Life: made by plan where a value is needed in a second buffer; becomes
    `shale_copy` in codegen.

    Constraints:
    - (C1) source and target have the same number of elements of one type.

    Example: `rt.copy %0 to %1 : memref<4x8xf32> to memref<32xf32>`
  }];
  let arguments = (ins Arg<RT_Buffer, "what is read", [MemRead]>:$source,
                       Arg<RT_Buffer, "what is written", [MemWrite]>:$target);
  let assemblyFormat = "$source `to` $target attr-dict `:` type($source) `to` type($target)";
  let hasVerifier = 1;
}

def RT_TransferOp : RT_Op<"transfer"> {
  let summary = "Starts a copy between device memory and host memory";
  let description = [{
    Starts the copy and returns at once; both buffers belong to the runtime until
    `rt.wait` on the token. Copies run in the order in which they start. `index`
    is the number of the copy in the program: those of a module are 0, 1, .., each
    once, which `shale-lower-program` checks.

    Life: made by plan from `mem.start`; becomes `shale_transfer_start` in codegen.

    Constraints:
    - (C1) source and target have the same number of elements of one type, and only one of them is in host memory.

    Example: `%t = rt.transfer %0 to %1 index = 0 name = "h.0" : memref<4xf32> to memref<4xf32>`
  }];
  let arguments = (ins Arg<RT_Buffer, "what is read", [MemRead]>:$source,
                       Arg<RT_Buffer, "what is written", [MemWrite]>:$target, RT_Int:$index, StrAttr:$name);
  let results = (outs RT_Token:$token);
  let assemblyFormat = "$source `to` $target `index` `=` $index `name` `=` $name attr-dict `:` type($source) `to` type($target)";
  let hasVerifier = 1;
}

def RT_ZeroOp : RT_Op<"zero"> {
  let summary = "Sets a buffer's bytes to zero";
  let description = [{
    Life: made by plan (padding of packed gradients); becomes `shale_zero` in codegen.

    Example: `rt.zero %0 : memref<16xf32>`
  }];
  let arguments = (ins Arg<RT_Buffer, "what is written", [MemWrite]>:$target);
  let assemblyFormat = "$target attr-dict `:` type($target)";
}

def RT_CoordinateOp : RT_Op<"coordinate"> {
  let summary = "Writes this rank's coordinate on a mesh axis";
  let description = [{
    Life: made by plan from `dist.coordinate`; becomes `shale_store_coordinate` in codegen.

    Example: `rt.coordinate axis = "fsdp" to %0 : memref<i64>`
  }];
  let arguments = (ins StrAttr:$axis, Arg<StaticShapeMemRefOf<[I64]>, "what is written", [MemWrite]>:$target);
  let assemblyFormat = "`axis` `=` $axis `to` $target attr-dict `:` type($target)";
}

#endif // SHALE_RT_MEMORY_TD
