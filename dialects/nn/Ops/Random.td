//===- Random.td - Ops that draw random numbers ----------------------------===//
#ifndef SHALE_NN_RANDOM_TD
#define SHALE_NN_RANDOM_TD

include "dialects/nn/NNBase.td"

def NN_DropoutOp : NN_Op<"dropout", [Pure, AllTypesMatch<["input", "result"]>,
                                     AllTypesMatch<["seed", "step", "microbatch"]>, NN_Differentiable, NN_Sharded,
                                     NN_Partitionable, NN_Stochastic, NN_IndexedMove, NN_Cost, NN_Follows]> {
  let summary = "Zeroes elements at random and scales up the others";
  let description = [{
    Element e is 0 with probability `ratio`, else input * 1 / (1 - ratio). The
    choice depends only on the seed, the step, the micro-batch, `id` and the
    element's row-major number in the whole tensor. The forward and the backward
    pass, every rank, strategy and recomputation, and a resumed run therefore draw
    the same bits. The numbers are word 0 of Philox-4x32-10
    (Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3, SC 2011) with
    the key (seed low, seed high) and the counter (element low, element high |
    micro-batch << 16, step low, id); an element is kept where that word, as
    unsigned, is at least ratio * 2^32.

    In a local form, `offset` is the number of its first element and
    `global_shape` the shape of the whole.

    Life: made by import, which assigns `id`; clones keep the id; autodiff builds
    its gradient, which is the same op, and removes it from `@evaluate`; gone
    after fusion.

    Constraints:
    - (C1) ratio is in [0, 1), id in [0, 2^32).
    - (C2) `global_shape`, if present, has the input's rank and no smaller dimension; `offset` requires it.
    - (C3) the whole has at most 2^48 elements.

    Example: `%1 = nn.dropout %0 seed %s step %t microbatch %m ratio = 1.000000e-01 id = 3 : tensor<4x8xf32>, tensor<i64>`
  }];
  let arguments = (ins NN_FloatTensor:$input, NN_RandomScalar:$seed, NN_RandomScalar:$step, NN_RandomScalar:$microbatch,
      Optional<NN_RandomScalar>:$offset, F64Attr:$ratio, I64Attr:$id, OptionalAttr<DenseI64ArrayAttr>:$global_shape);
  let results = (outs NN_FloatTensor:$result);
  let assemblyFormat = [{
    $input `seed` $seed `step` $step `microbatch` $microbatch (`offset` $offset^ `:` type($offset))?
    `ratio` `=` $ratio `id` `=` $id (`of` $global_shape^)? attr-dict `:` type($input) `,` type($seed)
  }];
  let hasVerifier = 1;
}

def NN_UniformOp : NN_Op<"uniform", [Pure, AllTypesMatch<["seed", "step", "microbatch"]>, NN_Sharded, NN_Partitionable,
                                     NN_Stochastic, NN_Indexed, NN_Cost, NN_Numeric]> {
  let summary = "Draws random numbers from [0, 1)";
  let description = [{
    Element e is the upper 24 bits of the word that `nn.dropout` draws for it, by
    the same seed, step, micro-batch, `id` and number in the whole, times 2^-24.

    Life: made by import, which assigns `id`; clones keep the id. In `@evaluate`
    seed, step and micro-batch are 0: each evaluation draws the same numbers. Gone
    after fusion.

    Constraints:
    - (C1) id is in [0, 2^32).
    - (C2) `global_shape`, if present, has the result's rank and no smaller dimension; `offset` requires it.
    - (C3) the whole has at most 2^48 elements.

    Example: `%1 = nn.uniform seed %s step %t microbatch %m id = 3 : tensor<4x8xf32>, tensor<i64>`
  }];
  let arguments = (ins NN_RandomScalar:$seed, NN_RandomScalar:$step, NN_RandomScalar:$microbatch,
      Optional<NN_RandomScalar>:$offset, I64Attr:$id, OptionalAttr<DenseI64ArrayAttr>:$global_shape);
  let results = (outs NN_FloatTensor:$result);
  let assemblyFormat = [{
    `seed` $seed `step` $step `microbatch` $microbatch (`offset` $offset^ `:` type($offset))?
    `id` `=` $id (`of` $global_shape^)? attr-dict `:` type($result) `,` type($seed)
  }];
  let hasVerifier = 1;
}

#endif // SHALE_NN_RANDOM_TD
