//===- Loss.td - Cross-entropy --------------------------------------------===//
#ifndef SHALE_NN_LOSS_TD
#define SHALE_NN_LOSS_TD

include "dialects/nn/NNBase.td"

def NN_CrossEntropyOp : NN_Op<"cross_entropy", [Pure,
    TypesMatchWith<"scalar of the type in which logits are summed", "logits", "loss_sum", "::shale::nn::rowType($_self, 0)">,
    TypesMatchWith<"scalar of the type in which logits are summed", "logits", "count", "::shale::nn::rowType($_self, 0)">,
    TypesMatchWith<"one per row", "logits", "lse", "::shale::nn::rowType($_self, 1)">,
    NN_Sharded, NN_Partitionable, NN_Differentiable, NN_Decomposable, NN_RowLoss, NN_AbsentClasses, NN_IndexUser, NN_Cost, NN_Numeric]> {
  let summary = "Sum of the cross-entropies of rows, and their number";
  let description = [{
    loss_sum = sum over rows n with labels[n] != ignore_index of
    lse[n] - logits[n, labels[n]]; count is the number of these rows; lse[n] is
    the logarithm of the row's sum of exponentials, kept for the gradient. Import
    builds the mean as a separate division, so that sum and count can be reduced
    over ranks first. For a label that is no class and not ignore_index, 0 is
    used instead of the logit. Classes are the columns [0, V), or [0, `classes`): columns
    from there on are padding, and no result depends on them.

    Life: made by import; `classes` is set where a vocabulary is padded; decomposed by fusion.

    Constraints:
    - (C1) logits [N, V], labels [N], lse [N]; loss_sum and count are scalars; these and lse are of the
      logits' element type, or of f32 if that is a 16-bit float type.
    - (C2) `classes` is from 1 to V.

    Example: `%sum, %count, %lse = nn.cross_entropy %logits, %labels ignore_index = -100 : tensor<32x256xf32>, tensor<32xi64>`
  }];
  let arguments = (ins NN_FloatTensor:$logits, NN_IntTensor:$labels, I64Attr:$ignore_index,
                       OptionalAttr<I64Attr>:$classes);
  let results = (outs NN_FloatScalar:$loss_sum, NN_FloatScalar:$count, NN_FloatTensor:$lse);
  let assemblyFormat = [{
    $logits `,` $labels `ignore_index` `=` $ignore_index (`classes` `=` $classes^)? attr-dict `:` type($logits) `,` type($labels)
  }];
  let hasVerifier = 1;
}

def NN_CrossEntropyGradOp : NN_Op<"cross_entropy_grad", [Pure, AllTypesMatch<["logits", "result"]>,
    TypesMatchWith<"scalar of the type in which logits are summed", "logits", "grad", "::shale::nn::rowType($_self, 0)">,
    TypesMatchWith<"one per row", "logits", "lse", "::shale::nn::rowType($_self, 1)">,
    NN_Sharded, NN_Partitionable, NN_Decomposable, NN_AbsentClasses, NN_Cost, NN_Numeric]> {
  let summary = "Gradient of the sum of cross-entropies";
  let description = [{
    result[n, v] = grad * (exp(logits[n, v] - lse[n]) - [v == labels[n]]) where
    labels[n] != ignore_index, else 0. `grad` is the gradient of loss_sum. The result is 0 in
    columns from `classes` on.

    Life: made by autodiff; decomposed by fusion; its result may reuse the
    buffer of the logits.

    Constraints:
    - (C1) types are as in `nn.cross_entropy`; grad is a scalar; the result has the logits' type.
    - (C2) `classes` is from 1 to V.

    Example: `%1 = nn.cross_entropy_grad %logits, %labels, %lse, %g ignore_index = -100 : tensor<32x256xf32>, tensor<32xi64>`
  }];
  let arguments = (ins NN_FloatTensor:$logits, NN_IntTensor:$labels, NN_FloatTensor:$lse,
                       NN_FloatScalar:$grad, I64Attr:$ignore_index, OptionalAttr<I64Attr>:$classes);
  let results = (outs NN_FloatTensor:$result);
  let assemblyFormat = [{
    $logits `,` $labels `,` $lse `,` $grad `ignore_index` `=` $ignore_index (`classes` `=` $classes^)? attr-dict `:` type($logits) `,` type($labels)
  }];
  let hasVerifier = 1;
}

#endif // SHALE_NN_LOSS_TD
