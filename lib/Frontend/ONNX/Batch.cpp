//===- Batch.cpp - The dimension that ranks split -------------------------===//
#include "lib/Frontend/ONNX/Inputs.h"

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

static bool isTokens(const Input &input) {
  return input.isLabel || StringRef(input.binding).starts_with("tokens");
}

namespace {

/// Finds the batch in dimension 0 of inputs.
class BatchFinder {
public:
  BatchFinder(ImportContext &context, Inputs &inputs);

  /// Whether an example has no dimension that is named `batch`.
  bool isOpen() const { return open; }
  /// Whether the examples show the batch, and no other input makes it ambiguous.
  bool isShown() const;
  /// Takes dimension 0 of the inputs that have the batch there.
  LogicalResult take();
  LogicalResult refuse();

private:
  LogicalResult checkFixed(const std::string &taken);
  bool isAmbiguous(const Input &other) const;
  bool hasBatch(const Input &input, bool isExample) const;

  ImportContext &context;
  std::vector<Input *> examples, others;
  std::optional<int64_t> size;
  bool rows = false, open = false, agree = false;
};

} // namespace

/// Labels and tokens are the examples, or inputs that are not bound if there are no tokens.
BatchFinder::BatchFinder(ImportContext &context, Inputs &inputs) : context(context) {
  bool haveTokens =
      llvm::any_of(inputs, [&](const Input &input) { return !input.role && isTokens(input); });
  for (Input &input : inputs)
    if (!input.role)
      ((haveTokens ? isTokens(input) : input.binding.empty()) ? examples : others)
          .push_back(&input);
  agree = !examples.empty();
  for (Input *input : examples) {
    ArrayRef<int64_t> shape = input->type.getShape();
    open |= !input->batchDim;
    rows |= shape.size() >= 2;
    int64_t dim = input->batchDim.value_or(0);
    agree &= dim < int64_t(shape.size()) && (!size || *size == shape[dim]);
    if (dim < int64_t(shape.size()))
      size = shape[dim];
  }
}

/// Another input of that size in dimension 0 is ambiguous if labels or tokens have a later
/// dimension of the same size.
bool BatchFinder::isAmbiguous(const Input &other) const {
  if (!other.binding.empty() || other.batchDim || other.type.getRank() == 0 ||
      other.type.getDimSize(0) != *size)
    return false;
  return llvm::any_of(examples, [&](const Input *input) {
    return llvm::is_contained(input->type.getShape().drop_front(), *size);
  });
}

bool BatchFinder::isShown() const {
  return agree && rows &&
         llvm::none_of(others, [&](const Input *other) { return isAmbiguous(*other); });
}

bool BatchFinder::hasBatch(const Input &input, bool isExample) const {
  ArrayRef<int64_t> shape = input.type.getShape();
  return !input.batchDim && !shape.empty() && shape[0] == *size &&
         (isExample || shape.size() >= 2 || input.binding.empty());
}

LogicalResult BatchFinder::take() {
  std::string taken;
  bool fixed = false;
  for (Input *input : llvm::concat<Input *>(examples, others)) {
    if (!hasBatch(*input, llvm::is_contained(examples, input)))
      continue;
    input->batchDim = 0;
    fixed |= input->isFixed;
    taken += (taken.empty() ? "'" : ", '") + displayName(input->name) + "'";
  }
  if (fixed && failed(checkFixed(taken)))
    return failure();
  context.note("no dimension of " + taken + " is named 'batch': the first, of " + Twine(*size) +
               ", is used as the batch (--batch-dim INPUT:DIM selects another)");
  return success();
}

/// Fails, with an error, if a batch that the file fixes does not divide over the ranks.
LogicalResult BatchFinder::checkFixed(const std::string &taken) {
  int64_t ranks = context.options.dataRanks;
  if (*size % ranks == 0)
    return success();
  return context.usage(
      "the batch of " + Twine(*size) + " in " + taken +
      " is fixed in the file and does not divide over the " + Twine(ranks) +
      " ranks of the mesh's data axes: export with a batch of " +
      Twine((*size / ranks + 1) * ranks) +
      ", or with a free one (dynamic_shapes={INPUT: {0: \"batch\"}}) and --dim batch=N");
}

/// Emits the error that each rank would compute the whole batch.
LogicalResult BatchFinder::refuse() {
  std::string shapes;
  for (Input *input : examples) {
    std::string shape;
    for (int64_t size : input->type.getShape())
      shape += (shape.empty() ? "" : ", ") + std::to_string(size);
    shapes += (shapes.empty() ? "'" : ", '") + displayName(input->name) + "' [" + shape + "]";
  }
  return context.usage(
      "no dimension is named 'batch', and the inputs (" + (shapes.empty() ? "none" : shapes) +
      ") do not show which one it is: each of the " + Twine(context.options.dataRanks) +
      " ranks would compute the whole batch. Pass --batch-dim INPUT:0 for each input whose dimension 0 is the batch: "
      "it is then split over the ranks");
}

FailureOr<Inputs> onnx::chooseBatch(ImportContext &context, Inputs inputs) {
  BatchFinder finder(context, inputs);
  if (!finder.isOpen())
    return inputs;
  if (finder.isShown()) {
    if (failed(finder.take()))
      return failure();
  } else if (context.options.dataRanks != 1) {
    return finder.refuse();
  }
  return inputs;
}
