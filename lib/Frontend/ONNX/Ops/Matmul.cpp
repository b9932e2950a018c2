//===- Matmul.cpp - Matrix products and Einsum ----------------------------===//
#include "lib/Frontend/ONNX/Ops/Ops.h"
#include "llvm/ADT/StringExtras.h"
#include <map>

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

/// Multiplies as numpy's matmul does. Returns null after an error.
static Tensor multiplied(Node &node, Tensor lhs, Tensor rhs) {
  auto left = lhs.type(), right = rhs.type();
  if (left.getRank() == 0 || right.getRank() == 0)
    return node.error("cannot multiply scalars");
  bool isRow = left.getRank() == 1, isColumn = right.getRank() == 1;
  if (isRow)
    lhs = lhs.reshape({1, left.getDimSize(0)});
  if (isColumn)
    rhs = rhs.reshape({right.getDimSize(0), 1});
  if (!lhs || !rhs)
    return {};
  left = lhs.type();
  right = rhs.type();
  if (left.getShape().back() != right.getDimSize(right.getRank() - 2))
    return node.error("matrices {} and {} do not multiply", left, right);
  Sizes shape;
  Tensor result;
  if (right.getRank() == 2) {
    // A product with a weight has no batch dimensions.
    shape.assign(left.getShape().begin(), left.getShape().end());
    int64_t k = shape.back(), rows = 1;
    for (int64_t size : ArrayRef<int64_t>(shape).drop_back())
      rows *= size;
    shape.back() = right.getDimSize(1);
    result = matmul(lhs.reshape({rows, k}), rhs).reshape(shape);
  } else {
    Sizes batch;
    if (failed(node.broadcastShape({lhs, rhs}, batch, /*inner=*/2)))
      return {};
    auto widen = [&](Tensor value) {
      return value.broadcast(joinedSizes({batch, value.shape().take_back(2)}));
    };
    result = matmul(widen(lhs), widen(rhs));
    shape = joinedSizes({batch, {left.getDimSize(left.getRank() - 2), right.getShape().back()}});
  }
  if (isColumn)
    shape.pop_back();
  if (isRow)
    shape.erase(shape.end() - (isColumn ? 1 : 2));
  return result.reshape(shape);
}

static Tensor importMatmul(Node &node) {
  Tensor left = node.input(0);
  if (double ratio = node.building.lostDropout.lookup(&node.proto); ratio != 0)
    left = dropped(node, left, ratio);
  return left ? multiplied(node, left, node.input(1)) : Tensor();
}

/// FusedMatMul of com.microsoft: a product with a factor. The last two dimensions of an operand, or
/// its first one and the batch, may be transposed.
static Tensor importFusedMatmul(Node &node) {
  Tensor operands[2];
  for (int i : {0, 1}) {
    int64_t rank = node.input(i).rank();
    bool batch = node.flagAttr(i ? "transBatchB" : "transBatchA", false);
    bool matrix = node.flagAttr(i ? "transB" : "transA", false);
    Sizes perm = allDims(rank);
    if (batch && rank > 2)
      std::rotate(perm.begin(), perm.begin() + 1, perm.end() - 1);
    if (matrix && rank > 1)
      std::swap(perm[rank - 1], perm[rank - 2]);
    operands[i] = node.input(i).transpose(perm);
    if (!operands[i])
      return {};
  }
  double alpha = node.floatAttr("alpha", 1);
  return scaled(multiplied(node, operands[0], operands[1]), alpha);
}

static Tensor importGemm(Node &node) {
  if (node.input(0).rank() != 2 || node.input(1).rank() != 2)
    return node.error("operands must be matrices");
  Tensor product = matmul(node.input(0), node.input(1), node.flagAttr("transA", false),
                          node.flagAttr("transB", false));
  product = scaled(product, node.floatAttr("alpha", 1));
  if (!product || !node.has(2))
    return product;
  Tensor sum = product + scaled(node.input(2), node.floatAttr("beta", 1));
  return !sum || sum.getType() == product.getType()
             ? sum
             : node.error("operand 2 is larger than the product");
}

//===----------------------------------------------------------------------===//
// Sums of products by labels of dimensions
//===----------------------------------------------------------------------===//

// Operands are contracted from left to right. A label that two operands share
// is an inner dimension of a matrix product if no later operand and not the
// result has it, else a batch dimension. Without an inner dimension the product
// is elementwise.
//
// A dimension of size 1 is dropped at once: it broadcasts by itself, so the
// result is the same whatever size its label has elsewhere.

namespace {

/// A letter, or a dimension of the ellipsis, counted from its last.
using Label = int64_t;
using Labels = Sizes;
constexpr Label kEllipsis = 256; // and above

/// A tensor and the labels of its dimensions.
struct Term {
  Tensor value;
  Labels labels;
};

/// An equation, its letters and ellipses not yet matched with dimensions.
struct Equation {
  SmallVector<std::string> operands; // "..." is one '.'
  std::optional<std::string> result;
};

class Einsum {
public:
  explicit Einsum(Node &node) : node(node) {}
  LogicalResult import();

private:
  LogicalResult parse(Equation &equation);
  LogicalResult parseTerm(StringRef text, std::string &term);
  LogicalResult label(int operand, StringRef text, Labels &labels);
  LogicalResult readResult(const Equation &equation, ArrayRef<Labels> all, Labels &result);
  Tensor diagonal(Tensor value, Labels &labels);
  Term squeeze(Term term);
  Term arrange(Term term, ArrayRef<Label> order);
  Term sumOut(Term term, ArrayRef<Label> keep);
  Term contract(Term lhs, Term rhs, ArrayRef<Label> keep, ArrayRef<Label> result);
  Term multiply(const Term &lhs, const Term &rhs, ArrayRef<Label> order);

  Sizes sizesOf(ArrayRef<Label> labels) {
    Sizes sizes;
    for (Label label : labels)
      sizes.push_back(size[label]);
    return sizes;
  }
  static bool has(ArrayRef<Label> labels, Label label) { return llvm::is_contained(labels, label); }

  Node &node;
  std::map<Label, int64_t> size;
  int64_t ellipsisRank = 0;
};

} // namespace

LogicalResult Einsum::parseTerm(StringRef text, std::string &term) {
  while (!text.empty()) {
    char c = text.front();
    if (text.consume_front("...")) {
      if (term.find('.') != std::string::npos)
        return node.error("the equation has two ellipses in one term");
      term += '.';
      continue;
    }
    text = text.drop_front();
    if (c == ' ')
      continue;
    if (!llvm::isAlpha(c))
      return node.error("the equation has {}, which is neither a letter nor '...'",
                        StringRef(&c, 1));
    term += c;
  }
  return success();
}

LogicalResult Einsum::parse(Equation &equation) {
  std::string text = node.stringAttr("equation", "");
  if (node.hasFailed())
    return failure();
  if (!node.attribute("equation"))
    return node.error("has no equation");
  auto [left, right] = StringRef(text).split("->");
  if (left.size() != text.size() && failed(parseTerm(right, equation.result.emplace())))
    return failure();
  SmallVector<StringRef> terms;
  left.split(terms, ',');
  if (int64_t(terms.size()) != node.numInputs())
    return node.error("the equation has {} terms, the node has {} operands", terms.size(),
                      node.numInputs());
  for (StringRef term : terms)
    if (failed(parseTerm(term, equation.operands.emplace_back())))
      return failure();
  return success();
}

/// Matches an operand's dimensions with its term, and its sizes with those of
/// other operands.
LogicalResult Einsum::label(int operand, StringRef text, Labels &labels) {
  auto type = node.input(operand).type();
  bool open = text.contains('.');
  int64_t letters = text.size() - open, rank = type.getRank();
  if (open ? rank < letters : rank != letters)
    return node.error("operand {} has {} dimensions, the equation names {}", operand, rank,
                      letters);
  if (open)
    ellipsisRank = std::max(ellipsisRank, rank - letters);
  for (char c : text) {
    if (c == '.')
      for (int64_t i = rank - letters; i-- > 0;)
        labels.push_back(kEllipsis + i);
    else
      labels.push_back(c);
  }
  for (auto [label, mine] : llvm::zip(labels, type.getShape())) {
    int64_t &known = size.try_emplace(label, 1).first->second;
    if (known == 1)
      known = mine;
    else if (mine != 1 && mine != known)
      return node.error("{} sizes {} and {}",
                        plain(label >= kEllipsis ? "dimensions of the ellipsis have"
                                                 : say("dimension '{}' has",
                                                       {plain(std::string(1, char(label)))})),
                        known, mine);
  }
  return success();
}

/// Reads the labels of the result: those given, or the ellipsis and then the
/// letters that appear once, in the order of their codes.
LogicalResult Einsum::readResult(const Equation &equation, ArrayRef<Labels> all, Labels &result) {
  auto addEllipsis = [&] {
    for (int64_t i = ellipsisRank; i-- > 0;)
      result.push_back(kEllipsis + i);
  };
  if (!equation.result) {
    addEllipsis();
    for (auto [label, unused] : size) {
      int64_t count = 0;
      for (const Labels &labels : all)
        count += llvm::count(labels, label);
      if (label < kEllipsis && count == 1)
        result.push_back(label);
    }
    return success();
  }
  for (char c : *equation.result) {
    if (c == '.') {
      addEllipsis();
      continue;
    }
    if (!size.count(c))
      return node.error("the result's dimension '" + Twine(c) + "' is in no operand");
    if (has(result, c))
      return node.error("the result names dimension '" + Twine(c) + "' twice");
    result.push_back(c);
  }
  return success();
}

/// Replaces two dimensions of one label by their diagonal, until all differ.
Tensor Einsum::diagonal(Tensor value, Labels &labels) {
  for (size_t i = 0; value && i < labels.size(); ++i) {
    size_t j = i + 1;
    while (j < labels.size() && labels[j] != labels[i])
      ++j;
    if (j == labels.size())
      continue;
    Sizes shape(value.shape());
    int64_t n = shape[i];
    if (shape[j] != n)
      return node.error("the diagonal of {} has sizes {} and {}", std::string(1, char(labels[i])),
                        n, shape[j]);
    // [.., n, n] -> [.., n * n] -> every (n + 1)-th
    Sizes perm;
    Labels rest;
    for (size_t k = 0; k < labels.size(); ++k)
      if (k != i && k != j) {
        perm.push_back(k);
        rest.push_back(labels[k]);
      }
    perm.append({int64_t(i), int64_t(j)});
    rest.push_back(labels[i]);
    shape.erase(shape.begin() + j);
    shape.erase(shape.begin() + i);
    shape.push_back(n * n); // at most the tensor's elements: no overflow
    value = value.transpose(perm).reshape(shape);
    value = value.part(shape.size() - 1, 0, n * n, n + 1);
    labels = rest;
    i = size_t(-1); // from the first again
  }
  return value;
}

Term Einsum::squeeze(Term term) {
  if (!term.value)
    return term;
  Labels labels;
  Sizes shape;
  for (auto [label, n] : llvm::zip(term.labels, term.value.shape()))
    if (n != 1) {
      labels.push_back(label);
      shape.push_back(n);
    }
  return {term.value.reshape(shape), labels};
}

/// Transposes a term to `order`; a transpose of a transpose becomes one.
Term Einsum::arrange(Term term, ArrayRef<Label> order) {
  Sizes perm;
  for (Label label : order)
    perm.push_back(llvm::find(term.labels, label) - term.labels.begin());
  bool turns = !llvm::is_sorted(perm);
  return {term.value.transpose(perm, /*joined=*/turns), Labels(order)};
}

/// Sums over the dimensions that are not in `keep`.
Term Einsum::sumOut(Term term, ArrayRef<Label> keep) {
  Sizes dims;
  Labels kept;
  for (auto [i, label] : llvm::enumerate(term.labels)) {
    if (has(keep, label))
      kept.push_back(label);
    else
      dims.push_back(i);
  }
  return {term.value.sum(dims, false), kept};
}

/// Returns the elementwise product, its dimensions in the given order.
Term Einsum::multiply(const Term &lhs, const Term &rhs, ArrayRef<Label> order) {
  auto widen = [&](const Term &term) {
    Labels mine;
    Sizes shape;
    for (Label label : order) {
      shape.push_back(has(term.labels, label) ? size[label] : 1);
      if (has(term.labels, label))
        mine.push_back(label);
    }
    return arrange(term, mine).value.reshape(shape);
  };
  Tensor left = widen(lhs), right = widen(rhs);
  return {left * right, Labels(order)};
}

/// Returns the product of two operands, summed over labels that are not in `keep`.
Term Einsum::contract(Term lhs, Term rhs, ArrayRef<Label> keep, ArrayRef<Label> result) {
  lhs = sumOut(lhs, joinedSizes({keep, rhs.labels}));
  rhs = sumOut(rhs, joinedSizes({keep, lhs.labels}));
  if (!lhs.value || !rhs.value)
    return {};
  // The operand whose own dimensions come first in the result is the left one.
  for (Label label : result)
    if (has(lhs.labels, label) != has(rhs.labels, label)) {
      if (has(rhs.labels, label))
        std::swap(lhs, rhs);
      break;
    }
  Labels batch, rows, columns, inner;
  for (Label label : lhs.labels)
    (!has(rhs.labels, label) ? rows : has(keep, label) ? batch : inner).push_back(label);
  for (Label label : rhs.labels)
    if (!has(lhs.labels, label))
      columns.push_back(label);
  bool isFloat = lhs.value.hasFloats();
  if (inner.empty() || !isFloat || (rows.empty() && columns.empty())) {
    return sumOut(multiply(lhs, rhs, joinedSizes({lhs.labels, columns})), keep);
  }
  Labels order = joinedSizes({batch, rows, columns});
  // One matrix per batch element, transposed if the operand is.
  auto matrix = [&](const Term &term, ArrayRef<Label> outer, bool &transposed) -> Tensor {
    Labels straight = joinedSizes({batch, outer, inner}),
           turned = joinedSizes({batch, inner, outer});
    transposed = ArrayRef<Label>(turned) == ArrayRef<Label>(term.labels);
    Sizes shape = sizesOf(batch);
    int64_t sizes[2] = {1, 1};
    for (Label label : outer)
      if (__builtin_mul_overflow(sizes[0], size[label], &sizes[0]))
        return {};
    for (Label label : inner)
      if (__builtin_mul_overflow(sizes[1], size[label], &sizes[1]))
        return {};
    if (transposed)
      std::swap(sizes[0], sizes[1]);
    shape.append({sizes[0], sizes[1]});
    return arrange(term, transposed ? turned : straight).value.reshape(shape);
  };
  bool transposeLhs, transposeRhs;
  Tensor left = matrix(lhs, rows, transposeLhs), right = matrix(rhs, columns, transposeRhs);
  return {matmul(left, right, transposeLhs, !transposeRhs).reshape(sizesOf(order)), order};
}

LogicalResult Einsum::import() {
  Equation equation;
  if (node.numInputs() == 0)
    return node.error("has no operands");
  if (failed(node.require(node.numInputs())) || failed(parse(equation)))
    return failure();
  SmallVector<Labels> all;
  Type element = node.input(0).element();
  for (auto [i, text] : llvm::enumerate(equation.operands)) {
    auto type = node.input(i).type();
    if (type.getElementType() != element || element.isInteger(1))
      return node.error("operands must be numbers of one type; operand {} is {}", i, type);
    if (failed(label(i, text, all.emplace_back())))
      return failure();
  }
  Labels result;
  if (failed(readResult(equation, all, result)))
    return failure();
  SmallVector<Term> terms;
  for (auto [i, labels] : llvm::enumerate(all)) {
    Tensor value = diagonal(node.input(i), labels);
    terms.push_back(squeeze({value, labels}));
  }
  Term sum = terms.front();
  for (size_t i = 1; i < terms.size() && sum.value; ++i) {
    Labels keep(result);
    for (size_t j = i + 1; j < terms.size(); ++j)
      llvm::append_range(keep, terms[j].labels);
    sum = contract(sum, terms[i], keep, result);
  }
  sum = sumOut(sum, result);
  Labels order;
  for (Label label : result)
    if (has(sum.labels, label))
      order.push_back(label);
  // Labels that were dropped have size 1.
  node.set(0, sum.value ? arrange(sum, order).value.reshape(sizesOf(result)) : Tensor());
  return success();
}

static LogicalResult importEinsum(Node &node) { return Einsum(node).import(); }

void onnx::registerMatmulOps(HandlerRegistry &r) {
  r.add("", "MatMul", 1, importMatmul, needs(2));
  r.add("", "Gemm", 7, importGemm, needs(2));
  r.add("com.microsoft", "FusedMatMul", 1, importFusedMatmul, needs(2));
  r.add("com.microsoft", "TransposeMatMul", 1, importFusedMatmul, needs(2));
  r.add("", "Einsum", 12, importEinsum);
}
