//===- Inputs.cpp - The inputs of the forward function --------------------===//
#include "lib/Frontend/ONNX/Inputs/Inputs.h"
#include "dialects/nn/Ops/Constant.h"
#include "lib/Frontend/ONNX/Record/TracedProgram.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

Input &Inputs::add(ImportContext &context, StringRef name, RankedTensorType type,
                   std::optional<int64_t> batchDim) {
  auto place = StringAttr::get(context.mlirContext(), displayName(name));
  Location loc = NameLoc::get(place, context.fileLocation());
  BlockArgument argument = context.body.insertArgument(unsigned(list.size()), type, loc);
  Input &input = list.emplace_back(Input{name.str(), type, batchDim});
  input.argument = argument;
  context.scope.values[name].value = argument;
  return input;
}

Value Inputs::random(ImportContext &context, nn::Role role) {
  for (const Input &input : list)
    if (input.role == role)
      return input.argument;
  std::string name = context.scope.freeName("random." + nn::stringifyRole(role).str());
  auto type = RankedTensorType::get({}, context.builder.getI64Type());
  Input &input = add(context, name, type, std::nullopt);
  input.role = role;
  return input.argument;
}

Input *Inputs::of(BlockArgument argument) {
  for (Input &input : list)
    if (argument && input.argument == argument)
      return &input;
  return nullptr;
}

std::string Inputs::names() const {
  std::vector<std::string> names;
  for (const Input &input : list)
    if (!input.role)
      names.push_back(displayName(input.name));
  return listOf(names, names.size());
}

//===----------------------------------------------------------------------===//
// Declaration
//===----------------------------------------------------------------------===//

/// Returns "batch=4, 64".
static std::string describeSizes(const TensorShapeProto &declared, ArrayRef<int64_t> shape) {
  std::string text;
  for (auto [dim, size] : llvm::zip(declared.dim(), shape))
    text += (text.empty() ? "" : ", ") +
            (dim.dim_param().empty() ? "" : displayName(dim.dim_param()) + "=") +
            std::to_string(size);
  return text;
}

namespace {

/// Declares inputs one by one.
class InputReader {
public:
  InputReader(ImportContext &context, Inputs &inputs)
      : context(context), options(context.options), inputs(inputs) {}

  /// Notes the dimensions of an input, whether the loss reads it or not.
  void noteDims(const ValueInfoProto &input) {
    for (const Dimension &dim : input.type().tensor_type().shape().dim())
      if (!dim.dim_param().empty())
        dimsUsed.insert(dim.dim_param());
  }

  LogicalResult declare(const ValueInfoProto &input) {
    RankedTensorType type;
    std::optional<int64_t> batchDim;
    if (failed(take(readType(input), type)) || failed(readBatchDim(input, batchDim)))
      return failure();
    const TensorShapeProto &declared = input.type().tensor_type().shape();
    Input &added = inputs.add(context, input.name(), type, batchDim);
    added.sizes = describeSizes(declared, type.getShape());
    added.isFixed = declared.dim_size() > 0 && declared.dim(0).has_dim_value();
    if (options.bindings.lookup(input.name()) == nn::Binding::Ones) {
      // Values that depend on it are folded, so a mask that hides nothing costs nothing.
      added.folded = true;
      context.scope.values[input.name()].value =
          nn::splat(context.builder, context.fileLocation(), type, 1);
    }
    return success();
  }

  /// Fails, with an error, if sizes are missing, or if a flag names no dimension or input.
  LogicalResult checkFlags() {
    std::vector<std::string> unknown; // --dim names that no input has
    for (StringRef dim : options.dims.keys())
      if (!dimsUsed.contains(dim))
        unknown.push_back(displayName(dim));
    if (!missing.empty())
      return context.usage("sizes of dimensions are missing: pass{}{}", plain(missing),
                           plain((unknown.empty() ? "" : ", not ") + listOf(unknown, SIZE_MAX)));
    if (!unknown.empty() && dimsUsed.empty())
      return context.usage(
          "--dim {}: all sizes of the inputs are fixed in the file: leave --dim out, or export the model with free sizes (dynamic_shapes={INPUT: {0: \"batch\", 1: \"sequence\"}})",
          plain(unknown.front()));
    if (!unknown.empty())
      return context.usage("--dim: no input has a dimension {}; there are {}", unknown.front(),
                           plain(llvm::join(llvm::map_range(dimsUsed.keys(), displayName), ", ")));
    for (StringRef input : options.batchDims.keys())
      if (!context.scope.values.count(input))
        return context.usage("--batch-dim: no input {}; there are {}", input,
                             plain(inputs.names()));
    return success();
  }

private:
  using Dimension = TensorShapeProto::Dimension;

  FailureOr<RankedTensorType> readType(const ValueInfoProto &input) {
    const TypeProto::Tensor &tensor = input.type().tensor_type();
    if (!input.type().has_tensor_type() || !tensor.has_shape())
      return context.error("input {} is not a tensor of known rank", input.name());
    std::string why;
    Type element = elementType(context.mlirContext(), tensor.elem_type(), why);
    if (element && narrowInteger(tensor.elem_type()))
      why = "programs do not read element type " + std::to_string(tensor.elem_type()) +
            ": declare it int64 and cast it";
    if (!why.empty())
      return context.error("input {}: {}", input.name(), plain(why));
    SmallVector<int64_t> shape;
    for (const Dimension &dim : tensor.shape().dim()) {
      if (dim.dim_value() < 0)
        return context.error("input {} has a negative dimension", input.name());
      if (dim.dim_value() == 0 && dim.dim_param().empty())
        return context.error(
            "input {} has a dimension without size and name: export it with a name (dynamic_shapes)",
            input.name());
      shape.push_back(dim.dim_value() ? dim.dim_value() : sizeOf(dim, shape.empty()));
    }
    auto type = RankedTensorType::get(shape, element);
    if (nn::tensorBytes(type) < 0)
      return context.error("the size of input {} overflows 64 bits", input.name());
    return type;
  }

  /// Returns the size of a named dimension. Notes a flag that is missing.
  int64_t sizeOf(const Dimension &dim, bool isFirst) {
    auto given = options.dims.find(dim.dim_param());
    if (given != options.dims.end())
      return given->second;
    std::string shown = displayName(dim.dim_param());
    if (options.assumed) {
      int64_t rows = llvm::alignTo(4, uint64_t(options.dataRanks));
      auto [known, isNew] =
          assumed.try_emplace(dim.dim_param(), isFirst ? rows : options.assumedSize);
      if (isNew)
        options.assumed->push_back("--dim " + shown + "=" + std::to_string(known->second));
      return known->second;
    }
    std::string flag = " --dim " + shown + "=SIZE";
    if (!StringRef(missing).contains(flag))
      missing += flag;
    return 1;
  }

  /// Sets the dimension of --batch-dim, else the first one named `batch`, if there is one.
  LogicalResult readBatchDim(const ValueInfoProto &input, std::optional<int64_t> &batchDim) {
    const TensorShapeProto &shape = input.type().tensor_type().shape();
    auto given = options.batchDims.find(input.name());
    if (given != options.batchDims.end())
      batchDim = given->second;
    if (batchDim && (*batchDim < 0 || *batchDim >= shape.dim_size()))
      return context.usage("--batch-dim: input {} has {} dimensions", input.name(),
                           shape.dim_size());
    for (auto [number, dim] : llvm::enumerate(shape.dim()))
      if (!batchDim && dim.dim_value() == 0 && dim.dim_param() == "batch")
        batchDim = number;
    return success();
  }

  ImportContext &context;
  const ImportOptions &options;
  Inputs &inputs;
  llvm::StringSet<> dimsUsed;
  llvm::StringMap<int64_t> assumed;
  std::string missing; // flags, for an error
};

} // namespace

LogicalResult onnx::declareInputs(ImportContext &context, const llvm::StringSet<> &read,
                                  Inputs &inputs) {
  InputReader reader(context, inputs);
  const auto &initializers = context.definitions.initializers;
  // An initializer may be an input, too: ONNX's default value. PyTorch's exporter writes one if an
  // input has a parameter's name, and with keep_initializers_as_inputs.
  const llvm::StringSet<> &given = context.program->signature().userInputs;
  bool lacksInputs = llvm::count_if(context.graph().input(), [&](const ValueInfoProto &input) {
                       return !initializers.count(input.name());
                     }) < int64_t(given.size());
  for (const ValueInfoProto &input : context.graph().input()) {
    const std::string &shown = input.name();
    if (initializers.count(shown)) {
      if (given.contains(input.name()) || lacksInputs)
        return context.error(
            "input {} has the name of a parameter or buffer, so that the file does not tell them apart: export with input_names that no parameter has",
            shown);
      continue;
    }
    if (input.name().empty() || context.scope.values.count(input.name()))
      return context.error("input {} is defined twice, or has no name", shown);
    reader.noteDims(input);
    if (!read.contains(input.name())) {
      context.remark("{}: input {} is left out: the loss does not depend on it",
                     plain(context.model.path()), shown);
      continue;
    }
    if (failed(reader.declare(input)))
      return failure();
  }
  return reader.checkFlags();
}

//===----------------------------------------------------------------------===//
// The dimension that ranks split
//===----------------------------------------------------------------------===//

namespace {

/// The batch dimension as the shapes of the inputs show it: dimension 0, if any.
struct BatchSigns {
  /// Labels and tokens are the examples, or inputs that are not bound if there are no tokens.
  std::vector<Input *> examples, others;
  std::optional<int64_t> size;
  bool isOpen = false;  // an example has no dimension that is named `batch`
  bool isShown = false; // the examples show the batch, and no other input makes it ambiguous
};

} // namespace

static BatchSigns readSigns(Inputs &inputs) {
  auto isTokens = [](const Input &input) {
    return !input.role && (input.isLabel || nn::readsTokens(input.binding));
  };
  BatchSigns signs;
  bool haveTokens = llvm::any_of(inputs, isTokens), rows = false;
  for (Input &input : inputs)
    if (!input.role)
      ((haveTokens ? isTokens(input) : input.binding == nn::Binding::Data) ? signs.examples
                                                                           : signs.others)
          .push_back(&input);
  signs.isShown = !signs.examples.empty();
  for (Input *input : signs.examples) {
    ArrayRef<int64_t> shape = input->type.getShape();
    signs.isOpen |= !input->batchDim;
    rows |= shape.size() >= 2;
    int64_t dim = input->batchDim.value_or(0);
    signs.isShown &= dim < int64_t(shape.size()) && (!signs.size || *signs.size == shape[dim]);
    if (dim < int64_t(shape.size()))
      signs.size = shape[dim];
  }
  // Another input of that size in dimension 0 is ambiguous if labels or tokens have a later
  // dimension of the same size.
  bool hasLater = false;
  for (const Input *input : signs.examples)
    hasLater |= input->type.getRank() > 0 && signs.size &&
                llvm::is_contained(input->type.getShape().drop_front(), *signs.size);
  for (const Input *other : signs.others)
    rows &= !hasLater || other->binding != nn::Binding::Data || other->batchDim ||
            other->type.getRank() == 0 || other->type.getDimSize(0) != *signs.size;
  signs.isShown &= rows;
  return signs;
}

/// Takes dimension 0 of the inputs that have the batch there. Fails, with an error, if the file
/// fixes it and it does not divide over the ranks.
static LogicalResult takeBatch(ImportContext &context, const BatchSigns &signs) {
  std::vector<std::string> names;
  bool isFixed = false;
  int64_t size = *signs.size, ranks = context.options.dataRanks;
  for (const std::vector<Input *> *inputs : {&signs.examples, &signs.others})
    for (Input *input : *inputs) {
      ArrayRef<int64_t> shape = input->type.getShape();
      if (input->batchDim || shape.empty() || shape[0] != size ||
          (inputs == &signs.others && shape.size() < 2 && input->binding != nn::Binding::Data))
        continue;
      input->batchDim = 0;
      isFixed |= input->isFixed;
      names.push_back(displayName(input->name));
    }
  std::string taken = listOf(names, names.size());
  if (isFixed && size % ranks != 0)
    return context.usage(
        "the batch of {} in {} is fixed in the file and does not divide over the {} ranks of the mesh's data axes: "
        "export with a batch of {}, or with a free one (dynamic_shapes={INPUT: {0: \"batch\"}}) and --dim batch=N",
        size, plain(taken), ranks, (size / ranks + 1) * ranks);
  context.note(
      "no dimension of {} is named 'batch': the first, of {}, is used as the batch (--batch-dim INPUT:DIM selects another)",
      plain(taken), size);
  return success();
}

LogicalResult onnx::chooseBatch(ImportContext &context, Inputs &inputs) {
  BatchSigns signs = readSigns(inputs);
  if (signs.isOpen && signs.isShown)
    return takeBatch(context, signs);
  if (!signs.isOpen || context.options.dataRanks == 1)
    return success();
  std::string shapes;
  for (const Input *input : signs.examples) {
    llvm::raw_string_ostream os(shapes);
    os << (shapes.empty() ? "'" : ", '") << displayName(input->name) << "' [";
    llvm::interleaveComma(input->type.getShape(), os);
    os << "]";
  }
  return context.usage(
      "no dimension is named 'batch', and the inputs ({}) do not show which one it is: each of the {} ranks would compute the whole batch. "
      "Pass --batch-dim INPUT:0 for each input whose dimension 0 is the batch: it is then split over the ranks",
      plain(shapes.empty() ? "none" : shapes), context.options.dataRanks);
}
