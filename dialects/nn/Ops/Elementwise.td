//===- Elementwise.td - Elementwise ops -----------------------------------===//
#ifndef SHALE_NN_ELEMENTWISE_TD
#define SHALE_NN_ELEMENTWISE_TD

include "dialects/nn/NNBase.td"

// Life of all ops here: made by import, by autodiff and by decomposition; gone
// after fusion, which puts them into the regions of nn.cluster.

class NN_Unary<string mnemonic, Type operand, string what, string formula,
               list<Trait> traits = [], Trait rule = NN_ShardedAlike>
    : NN_Op<mnemonic, [Pure, SameOperandsAndResultType, NN_ElementwiseOp,
                       rule, NN_Follows] # traits> {
  let summary = what;
  let description = !strconcat("Each element becomes ", formula, ".\n\n",
      "Example: `%1 = nn.", mnemonic, " %0 : tensor<4x8xf32>`");
  let arguments = (ins operand:$input);
  let results = (outs operand:$result);
  let assemblyFormat = "$input attr-dict `:` type($result)";
}

class NN_Binary<string mnemonic, Type operand, string what, string formula,
                list<Trait> traits = [], Trait rule = NN_ShardedAlike>
    : NN_Op<mnemonic, [Pure, SameOperandsAndResultType, NN_ElementwiseOp,
                       rule, NN_Follows] # traits> {
  let summary = what;
  let description = !strconcat("Each element is ", formula,
      ". Shapes are equal: broadcasting is `nn.broadcast`.\n\n",
      "Example: `%2 = nn.", mnemonic, " %0, %1 : tensor<4x8xf32>`");
  let arguments = (ins operand:$lhs, operand:$rhs);
  let results = (outs operand:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` type($result)";
}

def NN_AddOp : NN_Binary<"add", NN_NumberTensor, "Sum", "lhs + rhs", [Commutative, NN_Differentiable], NN_Sharded>;
def NN_SubOp : NN_Binary<"sub", NN_NumberTensor, "Difference", "lhs - rhs", [NN_Differentiable], NN_Sharded>;
def NN_MulOp : NN_Binary<"mul", NN_NumberTensor, "Product", "lhs * rhs", [Commutative, NN_Differentiable], NN_Sharded>;
def NN_DivOp : NN_Binary<"div", NN_NumberTensor, "Quotient", "lhs / rhs; integers truncate, and give 0 where rhs is 0", [NN_Differentiable], NN_Sharded>;
def NN_RemOp : NN_Binary<"rem", NN_NumberTensor, "Remainder", "the remainder of lhs / rhs with the sign of lhs; integers give 0 where rhs is 0", [NN_Differentiable]>;
def NN_MaxOp : NN_Binary<"max", NN_NumberTensor, "Larger", "the larger of both; NaN if one is", [Commutative, NN_Differentiable]>;
def NN_MinOp : NN_Binary<"min", NN_NumberTensor, "Smaller", "the smaller of both; NaN if one is", [Commutative, NN_Differentiable]>;
def NN_PowOp : NN_Binary<"pow", NN_FloatTensor, "Power", "lhs to the power rhs; the gradient of rhs is 0 where lhs is 0 and rhs is not negative, and not defined where lhs is negative", [NN_Differentiable]>;
def NN_XLogYOp : NN_Binary<"xlogy", NN_FloatTensor, "Product with a logarithm", "lhs * log(rhs), but 0 where lhs is 0 and rhs is not NaN; the gradient of lhs is 0 where lhs is 0 and rhs is not positive", [NN_Differentiable]>;
def NN_BitsTensor : StaticShapeTensorOf<[I1, I32, I64]>;
def NN_AndOp : NN_Binary<"and", NN_BitsTensor, "Conjunction", "lhs and rhs, of integers bit by bit", [Commutative]>;
def NN_OrOp : NN_Binary<"or", NN_BoolTensor, "Disjunction", "lhs or rhs", [Commutative]>;
def NN_XorOp : NN_Binary<"xor", NN_BoolTensor, "Exclusive or", "lhs xor rhs", [Commutative]>;

def NN_NotOp : NN_Unary<"not", NN_BoolTensor, "Negation", "not input">;
def NN_NegOp : NN_Unary<"neg", NN_NumberTensor, "Negative", "-input", [NN_Differentiable], NN_Sharded>;
def NN_AbsOp : NN_Unary<"abs", NN_NumberTensor, "Absolute value", "|input|", [NN_Differentiable]>;
def NN_SignOp : NN_Unary<"sign", NN_NumberTensor, "Sign", "-1, 0 or 1", [NN_Differentiable]>;
def NN_StopGradientOp : NN_Unary<"stop_gradient", NN_FloatTensor, "Stop of gradients", "itself; no gradient reaches the operand. Made by import, gone after autodiff", [NN_Differentiable]>;
def NN_FloorOp : NN_Unary<"floor", NN_FloatTensor, "Floor", "the largest integer not above input", [NN_Differentiable]>;
def NN_CeilOp : NN_Unary<"ceil", NN_FloatTensor, "Ceiling", "the smallest integer not below input", [NN_Differentiable]>;
def NN_ExpOp : NN_Unary<"exp", NN_FloatTensor, "Exponential", "exp(input)", [NN_Differentiable]>;
def NN_Expm1Op : NN_Unary<"expm1", NN_FloatTensor, "Exponential minus one", "exp(input) - 1, of full precision near 0", [NN_Differentiable]>;
def NN_LogOp : NN_Unary<"log", NN_FloatTensor, "Natural logarithm", "log(input)", [NN_Differentiable]>;
def NN_Log1pOp : NN_Unary<"log1p", NN_FloatTensor, "Logarithm of one plus the operand", "log(1 + input), of full precision near 0", [NN_Differentiable]>;
def NN_SqrtOp : NN_Unary<"sqrt", NN_FloatTensor, "Square root", "sqrt(input)", [NN_Differentiable]>;
def NN_RsqrtOp : NN_Unary<"rsqrt", NN_FloatTensor, "Reciprocal square root", "1 / sqrt(input)", [NN_Differentiable]>;
def NN_TanhOp : NN_Unary<"tanh", NN_FloatTensor, "Hyperbolic tangent", "tanh(input)", [NN_Differentiable]>;
def NN_ErfOp : NN_Unary<"erf", NN_FloatTensor, "Error function", "erf(input)", [NN_Differentiable]>;
def NN_ErfcOp : NN_Unary<"erfc", NN_FloatTensor, "Complementary error function", "1 - erf(input), of full precision where it is small", [NN_Differentiable]>;
def NN_ErfcxOp : NN_Unary<"erfcx", NN_FloatTensor, "Scaled complementary error function", "exp(input^2) (1 - erf(input)), of full precision where a factor overflows or is 0", [NN_Differentiable]>;
def NN_SigmoidOp : NN_Unary<"sigmoid", NN_FloatTensor, "Logistic function", "1 / (1 + exp(-input))", [NN_Differentiable]>;
def NN_SinOp : NN_Unary<"sin", NN_FloatTensor, "Sine", "sin(input)", [NN_Differentiable]>;
def NN_CosOp : NN_Unary<"cos", NN_FloatTensor, "Cosine", "cos(input)", [NN_Differentiable]>;
def NN_SiluOp : NN_Unary<"silu", NN_FloatTensor, "Sigmoid-weighted linear unit (Swish)", "input * sigmoid(input)", [NN_Differentiable]>;

def NN_GeluOp : NN_Op<"gelu", [Pure, SameOperandsAndResultType, NN_ElementwiseOp,
                               NN_ShardedAlike, NN_Follows, NN_Differentiable]> {
  let summary = "Gaussian error linear unit";
  let description = [{
    input * (1 + erf(input / sqrt(2))) / 2, or with `tanh`
    input * (1 + tanh(sqrt(2/pi) * (input + 0.044715 * input^3))) / 2
    (Hendrycks and Gimpel, arXiv 1606.08415), with both constants rounded to f32 as in exporters and PyTorch.

    Life: made by import (ONNX Gelu) and by recover; gone after fusion.

    Example: `%1 = nn.gelu %0 tanh : tensor<4x8xf32>`
  }];
  let arguments = (ins NN_FloatTensor:$input, UnitAttr:$approximate);
  let results = (outs NN_FloatTensor:$result);
  let assemblyFormat = "$input (`tanh` $approximate^)? attr-dict `:` type($result)";
}

#endif // SHALE_NN_ELEMENTWISE_TD
