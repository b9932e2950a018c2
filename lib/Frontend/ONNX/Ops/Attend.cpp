//===- Attend.cpp - Attention that several operators build ----------------===//
//
// Attention without masks, or with one that is computed from inputs, becomes
// nn.attention at once, so that no value of all pairs of positions is made. Other
// forms are built from matmuls and a softmax: recovery makes nn.attention of
// them if it can, since only recovery can tell which masks are causal and which have gradients.
//
//===----------------------------------------------------------------------===//
#include "lib/Frontend/ONNX/Ops/Attend.h"
#include "dialects/nn/Ops/Attention.h"
#include "dialects/nn/Ops/Compare.h"
#include "dialects/nn/Ops/Data.h"
#include "dialects/nn/Ops/Norm.h"

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

Tensor onnx::splitHeads(Tensor value, int64_t heads) {
  if (!value)
    return {};
  if (value.rank() != 3 || heads < 1 || value.dim(2) % heads != 0)
    return value.node().error("cannot split {} into {} heads", value, heads);
  return value.reshape({value.dim(0), value.dim(1), heads, value.dim(2) / heads})
      .transpose({0, 2, 1, 3});
}

Tensor onnx::joinHeads(Tensor value) {
  Sizes joined = {value.dim(0), value.dim(2), value.dim(1) * value.dim(3)};
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
  Tensor q = form.query, k = form.key, v = form.value;
  return q.rank() == 4 && k.rank() == 4 && v.rank() == 4 && q.hasFloats() &&
         q.element() == k.element() && q.element() == v.element() && q.dim(0) == k.dim(0) &&
         k.shape().drop_back() == v.shape().drop_back() && q.dim(3) == k.dim(3) && k.dim(1) > 0 &&
         q.dim(1) > 0 && q.dim(1) % k.dim(1) == 0;
}

bool onnx::broadcasts(const Attend &form, Tensor mask) {
  Sizes scores = withSize(form.query.shape(), 3, form.key.dim(2));
  return mask.rank() <= 4 && llvm::all_of(llvm::seq<int64_t>(1, mask.rank() + 1), [&](int64_t end) {
           return mask.dim(-end) == 1 || mask.dim(-end) == scores[4 - end];
         });
}

/// Repeats each of G heads so that there are H.
static Tensor repeatHeads(Tensor value, int64_t heads) {
  int64_t groups = value.dim(1);
  if (groups == heads)
    return value;
  return value.unsqueeze(2)
      .broadcast(withDim(value.shape(), 2, heads / groups))
      .reshape(withSize(value.shape(), 1, heads));
}

Tensor onnx::rank4(Tensor value) {
  return value ? value.reshape(joinedSizes({Sizes(4 - value.rank(), 1), value.shape()})) : value;
}

Operation *onnx::buildAttention(Node &node, const Attend &form, Tensor mask, bool skipsHidden,
                                bool causal, Type lse) {
  auto q = form.query.type(), result = q.clone(withSize(q.getShape(), 3, form.value.dim(3)));
  Tensor seen = rank4(form.seen);
  return nn::AttentionOp::create(
      node.builder, node.loc,
      TypeRange{result, RankedTensorType::get(q.getShape().drop_back(), lse)}, form.query, form.key,
      form.value, mask, seen, ValueRange(),
      form.hidden ? node.builder.getF64FloatAttr(*form.hidden) : FloatAttr(), bool(form.hidden),
      skipsHidden, causal, /*window=*/IntegerAttr(), APFloat(form.scale), nn::DropAttr());
}

Tensor onnx::attend(Node &node, Attend form, AttendScores *scores) {
  Tensor q = form.query, k = form.key;
  if (!q || !k || !form.value)
    return {};
  if (!fit(form))
    return node.error("queries {}, keys {} and values {} do not fit: [batch, heads, positions, "
                      "features]",
                      q, k, form.value);
  if (!std::isfinite(form.scale) || !std::isfinite(form.softcap) || form.softcap < 0)
    return node.error("scale and softcap must be finite, softcap not negative");
  for (Tensor mask : {form.added, form.seen})
    if (mask && !broadcasts(form, mask))
      return node.error("the mask {} does not broadcast to the scores [{}, {}, {}, {}]", mask,
                        q.dim(0), q.dim(1), q.dim(2), k.dim(2));
  bool aligned =
      form.causal && form.offset == k.dim(2) - q.dim(2) && form.before < 0 && form.offset >= 0;
  bool plain = form.before < 0 && form.after < 0 && (!form.causal || aligned);
  bool computed = !form.seen || !node.building.constantOf(form.seen);
  if (plain && computed && !form.added && form.softcap == 0 && !scores &&
      !(form.hidden && form.causal))
    return node.finish(
        buildAttention(node, form, Tensor(), form.seen && !form.hidden, aligned, q.element()));

  Tensor places = seenPositions(node, form);
  if (node.hasFailed())
    return {};
  AttendScores own;
  auto &[scaled, capped, masked, weights] = scores ? *scores : own;
  Tensor key = repeatHeads(k, q.dim(1)), value = repeatHeads(form.value, q.dim(1));
  scaled = matmul(q, key, false, /*transposeRhs=*/true) * form.scale;
  capped = form.softcap != 0 ? tanh(scaled * (1 / form.softcap)) * form.softcap : scaled;
  masked = form.added ? capped + form.added : capped;
  if (!masked || !value)
    return {};
  auto type = masked.type();
  if (form.seen && form.hidden) {
    auto row = RankedTensorType::get(form.seen.shape(), type.getElementType());
    masked = masked + select(form.seen, node.constant(row, 0), *form.hidden);
  } else {
    places = bothSeen(form.seen, places);
  }
  if (places)
    masked = select(places.broadcast(type.getShape()), masked, -HUGE_VAL);
  weights = unary<nn::SoftmaxOp>(masked);
  // A row that sees nothing is NaN: it becomes 0.
  if (places || (form.added && !isFiniteMask(node, form.added)))
    weights = select(isNan(weights), 0, weights);
  return matmul(weights, value);
}

Tensor onnx::rotaryRows(Tensor table, Tensor positions, int64_t length) {
  Node &node = table.node();
  if (!positions && table.rank() == 3)
    return table;
  if (table.rank() != 2 || !table.hasFloats())
    return node.error("the table of cosines or sines is {}; {}", table,
                      positions ? "with positions it must be [positions, features / 2]"
                                : "it must be [batch, positions, features / 2]");
  if (positions)
    return lookUp(table, positions, 0);
  if (length > table.dim(0))
    return node.error("the table of cosines or sines has {} positions, fewer than the {} of the "
                      "sequence",
                      table.dim(0), length);
  return table.part(0, 0, length).reshape({1, length, table.dim(1)});
}

/// Returns the constant rows [T, R / 2] that all sequences of the batch have; null if they differ.
static Tensor sharedRows(Tensor rows) {
  DenseElementsAttr attr = rows.node().building.constantOf(rows);
  if (!attr)
    return {};
  int64_t length = rows.dim(1), width = rows.dim(2), plane = length * width;
  auto values = attr.getValues<APFloat>();
  for (int64_t i = plane, count = attr.getNumElements(); i < count; ++i)
    if (!values[i].bitwiseIsEqual(values[i % plane]))
      return {};
  return rows.part(0, 0, 1).reshape({length, width});
}

Tensor onnx::rotate(Tensor input, Tensor cosines, Tensor sines, bool interleaved) {
  if (!input || !cosines || !sines)
    return {};
  Node &node = input.node();
  int64_t half = cosines.dim(2), turned = 2 * half, width = input.dim(3);
  if (cosines.getType() != sines.getType() || cosines.rank() != 3 || input.rank() != 4 ||
      cosines.dim(1) != input.dim(2) || half < 1 || turned > width ||
      cosines.element() != input.element() || !input.hasFloats() ||
      (cosines.dim(0) != 1 && cosines.dim(0) != input.dim(0)))
    return node.error("cosines {} and sines {} do not fit {}", cosines, sines, input);
  Tensor c = sharedRows(cosines), s = sharedRows(sines);
  if (c && s)
    return node.create<nn::RopeOp>(input.type(), input, c, s, interleaved, /*inverse=*/false,
                                   /*headed=*/false);
  // Tables that differ by row, or are trained.
  Tensor a = interleaved ? input.part(3, 0, turned - 1, 2) : input.part(3, 0, half);
  Tensor b = interleaved ? input.part(3, 1, turned, 2) : input.part(3, half, turned);
  c = cosines.unsqueeze(1), s = sines.unsqueeze(1);
  Tensor real = a * c - b * s;
  Tensor imaginary = b * c + a * s;
  if (interleaved) {
    real = real.unsqueeze(4);
    imaginary = imaginary.unsqueeze(4);
  }
  Tensor both =
      joined({real, imaginary}, interleaved ? 4 : 3).reshape(withSize(input.shape(), 3, turned));
  return turned == width ? both : joined({both, input.part(3, turned, width)}, 3);
}
