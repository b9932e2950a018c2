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

Tensor onnx::splitHeads(Tensor value, int64_t heads) {
  if (!value)
    return {};
  auto type = value.type();
  if (type.getRank() != 3 || heads < 1 || type.getDimSize(2) % heads != 0)
    return value.node().error("cannot split {} into {} heads", type, heads);
  int64_t batch = type.getDimSize(0), length = type.getDimSize(1);
  return value.reshape({batch, length, heads, type.getDimSize(2) / heads}).transpose({0, 2, 1, 3});
}

Value onnx::withoutReshape(Value value) {
  auto reshape = value ? value.getDefiningOp<nn::ReshapeOp>() : nn::ReshapeOp();
  return reshape ? Value(reshape.getInput()) : value;
}

Tensor onnx::joinHeads(Tensor value) {
  if (!value)
    return {};
  ArrayRef<int64_t> shape = value.shape();
  Sizes joined = {shape[0], shape[2], shape[1] * shape[3]};
  return value.transpose({0, 2, 1, 3}).reshape(joined);
}

Tensor onnx::bothSeen(Tensor a, Tensor b) { return a && b ? a & b : a ? a : b; }

Tensor onnx::positionRange(Node &node, int64_t first, int64_t size, bool column) {
  Tensor count = column ? node.iota({size, 1}, 0) : node.iota({1, size}, 1);
  return first == 0 ? count : count + double(first);
}

Tensor onnx::seenPositions(Node &node, const Attend &form, Tensor seen, Tensor ends) {
  int64_t queries = form.query.dim(2), keys = form.key.dim(2);
  auto limit = [&](int64_t by, nn::Predicate predicate) {
    Tensor own = positionRange(node, form.offset + by, queries, /*column=*/true);
    if (ends)
      own = own + ends;
    Tensor other = positionRange(node, 0, keys, /*column=*/false);
    seen = bothSeen(seen, compare(other, own, predicate));
  };
  if (form.causal)
    limit(0, nn::Predicate::LE);
  if (form.before >= 0)
    limit(-form.before, nn::Predicate::GE);
  if (form.after >= 0 && !form.causal) // causal sees less
    limit(form.after, nn::Predicate::LE);
  return seen;
}

Tensor onnx::withinLengths(Tensor lengths, int64_t keys) {
  Node &node = lengths.node();
  Tensor places = positionRange(node, 0, keys, /*column=*/false);
  Tensor column = lengths.reshape({lengths.count(), 1}).cast(node.builder.getI64Type());
  return (places < column).reshape({lengths.count(), 1, 1, keys});
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
  auto q = form.query.type(), k = form.key.type(), v = form.value.type();
  return q.getRank() == 4 && k.getRank() == 4 && v.getRank() == 4 &&
         isa<FloatType>(q.getElementType()) && q.getElementType() == k.getElementType() &&
         q.getElementType() == v.getElementType() && q.getDimSize(0) == k.getDimSize(0) &&
         k.getShape().drop_back() == v.getShape().drop_back() &&
         q.getDimSize(3) == k.getDimSize(3) && k.getDimSize(1) > 0 && q.getDimSize(1) > 0 &&
         q.getDimSize(1) % k.getDimSize(1) == 0;
}

bool onnx::broadcasts(const Attend &form, Tensor mask) {
  Sizes scores = withSize(form.query.shape(), 3, form.key.dim(2));
  ArrayRef<int64_t> shape = mask.shape();
  return shape.size() <= 4 &&
         llvm::all_of(llvm::zip(shape, ArrayRef(scores).take_back(shape.size())), [](auto sizes) {
           return std::get<0>(sizes) == 1 || std::get<0>(sizes) == std::get<1>(sizes);
         });
}

static LogicalResult checkAttend(Node &node, const Attend &form) {
  auto q = form.query.type(), k = form.key.type(), v = form.value.type();
  if (!fit(form))
    return node.error("queries {}, keys {} and values {} do not fit: [batch, heads, positions, "
                      "features]",
                      q, k, v);
  if (!std::isfinite(form.scale) || !std::isfinite(form.softcap) || form.softcap < 0)
    return node.error("scale and softcap must be finite, softcap not negative");
  for (Tensor mask : {form.added, form.seen})
    if (mask && !broadcasts(form, mask))
      return node.error("the mask {} does not broadcast to the scores [{}, {}, {}, {}]", mask,
                        q.getDimSize(0), q.getDimSize(1), q.getDimSize(2), k.getDimSize(2));
  return success();
}

/// Repeats each of G heads so that there are H.
static Tensor repeatHeads(Tensor value, int64_t heads) {
  ArrayRef<int64_t> shape = value.shape();
  int64_t groups = shape[1];
  if (groups == heads)
    return value;
  return value.unsqueeze(2)
      .broadcast(withDim(shape, 2, heads / groups))
      .reshape(withSize(shape, 1, heads));
}

Tensor onnx::rank4(Tensor value) {
  ArrayRef<int64_t> shape = value.shape();
  return value.reshape(joinedSizes({Sizes(4 - shape.size(), 1), shape}));
}

Operation *onnx::buildAttention(Node &node, const Attend &form, Tensor mask, bool skipsHidden,
                                bool causal, Type lse) {
  auto q = form.query.type(), result = q.clone(withSize(q.getShape(), 3, form.value.dim(3)));
  Tensor seen = form.seen ? rank4(form.seen) : Tensor();
  auto unit = [&](bool set) { return set ? node.builder.getUnitAttr() : UnitAttr(); };
  return nn::AttentionOp::create(
      node.builder, node.loc,
      TypeRange{result, RankedTensorType::get(q.getShape().drop_back(), lse)}, form.query, form.key,
      form.value, mask, seen, ValueRange(),
      form.hidden ? node.builder.getF64FloatAttr(*form.hidden) : FloatAttr(),
      unit(bool(form.hidden)), unit(skipsHidden), unit(causal), /*window=*/IntegerAttr(),
      node.builder.getF64FloatAttr(form.scale), nn::DropAttr());
}

static Tensor direct(Node &node, const Attend &form, bool causal) {
  auto q = form.query.type();
  if (nn::tensorBytes(q.clone(withSize(q.getShape(), 3, form.value.dim(3)))) < 0)
    return node.error("the result's size overflows 64 bits");
  Operation *op =
      buildAttention(node, form, Tensor(), form.seen && !form.hidden, causal, q.getElementType());
  node.adopt(op);
  return Tensor(node, op->getResult(0));
}

Tensor onnx::attend(Node &node, Attend form, AttendScores *scores) {
  if (!form.query || !form.key || !form.value || failed(checkAttend(node, form)))
    return {};
  auto q = form.query.type(), k = form.key.type();
  bool aligned = form.causal && form.offset == k.getDimSize(2) - q.getDimSize(2) &&
                 form.before < 0 && form.offset >= 0;
  bool plain = form.before < 0 && form.after < 0 && (!form.causal || aligned);
  bool computed = !form.seen || !node.building.constantOf(form.seen);
  if (plain && computed && !form.added && form.softcap == 0 && !scores &&
      !(form.hidden && form.causal))
    return direct(node, form, aligned);

  Tensor places = seenPositions(node, form);
  if (node.hasFailed())
    return {};
  AttendScores own;
  AttendScores &at = scores ? *scores : own;
  Tensor key = repeatHeads(form.key, q.getDimSize(1));
  Tensor value = repeatHeads(form.value, q.getDimSize(1));
  at.product = matmul(form.query, key, false, /*transposeRhs=*/true) * form.scale;
  at.capped = at.product;
  if (form.softcap != 0)
    at.capped = tanh(at.product * (1 / form.softcap)) * form.softcap;
  at.masked = form.added ? at.capped + form.added : at.capped;
  if (!at.masked || !value)
    return {};
  auto type = at.masked.type();
  if (form.seen && form.hidden) {
    auto row = RankedTensorType::get(form.seen.shape(), type.getElementType());
    at.masked = at.masked + select(form.seen, node.constant(row, 0), *form.hidden);
  } else {
    places = bothSeen(form.seen, places);
  }
  if (places)
    at.masked = select(places.broadcast(type.getShape()), at.masked, -kInfinity);
  at.weights = unary<nn::SoftmaxOp>(at.masked);
  // A row that sees nothing is NaN: it becomes 0.
  if (places || (form.added && !isFiniteMask(node, form.added)))
    at.weights = select(isNan(at.weights), 0, at.weights);
  return matmul(at.weights, value);
}

//===----------------------------------------------------------------------===//
// Rotary positions
//===----------------------------------------------------------------------===//

Tensor onnx::rotaryRows(Tensor table, Tensor positions, int64_t length) {
  Node &node = table.node();
  auto type = table.type();
  if (!positions && type.getRank() == 3)
    return table;
  if (type.getRank() != 2 || !isa<FloatType>(type.getElementType()))
    return node.error("the table of cosines or sines is {}; {}", type,
                      positions ? "with positions it must be [positions, features / 2]"
                                : "it must be [batch, positions, features / 2]");
  if (positions)
    return lookUp(table, positions, 0);
  if (length > type.getDimSize(0))
    return node.error("the table of cosines or sines has {} positions, fewer than the {} of the "
                      "sequence",
                      type.getDimSize(0), length);
  return table.part(0, 0, length).reshape({1, length, type.getDimSize(1)});
}

/// Returns the constant rows [T, R / 2] that all sequences of the batch have; null if they differ.
static Tensor sharedRows(Tensor rows) {
  DenseElementsAttr attr = rows.node().building.constantOf(rows);
  if (!attr)
    return {};
  auto type = rows.type();
  int64_t length = type.getDimSize(1), width = type.getDimSize(2), plane = length * width;
  auto values = attr.getValues<APFloat>();
  for (int64_t i = plane, count = attr.getNumElements(); i < count; ++i)
    if (!values[i].bitwiseIsEqual(values[i % plane]))
      return {};
  return rows.part(0, 0, 1).reshape({length, width});
}

Tensor onnx::rotate(Node &node, const Rotation &form) {
  if (!form.input || !form.cosines || !form.sines)
    return {};
  auto type = form.input.type(), rows = form.cosines.type();
  int64_t width = type.getShape().back();
  if (rows != form.sines.type() || rows.getRank() != 3 || type.getRank() != 4 ||
      rows.getDimSize(1) != type.getDimSize(2) || rows.getDimSize(2) < 1 ||
      2 * rows.getDimSize(2) > width || rows.getElementType() != type.getElementType() ||
      !isa<FloatType>(type.getElementType()) ||
      (rows.getDimSize(0) != 1 && rows.getDimSize(0) != type.getDimSize(0)))
    return node.error("cosines {} and sines {} do not fit {}", rows, form.sines, type);
  Tensor cosines = sharedRows(form.cosines), sines = sharedRows(form.sines);
  if (cosines && sines)
    return node.create<nn::RopeOp>(type, form.input, cosines, sines, form.interleaved,
                                   /*inverse=*/false, /*headed=*/false);
  // Tables that differ by row, or are trained.
  int64_t half = rows.getDimSize(2), turned = 2 * half;
  auto part = [&](int64_t from, int64_t to, int64_t stride) {
    return form.input.part(3, from, to, stride);
  };
  Tensor a = form.interleaved ? part(0, turned - 1, 2) : part(0, half, 1);
  Tensor b = form.interleaved ? part(1, turned, 2) : part(half, turned, 1);
  Tensor c = form.cosines.unsqueeze(1), s = form.sines.unsqueeze(1);
  Tensor real = a * c - b * s;
  Tensor imaginary = b * c + a * s;
  if (form.interleaved) {
    real = real.unsqueeze(4);
    imaginary = imaginary.unsqueeze(4);
  }
  Tensor both = node.joined({real, imaginary}, form.interleaved ? 4 : 3)
                    .reshape(withSize(type.getShape(), 3, turned));
  return turned == width ? both : node.joined({both, part(turned, width, 1)}, 3);
}
