//===- Attend.cpp - Attention that several operators build ----------------===//
//
// Attention without masks, or with one that is computed from inputs, becomes
// nn.attention at once, so that no value of all pairs of positions is made. Other
// forms are built from products and a softmax: recovery makes nn.attention of
// them if it can, since only recovery can tell which masks are causal and which have gradients.
//
//===----------------------------------------------------------------------===//
#include "lib/Frontend/ONNX/Ops/Attend.h"
#include "dialects/nn/Ops/Attention.h"
#include "dialects/nn/Ops/Compare.h"
#include "dialects/nn/Ops/Data.h"
#include "dialects/nn/Ops/Norm.h"
#include <limits>

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

static constexpr double kInfinity = std::numeric_limits<double>::infinity();

Value onnx::splitHeads(Node &node, Value value, int64_t heads) {
  if (!value)
    return {};
  auto type = Node::type(value);
  if (type.getRank() != 3 || heads < 1 || type.getDimSize(2) % heads != 0)
    return node.error("cannot split {} into {} heads", type, heads);
  int64_t batch = type.getDimSize(0), length = type.getDimSize(1);
  return node.transpose(node.reshape(value, {batch, length, heads, type.getDimSize(2) / heads}),
                        {0, 2, 1, 3});
}

Value onnx::withoutReshape(Value value) {
  auto reshape = value ? value.getDefiningOp<nn::ReshapeOp>() : nn::ReshapeOp();
  return reshape ? Value(reshape.getInput()) : value;
}

Value onnx::joinHeads(Node &node, Value value) {
  if (!value)
    return {};
  ArrayRef<int64_t> shape = Node::type(value).getShape();
  SmallVector<int64_t> joined = {shape[0], shape[2], shape[1] * shape[3]};
  return node.reshape(node.transpose(value, {0, 2, 1, 3}), joined);
}

Value onnx::bothSeen(Node &node, Value a, Value b) { return a && b ? node.both(a, b) : a ? a : b; }

Value onnx::positionRange(Node &node, int64_t first, int64_t size, bool column) {
  Value count = column ? node.iota({size, 1}, 0) : node.iota({1, size}, 1);
  return first == 0 ? count : node.add(count, double(first));
}

Value onnx::seenPositions(Node &node, const Attend &form, Value seen, Value ends) {
  int64_t queries = Node::type(form.query).getDimSize(2), keys = Node::type(form.key).getDimSize(2);
  auto limit = [&](int64_t by, nn::Predicate predicate) {
    Value own = positionRange(node, form.offset + by, queries, /*column=*/true);
    if (ends)
      own = node.add(own, ends);
    Value other = positionRange(node, 0, keys, /*column=*/false);
    seen = bothSeen(node, seen, node.binary(other, own, predicate));
  };
  if (form.causal)
    limit(0, nn::Predicate::LE);
  if (form.before >= 0)
    limit(-form.before, nn::Predicate::GE);
  if (form.after >= 0 && !form.causal) // causal sees less
    limit(form.after, nn::Predicate::LE);
  return seen;
}

Value onnx::withinLengths(Node &node, Value lengths, int64_t keys) {
  auto type = Node::type(lengths);
  Value places = positionRange(node, 0, keys, /*column=*/false);
  Value column =
      node.cast(node.reshape(lengths, {type.getNumElements(), 1}), node.builder.getI64Type());
  Value within = node.binary(places, column, nn::Predicate::LT);
  return node.reshape(within, {type.getNumElements(), 1, 1, keys});
}

/// Whether the value is a choice between 0 and a finite number. Its rows are never hidden entirely.
static bool isFiniteMask(Node &node, Value mask) {
  while (Operation *op = mask.getDefiningOp()) {
    if (auto choice = dyn_cast<nn::SelectOp>(op)) {
      auto isFinite = [&](Value value) {
        std::optional<double> number = node.scalarConstant(value);
        return number && std::isfinite(*number);
      };
      return isFinite(choice.getOnTrue()) && isFinite(choice.getOnFalse());
    }
    if (!isa<nn::ReshapeOp, nn::BroadcastOp, nn::TransposeOp, nn::SliceOp>(op))
      return false;
    mask = op->getOperand(0);
  }
  return false;
}

bool onnx::fit(const Attend &form) {
  auto q = Node::type(form.query), k = Node::type(form.key), v = Node::type(form.value);
  return q.getRank() == 4 && k.getRank() == 4 && v.getRank() == 4 &&
         isa<FloatType>(q.getElementType()) && q.getElementType() == k.getElementType() &&
         q.getElementType() == v.getElementType() && q.getDimSize(0) == k.getDimSize(0) &&
         k.getShape().drop_back() == v.getShape().drop_back() &&
         q.getDimSize(3) == k.getDimSize(3) && k.getDimSize(1) > 0 && q.getDimSize(1) > 0 &&
         q.getDimSize(1) % k.getDimSize(1) == 0;
}

bool onnx::broadcasts(const Attend &form, Value mask) {
  Sizes scores = withSize(Node::type(form.query).getShape(), 3, Node::type(form.key).getDimSize(2));
  ArrayRef<int64_t> shape = Node::type(mask).getShape();
  return shape.size() <= 4 &&
         llvm::all_of(llvm::zip(shape, ArrayRef(scores).take_back(shape.size())), [](auto sizes) {
           return std::get<0>(sizes) == 1 || std::get<0>(sizes) == std::get<1>(sizes);
         });
}

static LogicalResult checkAttend(Node &node, const Attend &form) {
  auto q = Node::type(form.query), k = Node::type(form.key), v = Node::type(form.value);
  if (!fit(form))
    return node.error("queries {}, keys {} and values {} do not fit: [batch, heads, positions, "
                      "features]",
                      q, k, v);
  if (!std::isfinite(form.scale) || !std::isfinite(form.softcap) || form.softcap < 0)
    return node.error("scale and softcap must be finite, softcap not negative");
  for (Value mask : {form.added, form.seen})
    if (mask && !broadcasts(form, mask))
      return node.error("the mask {} does not broadcast to the scores [{}, {}, {}, {}]", mask,
                        q.getDimSize(0), q.getDimSize(1), q.getDimSize(2), k.getDimSize(2));
  return success();
}

/// Repeats each of G heads so that there are H.
static Value repeatHeads(Node &node, Value value, int64_t heads) {
  ArrayRef<int64_t> shape = Node::type(value).getShape();
  int64_t groups = shape[1];
  if (groups == heads)
    return value;
  return node.reshape(node.broadcast(node.unsqueeze(value, 2), withDim(shape, 2, heads / groups)),
                      withSize(shape, 1, heads));
}

Value onnx::rank4(Node &node, Value value) {
  ArrayRef<int64_t> shape = Node::type(value).getShape();
  return node.reshape(value, joinedSizes({Sizes(4 - shape.size(), 1), shape}));
}

static Value direct(Node &node, const Attend &form, bool causal) {
  auto q = Node::type(form.query), v = Node::type(form.value);
  Sizes shape = withSize(q.getShape(), 3, v.getDimSize(3));
  Value seen = form.seen ? rank4(node, form.seen) : Value();
  if (nn::tensorBytes(q.clone(shape)) < 0)
    return node.error("the result's size overflows 64 bits");
  auto unit = [&](bool set) { return set ? node.builder.getUnitAttr() : UnitAttr(); };
  auto op = nn::AttentionOp::create(
      node.builder, node.loc, TypeRange{q.clone(shape), q.clone(q.getShape().drop_back())},
      form.query, form.key, form.value, Value(), seen, ValueRange(),
      form.hidden ? node.builder.getF64FloatAttr(*form.hidden) : FloatAttr(),
      unit(bool(form.hidden)), unit(form.seen && !form.hidden), unit(causal),
      /*window=*/IntegerAttr(), node.builder.getF64FloatAttr(form.scale), nn::DropAttr());
  node.adopt(op);
  return op.getResult();
}

Value onnx::attend(Node &node, Attend form, AttendScores *scores) {
  if (!form.query || !form.key || !form.value || failed(checkAttend(node, form)))
    return {};
  auto q = Node::type(form.query), k = Node::type(form.key);
  bool aligned = form.causal && form.offset == k.getDimSize(2) - q.getDimSize(2) &&
                 form.before < 0 && form.offset >= 0;
  bool plain = form.before < 0 && form.after < 0 && (!form.causal || aligned);
  bool computed = !form.seen || !node.building.constantOf(form.seen);
  if (plain && computed && !form.added && form.softcap == 0 && !scores &&
      !(form.hidden && form.causal))
    return direct(node, form, aligned);

  Value places = seenPositions(node, form);
  if (node.hasFailed())
    return {};
  AttendScores own;
  AttendScores &at = scores ? *scores : own;
  Value key = repeatHeads(node, form.key, q.getDimSize(1));
  Value value = repeatHeads(node, form.value, q.getDimSize(1));
  at.product = node.mul(node.matmul(form.query, key, false, /*transposeRhs=*/true), form.scale);
  at.capped = at.product;
  if (form.softcap != 0)
    at.capped = node.mul(node.tanh(node.mul(at.product, 1 / form.softcap)), form.softcap);
  at.masked = form.added ? node.add(at.capped, form.added) : at.capped;
  if (!at.masked || !value)
    return {};
  auto type = Node::type(at.masked);
  if (form.seen && form.hidden) {
    auto row = RankedTensorType::get(Node::type(form.seen).getShape(), type.getElementType());
    at.masked = node.add(at.masked, node.select(form.seen, node.constant(row, 0), *form.hidden));
  } else {
    places = bothSeen(node, form.seen, places);
  }
  if (places)
    at.masked = node.select(node.broadcast(places, type.getShape()), at.masked, -kInfinity);
  at.weights = node.unary<nn::SoftmaxOp>(at.masked);
  // A row that sees nothing is NaN: it becomes 0.
  if (at.weights && (places || (form.added && !isFiniteMask(node, form.added)))) {
    Value isNan = node.create<nn::IsNanOp>(type.clone(node.builder.getI1Type()), at.weights);
    at.weights = node.select(isNan, 0, at.weights);
  }
  return node.matmul(at.weights, value);
}

//===----------------------------------------------------------------------===//
// Rotary positions
//===----------------------------------------------------------------------===//

Value onnx::rotaryRows(Node &node, Value table, Value positions, int64_t length) {
  auto type = Node::type(table);
  if (!positions && type.getRank() == 3)
    return table;
  if (type.getRank() != 2 || !isa<FloatType>(type.getElementType()))
    return node.error("the table of cosines or sines is {}; {}", type,
                      positions ? "with positions it must be [positions, features / 2]"
                                : "it must be [batch, positions, features / 2]");
  if (positions)
    return lookUp(node, table, positions, 0);
  if (length > type.getDimSize(0))
    return node.error("the table of cosines or sines has {} positions, fewer than the {} of the "
                      "sequence",
                      type.getDimSize(0), length);
  return node.reshape(node.part(table, 0, 0, length), {1, length, type.getDimSize(1)});
}

/// Returns the constant rows [T, R / 2] that all sequences of the batch have; null if they differ.
static Value sharedRows(Node &node, Value rows) {
  DenseElementsAttr attr = node.building.constantOf(rows);
  if (!attr)
    return {};
  auto type = Node::type(rows);
  int64_t length = type.getDimSize(1), width = type.getDimSize(2), plane = length * width;
  auto values = attr.getValues<APFloat>();
  for (int64_t i = plane, count = attr.getNumElements(); i < count; ++i)
    if (!values[i].bitwiseIsEqual(values[i % plane]))
      return {};
  return node.reshape(node.part(rows, 0, 0, 1), {length, width});
}

Value onnx::rotate(Node &node, const Rotation &form) {
  if (!form.input || !form.cosines || !form.sines)
    return {};
  auto type = Node::type(form.input), rows = Node::type(form.cosines);
  int64_t width = type.getShape().back();
  if (rows != Node::type(form.sines) || rows.getRank() != 3 || type.getRank() != 4 ||
      rows.getDimSize(1) != type.getDimSize(2) || rows.getDimSize(2) < 1 ||
      2 * rows.getDimSize(2) > width || rows.getElementType() != type.getElementType() ||
      !isa<FloatType>(type.getElementType()) ||
      (rows.getDimSize(0) != 1 && rows.getDimSize(0) != type.getDimSize(0)))
    return node.error("cosines {} and sines {} do not fit {}", rows, form.sines, type);
  Value cosines = sharedRows(node, form.cosines), sines = sharedRows(node, form.sines);
  if (cosines && sines)
    return node.create<nn::RopeOp>(type, form.input, cosines, sines, form.interleaved,
                                   /*inverse=*/false, /*headed=*/false);
  // Tables that differ by row, or are trained.
  int64_t half = rows.getDimSize(2), turned = 2 * half;
  auto part = [&](int64_t from, int64_t to, int64_t stride) {
    return node.part(form.input, 3, from, to, stride);
  };
  Value a = form.interleaved ? part(0, turned - 1, 2) : part(0, half, 1);
  Value b = form.interleaved ? part(1, turned, 2) : part(half, turned, 1);
  Value c = node.unsqueeze(form.cosines, 1), s = node.unsqueeze(form.sines, 1);
  Value real = node.sub(node.mul(a, c), node.mul(b, s));
  Value imaginary = node.add(node.mul(b, c), node.mul(a, s));
  if (form.interleaved) {
    real = node.unsqueeze(real, 4);
    imaginary = node.unsqueeze(imaginary, 4);
  }
  Value both = node.reshape(node.joined({real, imaginary}, form.interleaved ? 4 : 3),
                            withSize(type.getShape(), 3, turned));
  return turned == width ? both : node.joined({both, part(turned, width, 1)}, 3);
}
