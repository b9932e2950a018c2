//===- Index.cpp - Gather and its relatives -------------------------------===//
#include "lib/Frontend/ONNX/Ops/Ops.h"

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

/// Constant indices with negative ones counted from the end of `size`; null
/// after an error when one is out of range.
static Value countFromEnd(Node &node, Value indices, ArrayRef<int64_t> sizes, Value table = {}) {
  DenseElementsAttr attr = node.importer.constantOf(indices);
  if (!attr || sizes.empty())
    return indices;
  SmallVector<APInt> values;
  bool changed = false;
  size_t i = 0;
  for (APInt value : attr.getValues<APInt>()) {
    int64_t size = sizes[i++ % sizes.size()], at = value.getSExtValue();
    if (at < -size || at >= size) {
      int64_t most = at; // of all: positions run up to a length
      for (APInt each : attr.getValues<APInt>())
        most = std::max(most, each.getSExtValue());
      std::string hint = node.importer.positionsHint({table}, size, most + 1);
      (void)node.error(hint.empty() ? "index " + std::to_string(at) +
                                          " is out of a dimension of size " +
                                          std::to_string(size)
                                    : hint);
      return {};
    }
    changed |= at < 0;
    values.push_back(APInt(value.getBitWidth(), at < 0 ? at + size : at, true));
  }
  if (!changed)
    return indices;
  return nn::ConstantOp::create(node.builder, node.loc,
                                DenseElementsAttr::get(attr.getType(), values));
}

/// Whether a value is a parameter, perhaps reshaped: rows of it are looked up.
static bool needsGradient(Node &node, Value value) {
  return isa<FloatType>(Node::type(value).getElementType()) &&
         !node.importer.constantOf(value);
}

static LogicalResult importGather(Node &node) {
  if (failed(node.require(2)))
    return failure();
  auto type = Node::type(node.input(0)), ids = Node::type(node.input(1));
  int64_t axis = node.intAttr("axis", 0);
  if (failed(node.normalize(axis, type.getRank())))
    return failure();
  if (!ids.getElementType().isInteger(64) &&
      !ids.getElementType().isInteger(32))
    return node.error("indices must be integers");
  Value indices = countFromEnd(node, node.input(1), {type.getDimSize(axis)},
                               node.input(0));
  if (!indices)
    return failure();
  SmallVector<int64_t> shape(type.getShape());
  shape.erase(shape.begin() + axis);
  shape.insert(shape.begin() + axis, ids.getShape().begin(),
               ids.getShape().end());
  auto result = RankedTensorType::get(shape, type.getElementType());
  if (!needsGradient(node, node.input(0))) {
    node.set(0,
             node.create<nn::GatherOp>(result, node.input(0), indices, axis));
    return success();
  }
  // A run of positions is a slice.
  if (DenseElementsAttr attr = node.importer.constantOf(indices);
      attr && attr.getNumElements() > 0) {
    SmallVector<int64_t> at;
    for (APInt value : attr.getValues<APInt>())
      at.push_back(value.getSExtValue());
    bool run = true;
    for (size_t i = 1; i < at.size(); ++i)
      run &= at[i] == at[i - 1] + 1;
    if (run) {
      SmallVector<int64_t> starts(type.getRank(), 0), limits(type.getShape()),
          strides(type.getRank(), 1);
      starts[axis] = at.front();
      limits[axis] = at.back() + 1;
      node.set(0,
               node.reshape(node.slice(node.input(0), starts, limits, strides),
                            shape));
      return success();
    }
  }
  // Rows of a table [V, D]: other axes are brought to the front first.
  SmallVector<int64_t> perm = {axis};
  for (int64_t i = 0; i < type.getRank(); ++i)
    if (i != axis)
      perm.push_back(i);
  Value table = node.transpose(node.input(0), perm);
  int64_t rows = type.getDimSize(axis),
          width = rows ? type.getNumElements() / rows : 0;
  table = node.reshape(table, {rows, width});
  if (!table)
    return failure();
  SmallVector<int64_t> looked(ids.getShape());
  looked.push_back(width);
  Value found = node.create<nn::EmbeddingOp>(
      RankedTensorType::get(looked, type.getElementType()), table, indices);
  SmallVector<int64_t> split(ids.getShape());
  for (int64_t i = 1; i < type.getRank(); ++i)
    split.push_back(type.getDimSize(perm[i]));
  found = node.reshape(found, split);
  // ids..., before axis, after axis -> before axis, ids..., after axis
  SmallVector<int64_t> back;
  for (int64_t i = 0; i < axis; ++i)
    back.push_back(ids.getRank() + i);
  for (int64_t i = 0; i < ids.getRank(); ++i)
    back.push_back(i);
  for (int64_t i = axis; i + 1 < type.getRank(); ++i)
    back.push_back(ids.getRank() + i);
  node.set(0, node.transpose(found, back));
  return success();
}

static LogicalResult importGatherNd(Node &node) {
  if (failed(node.require(2)))
    return failure();
  auto type = Node::type(node.input(0)), ids = Node::type(node.input(1));
  int64_t batch = node.intAttr("batch_dims", 0);
  if (batch < 0 || ids.getRank() < 1 || batch >= ids.getRank() ||
      batch >= type.getRank())
    return node.error("batch_dims is out of range");
  int64_t tuple = ids.getShape().back();
  if (tuple < 1 || tuple > type.getRank() - batch ||
      type.getShape().take_front(batch) != ids.getShape().take_front(batch))
    return node.error("index tuples of length " + Twine(tuple) +
                      " do not fit " + Node::name(type));
  if (needsGradient(node, node.input(0)) && batch == 0 && tuple == 1) {
    // One index: rows of a table.
    int64_t rows = type.getDimSize(0),
            width = rows ? type.getNumElements() / rows : 0;
    SmallVector<int64_t> flat(ids.getShape().drop_back()), looked(flat),
        shape(flat);
    looked.push_back(width);
    llvm::append_range(shape, type.getShape().drop_front());
    Value table = node.reshape(node.input(0), {rows, width}),
          indices =
              node.reshape(countFromEnd(node, node.input(1), {rows}), flat);
    if (!table || !indices)
      return failure();
    node.set(0, node.reshape(
                    node.create<nn::EmbeddingOp>(
                        RankedTensorType::get(looked, type.getElementType()),
                        table, indices),
                    shape));
    return success();
  }
  Value indices =
      countFromEnd(node, node.input(1), type.getShape().slice(batch, tuple));
  if (!indices)
    return failure();
  SmallVector<int64_t> shape(ids.getShape().drop_back());
  llvm::append_range(shape, type.getShape().drop_front(batch + tuple));
  node.set(0, node.create<nn::GatherNdOp>(
                  RankedTensorType::get(shape, type.getElementType()),
                  node.input(0), indices, batch));
  return success();
}

void onnx::registerIndexOps(HandlerRegistry &r) {
  r.add("", "Gather", 1, importGather);
  r.add("", "GatherND", 11, importGatherNd);
}
