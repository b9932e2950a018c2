//===- ExporterForms.cpp - How PyTorch's exporter writes operations -------===//
//
// One line per operation; Form.h has the grammar. Forms follow onnxscript 0.5 to
// 0.7 (function_libs/torch_lib/ops), and what its optimizer makes of them. An
// operation that is written otherwise is not compared.
//
//===----------------------------------------------------------------------===//
#include "lib/Frontend/ONNX/Record/Form.h"
#include "llvm/Support/ErrorHandling.h"

using namespace shale;
using namespace shale::onnx;

static constexpr llvm::StringLiteral kForms = R"(
# Functions of each element
neg(x) = Neg(x)
abs(x) = Abs(x)
exp(x) = Exp(x)
exp2(x) = Pow(2, x)
log(x) = Log(x)
sqrt(x) = Sqrt(x)
rsqrt(x) = Reciprocal(Sqrt(x))
reciprocal(x) = Reciprocal(x)
sin(x) = Sin(x)
cos(x) = Cos(x)
tanh(x) = Tanh(x)
sigmoid(x) = Sigmoid(x)
log_sigmoid(x) = Log(Sigmoid(x))
erf(x) = Erf(x)
relu(x) = Relu(x)
silu(x) = Mul(x, Sigmoid(x))
mish(x) = Mish(x)
prelu(x, w: flat) = PRelu(x, w)
hardswish(x) = HardSwish(x)
hardtanh(x, low=-1, high=1) = Clip(x, low, high)
elu(x, alpha=1, scale=1, inner=1) = scale=1: Elu(x){alpha=alpha}
celu(x, alpha=1) = Celu(x){alpha=alpha}
leaky_relu(x, slope=0.01) = LeakyRelu(x){alpha=slope}
softplus(x, beta=1, threshold=20) = Where(Greater(Mul(x, beta), threshold), x, Div(Softplus(Mul(x, beta)), beta)) | beta=1: Where(Greater(x, threshold), x, Softplus(x))
let INNER = Div(x, 1.4142135623730951)
let CUBE = Mul(0.044715, Pow(x, 3))
gelu(x, approximate=none) = Gelu(x){approximate=approximate} | approximate=none: Mul(x, Mul(0.5, Add(Erf(INNER), 1))) | approximate=tanh: Mul(x, Mul(0.5, Add(Tanh(Mul(0.7978845608028654, Add(x, CUBE))), 1)))
log1p(x) = Log(Add(x, 1))
floor(x) = Floor(x)
ceil(x) = Ceil(x)
round(x) = Round(x)
sign(x) = Sign(x)
isnan(x) = IsNaN(x)
logical_not, bitwise_not(x) = Not(x)
clone, alias(x) = Identity(x)
_to_copy, prims.convert_element_type, scalar_tensor(x, dtype) = Cast(x){to=type(dtype)}

# Functions of two operands
add(x, y, alpha=1) = alpha=1: Add(x, y) | alpha!=1: Add(x, Mul(y, alpha))
sub(x, y, alpha=1) = alpha=1: Sub(x, y) | alpha!=1: Sub(x, Mul(y, alpha))
rsub(x, y, alpha=1) = alpha=1: Sub(y, x)
mul(x, y) = Mul(x, y) | And(x, y)
div(x, y) = Div(x, y)
pow(x, y) = Pow(x, y)
maximum(x, y) = Max(x, y)
minimum(x, y) = Min(x, y)
clamp(x, low, high) = Clip(x, low, high) | high=None: Max(x, low) | low=None: Min(x, high) | Min(Max(x, low), high)
clamp_min(x, low) = Clip(x, low, _) | Max(x, low)
clamp_max(x, high) = Clip(x, _, high) | Min(x, high)
eq(x, y) = Equal(x, y)
ne(x, y) = Not(Equal(x, y))
lt(x, y) = Less(x, y)
le(x, y) = LessOrEqual(x, y)
gt(x, y) = Greater(x, y)
ge(x, y) = GreaterOrEqual(x, y)
logical_and, bitwise_and(x, y) = And(x, y)
logical_or, bitwise_or(x, y) = Or(x, y)
where(condition, x, y) = Where(condition, x, y)
masked_fill(x, mask, value) = Where(mask, value, x)
let STEP = Sub(y, x)
lerp(x, y, w) = Where(Less(w, 0.5), Add(x, Mul(w, STEP)), Sub(y, Mul(STEP, sub(1, w)))) | Where(_, Add(x, Mul(w, STEP)), Sub(y, Mul(_, STEP))) | Where(_, Add(x, Mul(w, STEP)), Sub(y, Mul(STEP, _)))
xlogy(x, y) = Where(Equal(x, 0), x, Where(IsNaN(y), y, Mul(x, Log(y))))

# Matmuls. The optimizer makes the padding before a convolution the convolution's, and one transpose of two.
matmul, bmm(x, y) = MatMul(x, y)
mm(x, y) = MatMul(x, y) | Gemm(x, y){alpha=1, beta=_, transA=0, transB=0}
linear(x, w, b) = Gemm(x, w, b){alpha=1, beta=1, transA=0, transB=_} | Add(MatMul(x, w), b) | MatMul(x, w) | Add(MatMul(x, Transpose(w){perm=[1, 0]}), b) | MatMul(x, Transpose(w){perm=[1, 0]})
addmm(b, x, w, beta=1, alpha=1) = Gemm(x, w, b){alpha=alpha, beta=beta, transA=0, transB=_} | Add(MatMul(x, w), b) | alpha=1: MatMul(x, w)
let MATMUL = either(Mul(MatMul(x, y), alpha), MatMul(x, y))
baddbmm(z, x, y, beta=1, alpha=1) = beta=1: Add(MATMUL, z) | beta=1: Add(z, MATMUL) | beta!=1: Add(MATMUL, Mul(z, beta))
let MOVED = Reshape(Transpose(w){perm=[1, 0, 2]}, _){allowzero=_}
let FORMS = Squeeze(MatMul(Reshape(MatMul(x, MOVED), _){allowzero=_}, Unsqueeze(y, _)), _)
bilinear(x, y, w, b) = Add(FORMS, b) | FORMS
einsum(equation, xs) = Einsum(*xs){equation=equation}
conv1d(x, w, b, stride=1, padding=0, dilation=1, groups=1) = Conv(x, w, b){strides=fill(stride, 1), pads=where_read(x, fill(padding, 2)), dilations=fill(dilation, 1), group=groups}
conv2d(x, w, b, stride=1, padding=0, dilation=1, groups=1) = Conv(x, w, b){strides=fill(stride, 2), pads=where_read(x, twice(fill(padding, 2))), dilations=fill(dilation, 2), group=groups}
conv3d(x, w, b, stride=1, padding=0, dilation=1, groups=1) = Conv(x, w, b){strides=fill(stride, 3), pads=where_read(x, twice(fill(padding, 3))), dilations=fill(dilation, 3), group=groups}
convolution(x, w, b, stride, padding, dilation, transposed, output_padding, groups=1) = transposed=False: Conv(x, w, b){strides=stride, pads=where_read(x, twice(padding)), dilations=dilation, group=groups} | transposed=True: ConvTranspose(x, w, b){strides=stride, pads=_, dilations=dilation, output_padding=_, group=groups}

# Reductions and norms
mean(x) = ReduceMean(x){keepdims=_} | Squeeze(ReduceMean(x){keepdims=_})
mean.dim(x, dims, keep=False) = ReduceMean(x, dims){keepdims=keep}
sum(x) = ReduceSum(x){keepdims=_} | Squeeze(ReduceSum(x){keepdims=_})
sum.dim_IntList(x, dims, keep=False) = ReduceSum(x, dims){keepdims=keep}
amax(x, dims, keep=False) = ReduceMax(x, dims){keepdims=keep}
amin(x, dims, keep=False) = ReduceMin(x, dims){keepdims=keep}
max.dim(x, dim, keep=False) = ReduceMax(x, dim){keepdims=keep} | ArgMax(x){axis=dim, keepdims=keep}
argmax(x, dim, keep=False) = ArgMax(x){axis=dim, keepdims=keep, select_last_index=0}
argmin(x, dim, keep=False) = ArgMin(x){axis=dim, keepdims=keep, select_last_index=0}
any.dim(x, dim, keep=False) = Cast(ReduceMax(x, dim){keepdims=keep}){to=_}
logsumexp(x, dims, keep=False) = ReduceLogSumExp(x, dims){keepdims=keep}
cumsum(x, dim) = CumSum(x, dim){exclusive=0, reverse=0}
linalg_vector_norm(x, order=2, dims, keep=False) = order=2: ReduceL2(x, dims){keepdims=keep} | order=1: ReduceL1(x, dims){keepdims=keep}
let CENTERED = Sub(x, ReduceMean(x, dims){keepdims=1})
let SQUARES = ReduceMean(Mul(CENTERED, CENTERED), dims){keepdims=keep}
prims.var(x, dims, correction=1, keep) = correction=0: SQUARES | correction!=0: Div(Mul(SQUARES, _), _)
var.correction(x, dims, correction=1, keep=False) = correction=0: SQUARES | correction!=0: Div(Mul(SQUARES, _), _)
softmax, _softmax(x, dim) = Softmax(x){axis=dim}
log_softmax, _log_softmax(x, dim) = LogSoftmax(x){axis=dim}
layer_norm, native_layer_norm(x, shape, w, b, eps=1e-05) = LayerNormalization(x, w, b){axis=neg(len(shape)), epsilon=eps}
rms_norm, _fused_rms_norm(x, shape, w, eps) = RMSNormalization(x, w){axis=neg(len(shape)), epsilon=eps}
let GROUPED = Reshape(InstanceNormalization(Reshape(x, [0, groups, -1]){allowzero=_}, _, _){epsilon=eps}, _){allowzero=_}
instance_norm(x, w, b, mean, variance, use_input, momentum=0.1, eps=1e-05) = use_input=True: InstanceNormalization(x, w, b){epsilon=eps}
group_norm(x, groups, w: flat, b: flat, eps=1e-05) = Add(Mul(GROUPED, w), b) | GROUPED
_native_batch_norm_legit_no_training(x, w, b, mean, variance, momentum=0.1, eps=1e-05) = BatchNormalization(x, w, b, mean, variance){epsilon=eps, momentum=_, training_mode=_}
_native_batch_norm_legit_functional, batch_norm(x, w, b, mean, variance, training, momentum=0.1, eps=1e-05) = BatchNormalization(x, w, b, mean, variance){epsilon=eps, momentum=_, training_mode=_}
glu(x, dim=-1) = Mul(Split(x){axis=dim, num_outputs=2}, Sigmoid(Split(x){axis=dim, num_outputs=2}))
avg_pool2d(x, kernel, stride=[], padding=0) = AveragePool(x){kernel_shape=fill(kernel, 2), strides=_, pads=twice(fill(padding, 2)), ceil_mode=_, count_include_pad=_}
max_pool2d(x, kernel, stride=[], padding=0, dilation=1) = MaxPool(x){kernel_shape=fill(kernel, 2), strides=_, pads=twice(fill(padding, 2)), dilations=fill(dilation, 2), ceil_mode=_}

# Losses
cross_entropy_loss(x, labels, w, reduction=1, ignored=-100) = SoftmaxCrossEntropyLoss(x, labels, w){reduction=reduction(reduction), ignore_index=ignored}
nll_loss(x, labels, w, reduction=1, ignored=-100) = NegativeLogLikelihoodLoss(x, labels, w){reduction=reduction(reduction), ignore_index=ignored}
let DISTANCE = Abs(Sub(x, y))
l1_loss(x, y, reduction=1) = ReduceMean(DISTANCE){keepdims=0} | ReduceSum(DISTANCE){keepdims=0} | DISTANCE
let DIFFERENCE = Mul(Sub(x, y), Sub(x, y))
mse_loss(x, y, reduction=1) = reduction=1: ReduceMean(DIFFERENCE){keepdims=0} | reduction=2: ReduceSum(DIFFERENCE){keepdims=0} | reduction=0: DIFFERENCE

# Movements
view, _unsafe_view, reshape(x, shape) = Reshape(x, shape){allowzero=_}
expand(x, shape) = Expand(x, shape)
transpose.int(x, a, b) = Transpose(x){perm=where_read(x, swap(a, b))}
permute(x, order) = Transpose(x){perm=where_read(x, order)}
t(x) = Transpose(x){perm=where_read(x, [1, 0])}
slice.Tensor(x, dim=0, start=0, end=9223372036854775807, step=1) = Slice(x, start, end, dim, step)
select.int, index_select(x, dim, index) = Gather(x, index){axis=dim}
unsqueeze(x, dim) = Unsqueeze(x, dim)
squeeze.dim(x, dim) = Squeeze(x, dim)
prims.squeeze(x, dims) = Squeeze(x, dims)
cat(xs, dim=0) = Concat(*xs){axis=dim}
stack(xs, dim=0) = Concat(*Unsqueeze(xs, dim)){axis=dim}
unbind.int(x, dim=0) = every: Squeeze(Slice(x, place, add(place, 1), dim, _), dim)
split.Tensor(x, size, dim=0) = SplitToSequence(x, size){axis=dim, keepdims=1}
split_with_sizes(x, sizes, dim=0) = SplitToSequence(x, sizes){axis=dim, keepdims=1}
operator.getitem(xs, place) = SequenceAt(xs, place)
repeat(x: open, repeats) = Tile(either(Expand(x, _), x), repeats)
tile(x: open, repeats) = Tile(either(Reshape(x, _){allowzero=_}, x), repeats)
repeat_interleave.self_int(x, count, dim) = Reshape(Expand(Unsqueeze(x, _), _), _){allowzero=_}
scatter.src(x, dim, index, source) = ScatterElements(x, index, source){axis=dim, reduction="none"}
scatter_add(x, dim, index, source) = ScatterElements(x, index, source){axis=dim, reduction="add"}
embedding(w, ids) = Gather(w, ids){axis=0}
let INDEXED = either(Transpose(x){perm=indexed_first(indices)}, x)
let READ = GatherND(INDEXED, _){batch_dims=0}
index(x, indices) = READ | Transpose(READ){perm=_}
let WRITTEN = ScatterND(INDEXED, _, _){reduction="none"}
let ADDED = ScatterND(INDEXED, _, _){reduction="add"}
index_put(x, indices, values, accumulate=False) = accumulate=False: WRITTEN | accumulate=False: Transpose(WRITTEN){perm=_} | accumulate=True: ADDED | accumulate=True: Transpose(ADDED){perm=_}
gather(x, dim, index) = GatherElements(x, index){axis=dim}
pad(x, padding, mode=constant, value) = mode=constant: Pad(x, ends(padding), value){mode="constant"} | mode=reflect: Pad(x, ends(padding), _){mode="reflect"} | mode=replicate: Pad(x, ends(padding), _){mode="edge"}
constant_pad_nd(x, padding, value=0) = Pad(x, ends(padding), value){mode="constant"}
let REST = rest(x, shifts, dims)
roll(x, shifts, dims) = Concat(Slice(x, REST, _, dims), Slice(x, 0, REST, dims)){axis=dims}
triu(x, diagonal=0) = Trilu(x, diagonal){upper=1}
tril(x, diagonal=0) = Trilu(x, diagonal){upper=0}
topk(x, k, dim=-1, largest=True) = TopK(x, k){axis=dim, largest=largest, sorted=_}

# Sizes
sym_size(x, dim) = Shape(x){start=dim, end=_} | Squeeze(Shape(x){start=dim, end=_})
operator.add(x, y) = Add(x, y)
operator.sub(x, y) = Sub(x, y)
operator.mul(x, y) = Mul(x, y)

# Constants and random numbers
arange(end) = Range(0, end, 1)
arange.start(start, end) = Range(start, end, 1)
arange.start_step(start, end, step=1) = Range(start, end, step)
full(shape, value) = Expand(value, shape)
full_like(x, value) = Expand(value, _)
new_full(x, shape, value) = Expand(value, shape)
zeros(shape) = Expand(0, shape)
zeros_like(x) = Expand(0, _)
ones(shape) = Expand(1, shape)
ones_like(x) = Expand(1, _)
new_ones(x, shape) = Expand(1, shape)
dropout, native_dropout(x, p, training) = Dropout(x, p, _)

# Attention. The key is transposed by two reshapes, and both operands are scaled by the root of the scale.
let ROOT = sqrt(scale(scale, q))
let GROUPS_OF_K = Reshape(Expand(Unsqueeze(k, _), _), _){allowzero=_}
let GROUPS_OF_V = Reshape(Expand(Unsqueeze(v, _), _), _){allowzero=_}
let KEY = Reshape(Transpose(Reshape(either(GROUPS_OF_K, k), _){allowzero=_}){perm=[0, 2, 1]}, _){allowzero=_}
let SCORES = MatMul(Mul(q, ROOT), Mul(KEY, ROOT))
let CAUSAL = Where(Equal(Trilu(Expand(1, _)){upper=0}, 0), lowest, 0)
let MASK = either(Where(mask, 0, lowest), CAUSAL, mask)
let WEIGHTS = Softmax(either(Add(SCORES, MASK), SCORES)){axis=-1}
let FINITE = either(Where(IsNaN(WEIGHTS), 0, WEIGHTS), WEIGHTS)
scaled_dot_product_attention(q, k, v, mask, p=0, causal=False, scale, enable_gqa=False) = MatMul(either(Dropout(FINITE, p, _), FINITE), either(GROUPS_OF_V, v))
)";

const Forms &onnx::exporterForms() {
  static const Forms forms = llvm::cantFail(Forms::parse(kForms));
  return forms;
}
