//===- Matmul.cpp - Matmuls and Einsum ------------------------------------===//
#include "lib/Frontend/ONNX/Ops/Ops.h"
#include "llvm/ADT/StringExtras.h"
#include <map>

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

/// Multiplies as numpy's matmul does. Returns null after an error.
static Tensor multiplied(Node &node, Tensor lhs, Tensor rhs) {
  if (lhs.rank() == 0 || rhs.rank() == 0)
    return node.error("cannot multiply scalars");
  bool isRow = lhs.rank() == 1, isColumn = rhs.rank() == 1;
  if (isRow)
    lhs = lhs.unsqueeze(0);
  if (isColumn)
    rhs = rhs.unsqueeze(1);
  if (!lhs || !rhs)
    return {};
  if (lhs.dim(-1) != rhs.dim(-2))
    return node.error("matrices {} and {} do not multiply", lhs, rhs);
  Sizes shape(lhs.shape());
  Tensor result;
  if (rhs.rank() == 2) {
    // A matmul with a weight has no batch dimensions.
    int64_t rows = llvm::product_of(lhs.shape().drop_back());
    result = matmul(lhs.reshape({rows, lhs.dim(-1)}), rhs);
  } else {
    Sizes batch;
    if (failed(broadcastShape({lhs, rhs}, batch, /*inner=*/2)))
      return {};
    auto widen = [&](Tensor value) {
      return value.broadcast(joinedSizes({batch, value.shape().take_back(2)}));
    };
    result = matmul(widen(lhs), widen(rhs));
    shape = joinedSizes({batch, lhs.shape().take_back(2)});
  }
  shape.back() = rhs.dim(-1);
  if (isColumn)
    shape.pop_back();
  if (isRow)
    shape.erase(shape.end() - (isColumn ? 1 : 2));
  return result.reshape(shape);
}

static Tensor importMatmul(Node &node, Tensor left, Tensor right) {
  if (double ratio = node.building.lostDropout.lookup(&node.proto); ratio != 0)
    left = dropped(node, left, ratio);
  return left ? multiplied(node, left, right) : Tensor();
}

/// FusedMatMul of com.microsoft: a matmul with a factor. The last two dimensions of an operand, or
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
  }
  double alpha = node.floatAttr("alpha", 1);
  return scaled(multiplied(node, operands[0], operands[1]), alpha);
}

static Tensor importGemm(Node &node, Tensor a, Tensor b, Tensor c) {
  if (a.rank() != 2 || b.rank() != 2)
    return node.error("operands must be matrices");
  Tensor result = matmul(a, b, node.flagAttr("transA", false), node.flagAttr("transB", false));
  result = scaled(result, node.floatAttr("alpha", 1));
  if (!c)
    return result;
  Tensor sum = result + scaled(c, node.floatAttr("beta", 1));
  return !sum || sum.getType() == result.getType()
             ? sum
             : node.error("operand 2 is larger than the matmul");
}

// Operands of an Einsum are contracted from left to right. A label that two operands share
// is an inner dimension of a matmul if no later operand and not the
// result has it, else a batch dimension. Without an inner dimension the matmul
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

class Einsum {
public:
  explicit Einsum(Node &node) : node(node) {}

  Tensor import() {
    if (node.numInputs() == 0)
      return node.error("has no operands");
    if (failed(node.require(node.numInputs())) || failed(parse()))
      return {};
    SmallVector<Labels> all;
    Type element = node.input(0).element();
    for (auto [i, text] : llvm::enumerate(operands)) {
      Tensor x = node.input(i);
      if (x.element() != element || element.isInteger(1))
        return node.error("operands must be numbers of one type; operand {} is {}", i, x);
      if (failed(label(i, text, all.emplace_back())))
        return {};
    }
    Labels result;
    if (failed(readResult(all, result)))
      return {};
    SmallVector<Term> terms;
    for (auto [i, labels] : llvm::enumerate(all))
      terms.push_back(squeeze(diagonal({node.input(i), labels})));
    Term sum = terms.front();
    for (size_t i = 1; i < terms.size(); ++i) {
      Labels keep(result);
      for (size_t j = i + 1; j < terms.size(); ++j)
        llvm::append_range(keep, terms[j].labels);
      sum = contract(sum, terms[i], keep, result);
    }
    sum = sumOut(sum, result);
    // Labels that were dropped have size 1.
    return arrange(sum, common(result, sum.labels)).value.reshape(sizesOf(result));
  }

private:
  static bool has(ArrayRef<Label> labels, Label label) { return llvm::is_contained(labels, label); }
  /// Returns the labels that are, or are not, in `others`.
  static Labels common(ArrayRef<Label> labels, ArrayRef<Label> others, bool isIn = true) {
    return llvm::to_vector(
        llvm::make_filter_range(labels, [&](Label label) { return has(others, label) == isIn; }));
  }
  Sizes sizesOf(ArrayRef<Label> labels) {
    return llvm::map_to_vector(labels, [&](Label label) { return size[label]; });
  }

  LogicalResult parseTerm(StringRef text, std::string &term) {
    while (!text.empty()) {
      if (text.consume_front("...")) {
        if (StringRef(term).contains('.'))
          return node.error("the equation has two ellipses in one term");
        term += '.';
      } else if (char c = text.front(); llvm::isAlpha(c) || c == ' ') {
        term += c == ' ' ? "" : std::string(1, c);
        text = text.drop_front();
      } else {
        return node.error("the equation has {}, which is neither a letter nor '...'",
                          text.take_front());
      }
    }
    return success();
  }

  LogicalResult parse() {
    std::string text = node.stringAttr("equation", "");
    if (!node.attribute("equation"))
      return node.error("has no equation");
    auto [left, right] = StringRef(text).split("->");
    if (left.size() != text.size() && failed(parseTerm(right, resultText.emplace())))
      return failure();
    SmallVector<StringRef> terms;
    left.split(terms, ',');
    if (int64_t(terms.size()) != node.numInputs())
      return node.error("the equation has {} terms, the node has {} operands", terms.size(),
                        node.numInputs());
    for (StringRef term : terms)
      if (failed(parseTerm(term, operands.emplace_back())))
        return failure();
    return failure(node.hasFailed());
  }

  /// Matches an operand's dimensions with its term, and its sizes with those of
  /// other operands.
  LogicalResult label(int operand, StringRef text, Labels &labels) {
    Tensor x = node.input(operand);
    bool open = text.contains('.');
    int64_t letters = text.size() - open, rank = x.rank();
    if (open ? rank < letters : rank != letters)
      return node.error("operand {} has {} dimensions, the equation names {}", operand, rank,
                        letters);
    if (open)
      ellipsisRank = std::max(ellipsisRank, rank - letters);
    for (char c : text)
      append(labels, c, rank - letters);
    for (auto [label, mine] : llvm::zip(labels, x.shape())) {
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
  /// Appends the label of a letter, or those of an ellipsis.
  static void append(Labels &labels, char c, int64_t ellipsisRank) {
    if (c != '.')
      labels.push_back(c);
    for (int64_t i = c == '.' ? ellipsisRank : 0; i-- > 0;)
      labels.push_back(kEllipsis + i);
  }

  /// Reads the labels of the result: those given, or the ellipsis and then the
  /// letters that appear once, in the order of their codes.
  LogicalResult readResult(ArrayRef<Labels> all, Labels &result) {
    if (!resultText) {
      append(result, '.', ellipsisRank);
      for (auto [label, unused] : size) {
        int64_t count = 0;
        for (const Labels &labels : all)
          count += llvm::count(labels, label);
        if (label < kEllipsis && count == 1)
          result.push_back(label);
      }
      return success();
    }
    for (char c : *resultText) {
      if (c != '.' && !size.count(c))
        return node.error("the result's dimension '" + Twine(c) + "' is in no operand");
      if (has(result, c))
        return node.error("the result names dimension '" + Twine(c) + "' twice");
      append(result, c, ellipsisRank);
    }
    return success();
  }

  /// Replaces two dimensions of one label by their diagonal, until all differ.
  Term diagonal(Term term) {
    auto &[value, labels] = term;
    for (size_t i = 0; value && i < labels.size(); ++i) {
      size_t j = std::find(labels.begin() + i + 1, labels.end(), labels[i]) - labels.begin();
      if (j == labels.size())
        continue;
      Label label = labels[i];
      int64_t n = value.dim(i), last = labels.size() - 2;
      if (value.dim(j) != n)
        return {node.error("the diagonal of {} has sizes {} and {}", std::string(1, char(label)), n,
                           value.dim(j)),
                {}};
      // [.., n, n] -> [.., n * n] -> every (n + 1)-th
      Sizes perm = withoutDim(withoutDim(allDims(value.rank()), j), i);
      perm.append({int64_t(i), int64_t(j)});
      value = value.transpose(perm);
      // At most the tensor's elements: no overflow.
      value = value.reshape(joinedSizes({value.shape().take_front(last), {n * n}}));
      value = value.part(last, 0, n * n, n + 1);
      labels = withoutDim(withoutDim(labels, j), i);
      labels.push_back(label);
      i = size_t(-1); // from the first again
    }
    return term;
  }

  Term squeeze(Term term) {
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
  Term arrange(Term term, ArrayRef<Label> order) {
    Sizes perm = llvm::map_to_vector(order, [&](Label label) -> int64_t {
      return llvm::find(term.labels, label) - term.labels.begin();
    });
    bool turns = !llvm::is_sorted(perm);
    return {term.value.transpose(perm, /*joined=*/turns), Labels(order)};
  }

  /// Sums over the dimensions that are not in `keep`.
  Term sumOut(Term term, ArrayRef<Label> keep) {
    Sizes dims;
    for (auto [i, label] : llvm::enumerate(term.labels))
      if (!has(keep, label))
        dims.push_back(i);
    return {term.value.sum(dims, false), common(term.labels, keep)};
  }

  /// Returns the elementwise product, its dimensions in the given order.
  Term multiply(const Term &lhs, const Term &rhs, ArrayRef<Label> order) {
    auto widen = [&](const Term &term) {
      Sizes shape = llvm::map_to_vector(
          order, [&](Label label) { return has(term.labels, label) ? size[label] : 1; });
      return arrange(term, common(order, term.labels)).value.reshape(shape);
    };
    Tensor left = widen(lhs), right = widen(rhs);
    return {left * right, Labels(order)};
  }

  /// Returns the matmul of two operands, summed over labels that are not in `keep`.
  Term contract(Term lhs, Term rhs, ArrayRef<Label> keep, ArrayRef<Label> result) {
    lhs = sumOut(lhs, joinedSizes({keep, rhs.labels}));
    rhs = sumOut(rhs, joinedSizes({keep, lhs.labels}));
    if (!lhs.value || !rhs.value)
      return {};
    // The operand whose own dimensions come first in the result is the left one.
    const auto *first = llvm::find_if(
        result, [&](Label label) { return has(lhs.labels, label) != has(rhs.labels, label); });
    if (first != result.end() && has(rhs.labels, *first))
      std::swap(lhs, rhs);
    Labels shared = common(lhs.labels, rhs.labels), batch = common(shared, keep),
           inner = common(shared, keep, false), rows = common(lhs.labels, rhs.labels, false),
           columns = common(rhs.labels, lhs.labels, false);
    if (inner.empty() || !lhs.value.hasFloats() || (rows.empty() && columns.empty()))
      return sumOut(multiply(lhs, rhs, joinedSizes({lhs.labels, columns})), keep);
    Labels order = joinedSizes({batch, rows, columns});
    // One matrix per batch element, transposed if the operand is.
    auto matrix = [&](const Term &term, ArrayRef<Label> outer, bool &transposed) -> Tensor {
      Labels straight = joinedSizes({batch, outer, inner}),
             turned = joinedSizes({batch, inner, outer});
      transposed = ArrayRef<Label>(turned) == ArrayRef<Label>(term.labels);
      Sizes shape = sizesOf(batch);
      for (ArrayRef<Label> side : {outer, ArrayRef<Label>(inner)}) {
        int64_t product = 1;
        for (int64_t n : sizesOf(side))
          if (__builtin_mul_overflow(product, n, &product))
            return {};
        shape.insert(transposed ? shape.begin() + batch.size() : shape.end(), product);
      }
      return arrange(term, transposed ? turned : straight).value.reshape(shape);
    };
    bool transposeLhs, transposeRhs;
    Tensor left = matrix(lhs, rows, transposeLhs), right = matrix(rhs, columns, transposeRhs);
    return {matmul(left, right, transposeLhs, !transposeRhs).reshape(sizesOf(order)), order};
  }

  Node &node;
  /// Letters and ellipses of the equation; "..." is one '.'.
  SmallVector<std::string> operands;
  std::optional<std::string> resultText;
  std::map<Label, int64_t> size;
  int64_t ellipsisRank = 0;
};

} // namespace

void onnx::registerMatmulOps(HandlerRegistry &r) {
  r.add("", "MatMul", 1, importMatmul, needs(2));
  r.add("", "Gemm", 7, importGemm, needs(2));
  r.add("com.microsoft", "FusedMatMul", 1, importFusedMatmul, needs(2));
  r.add("com.microsoft", "TransposeMatMul", 1, importFusedMatmul, needs(2));
  r.add("", "Einsum", 12, [](Node &node) { return Einsum(node).import(); });
}
