//===- States.cpp - Parameters and buffers that are states ----------------===//
#include "lib/Frontend/ONNX/Inputs/States.h"
#include "dialects/nn/Ops/Elementwise.h"
#include "dialects/nn/Ops/State.h"
#include "lib/Analysis/Origins.h"
#include "lib/Frontend/ONNX/Loss/Losses.h"
#include "lib/Frontend/ONNX/Record/TracedProgram.h"
#include "lib/Frontend/ONNX/Record/Words.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

/// Maximum number of buffers that a note names.
static constexpr size_t kShown = 4;

const Parameter *States::of(Value value) const {
  auto found = llvm::find(values, value);
  return found == values.end() ? nullptr : &parameters.list[found - values.begin()];
}

std::optional<size_t> States::indexOf(StringRef name) const {
  for (auto [index, parameter] : llvm::enumerate(parameters.list))
    if (parameter.name == name || parameters.prefix + parameter.name == name ||
        llvm::is_contained(parameter.aliases, name))
      return index;
  return std::nullopt;
}

std::string onnx::parameterBehind(const States &states, Value value) {
  std::string name;
  walkBack(value, [&](Value next) {
    if (const Parameter *state = states.of(next); name.empty() && state && state->isParameter)
      name = displayName(state->name);
    return name.empty() && !isa_and_nonnull<nn::StopGradientOp>(next.getDefiningOp());
  });
  return name;
}

bool States::isTrained(size_t index, const ParameterOptions &options) const {
  const Parameter &parameter = parameters.list[index];
  return parameter.isParameter && values[index] && !options.freezes(parameter.name);
}

//===----------------------------------------------------------------------===//
// Initial values
//===----------------------------------------------------------------------===//

/// Returns an initial value of one number.
static Attribute fillOf(MLIRContext *context, double number) {
  return nn::FillAttr::get(context, FloatAttr::get(Float64Type::get(context), number));
}

/// Returns elements as an initial value: one number if all are equal, zeros if there are none.
static Attribute initialValue(RankedTensorType type, ArrayRef<double> values) {
  if (llvm::all_equal(values))
    return fillOf(type.getContext(), values.empty() ? 0.0 : values.front());
  const llvm::fltSemantics &semantics = cast<FloatType>(type.getElementType()).getFloatSemantics();
  SmallVector<APFloat> elements;
  for (double value : values) {
    bool inexact;
    elements.emplace_back(value);
    elements.back().convert(semantics, APFloat::rmNearestTiesToEven, &inexact);
  }
  return DenseElementsAttr::get(type, elements);
}

/// Returns a value that the file computes as an initial value.
static Attribute initialValue(DenseElementsAttr values) {
  return values.isSplat()
             ? fillOf(values.getContext(), values.getSplatValue<APFloat>().convertToDouble())
             : Attribute(values);
}

/// Freezes what the file records. Fails, with an error, if the file does not have such a parameter,
/// or if nothing is left to train.
static LogicalResult freezeRecorded(ImportContext &context, const States &states) {
  const ParameterOptions &options = context.options.parameters;
  llvm::StringSet<> known;
  SmallVector<StringRef> frozen;
  size_t count = 0;
  for (auto [parameter, value] : llvm::zip(states.parameters.list, states.values)) {
    known.insert(parameter.name);
    known.insert_range(parameter.aliases);
    if (parameter.isParameter && value && ++count &&
        options.recordedFrozen.contains(parameter.name))
      frozen.push_back(parameter.name);
  }
  known.insert_range(states.parameters.absent);
  for (const std::vector<std::string> &names :
       readRecordedFrozen(context.graph(), options.keepPrefix))
    if (llvm::none_of(names, [&](const std::string &name) { return known.contains(name); }))
      return context.error(
          "the file records that parameter {} does not require a gradient, and has no parameter of this name: export the module again",
          names.front());
  if (!frozen.empty() && frozen.size() == count)
    return context.error("the file records that no parameter requires a gradient, so there is "
                         "nothing to train: set requires_grad of what is to be trained, and "
                         "export again");
  for (StringRef name : frozen) {
    markUntrained(context, name);
    context.remark("parameter {} is not trained: the file records requires_grad=False", name);
  }
  return success();
}

/// Tells of the files of weights that are missing.
static void reportMissing(ImportContext &context) {
  for (const std::string &path : context.model.missing) {
    std::string text =
        say("{}: weights {} do not exist (yet): a program will look for them when it starts",
            {plain(context.model.path()), path});
    if (context.options.missingData == ImportOptions::MissingData::Remark)
      context.remark(text);
    else
      emitWarning(context.fileLocation()) << text;
  }
}

/// Returns the initial value that lies at a place of a file.
static nn::FileAttr fileAttr(ImportContext &context, const FileRange &place, bool transposed) {
  SmallString<256> path(place.path);
  (void)llvm::sys::fs::make_absolute(path);
  return nn::FileAttr::get(context.mlirContext(), path, place.offset, place.length, transposed,
                           Type());
}

/// Returns the initial value of an initializer, which lies at `place`: in general that place.
static FailureOr<Attribute> readInit(ImportContext &context, const Parameter &parameter,
                                     const std::optional<FileTraining> &training,
                                     const FileRange &place) {
  if (training)
    if (DenseElementsAttr given = training->initial.lookup(parameter.initializer->name()))
      return initialValue(given);
  if (!place.path.empty())
    return Attribute(fileAttr(context, place, parameter.transposed));
  auto data = context.readConstant(*parameter.initializer);
  if (!data)
    return context.error("parameter {}: {}", parameter.name, data.takeError());
  if (!data->isSplat())
    return context.error(
        "initializer {} is stored as a list of numbers, not as bytes: save the model again with raw data",
        parameter.name);
  return initialValue(*data);
}

/// Reads the type and the initial value of a parameter or buffer. `type` stays null if the buffer
/// is a constant where it is read.
static LogicalResult readState(ImportContext &context, const Parameter &parameter,
                               const std::optional<FileTraining> &training, RankedTensorType &type,
                               Attribute &init) {
  if (!parameter.initializer) {
    std::string why;
    Type element = elementType(context.mlirContext(), parameter.dataType, why);
    type = RankedTensorType::get(parameter.shape, element);
    init = initialValue(type, parameter.values);
    return success();
  }
  auto stored = context.model.type(context.mlirContext(), *parameter.initializer);
  if (!stored)
    return context.error("parameter {}: {}", parameter.name, stored.takeError());
  if (!parameter.isParameter && nn::tensorBytes(*stored) <= kConstantLimit && !parameter.isChanged)
    return success();
  auto place = context.model.fileRange(*parameter.initializer, *stored);
  if (!place)
    return context.error("initializer {} of parameter {}: {}", parameter.initializer->name(),
                         parameter.name, place.takeError());
  type = *stored;
  if (parameter.transposed)
    type = type.clone({type.getDimSize(1), type.getDimSize(0)});
  if (!parameter.shape.empty()) // the same elements in another shape
    type = type.clone(parameter.shape);
  return take(readInit(context, parameter, training, *place), init);
}

/// Declares a parameter or buffer. Returns its argument; null if it is a constant where it is read.
static FailureOr<Value> declareState(ImportContext &context, const Parameter &parameter,
                                     const std::optional<FileTraining> &training,
                                     llvm::StringSet<> &names) {
  RankedTensorType type;
  Attribute init;
  if (failed(readState(context, parameter, training, type, init)))
    return failure();
  if (!type)
    return Value();
  if (!names.insert(parameter.name).second)
    return context.error("two parameters are named {}", parameter.name);
  OpBuilder states(context.mlirContext());
  states.setInsertionPointToEnd(context.module.getBody());
  StringAttr shown = states.getStringAttr(displayName(parameter.name));
  auto role = parameter.isParameter ? nn::Role::Param : nn::Role::Buffer;
  auto state = nn::StateOp::create(states, context.fileLocation(), shown, role, type);
  if (init)
    state.setInitAttr(init);
  if (!parameter.aliases.empty())
    state.setNamesAttr(states.getStrArrayAttr(llvm::to_vector_of<StringRef>(parameter.aliases)));
  return Value(context.body.addArgument(type, NameLoc::get(shown, context.fileLocation())));
}

void onnx::markUntrained(ImportContext &context, StringRef name) {
  auto state = context.module.lookupSymbol<nn::StateOp>(name);
  state.setTrainedAttr(BoolAttr::get(context.mlirContext(), false));
}

/// Returns what the names of a record of export.py begin with in the importer: the module in which
/// it wrapped the user's, if `keepPrefix`, else nothing.
static std::string recordedPrefix(const GraphProto &graph, bool keepPrefix) {
  StringRef wrapper = metadata(graph.metadata_props(), words::kWrapper);
  return keepPrefix && !wrapper.empty() ? (wrapper + ".").str() : "";
}

std::vector<std::vector<std::string>> onnx::readRecordedFrozen(const GraphProto &graph,
                                                               bool keepPrefix) {
  std::string prefix = recordedPrefix(graph, keepPrefix);
  std::vector<std::vector<std::string>> frozen;
  for (StringRef line : llvm::split(metadata(graph.metadata_props(), words::kFrozen), '\n')) {
    std::vector<std::string> names;
    for (StringRef name : llvm::split(line, '\t'))
      if (!name.empty())
        names.push_back(prefix + name.str());
    if (!names.empty())
      frozen.push_back(std::move(names));
  }
  return frozen;
}

/// Records in the module's `nn.buffers` which buffers the state_dict has, and where the file has
/// their values. If a node reads an invalid buffer, that is an error elsewhere.
static void describeBuffers(ImportContext &context, const Parameters &parameters) {
  const llvm::StringSet<> &transient = context.program->signature().transient;
  OpBuilder &builder = context.builder;
  NamedAttrList entries;
  std::vector<std::string> absent;
  for (const Parameter &buffer : parameters.list) {
    if (buffer.isParameter)
      continue;
    std::string name = parameters.prefix + buffer.name;
    // If no operation was found to read it, the file may have it under its own name.
    const TensorProto *tensor = buffer.used && buffer.initializer
                                    ? buffer.initializer
                                    : context.definitions.initializers.lookup(name);
    NamedAttrList fields;
    fields.append("persistent", builder.getBoolAttr(!transient.contains(name)));
    if (!tensor && !transient.contains(name))
      absent.push_back(displayName(buffer.name));
    auto type = tensor && !buffer.transposed ? context.model.type(context.mlirContext(), *tensor)
                                             : RankedTensorType();
    auto place = type && *type ? context.model.fileRange(*tensor, *type) : FileRange();
    if (place && !place->path.empty()) {
      fields.append("type", TypeAttr::get(*type));
      fields.append("init", fileAttr(context, *place, /*transposed=*/false));
    }
    llvm::consumeError(type.takeError());
    llvm::consumeError(place.takeError());
    entries.append(builder.getStringAttr(displayName(buffer.name)),
                   fields.getDictionary(context.mlirContext()));
  }
  if (!absent.empty())
    context.note(
        "buffers of the state_dict are not in the file: {}; model.safetensors gets them from --init, or from an export with optimize=False",
        plain(listOf(absent, kShown)));
  if (!entries.empty())
    context.module->setAttr(nn::kBuffersAttr, entries.getDictionary(context.mlirContext()));
}

//===----------------------------------------------------------------------===//
// New values
//===----------------------------------------------------------------------===//

FailureOr<std::vector<NextBuffer>> onnx::readNextBuffers(ImportContext &context) {
  std::vector<NextBuffer> buffers;
  StringRef text = metadata(context.graph().metadata_props(), words::kNextBuffers);
  if (text.empty())
    return buffers;
  std::string prefix = recordedPrefix(context.graph(), context.options.parameters.keepPrefix);
  llvm::StringSet<> outputs = namesOf(context.graph().output()), names;
  for (StringRef line : llvm::split(text, '\n')) {
    auto [name, output] = line.split('\t');
    if (name.empty() || !outputs.contains(output))
      return context.error(
          "the file records that output {} is the new value of buffer {}, and has no output of this name: export the module again",
          output, name);
    if (!names.insert(name).second)
      return context.error("the file records two new values of buffer {}: export the module again",
                           name);
    buffers.push_back({(prefix + name).str(), output.str()});
  }
  return buffers;
}

/// Returns the new value that the file records for a buffer; null if it records none.
static const NextBuffer *nextOf(ArrayRef<NextBuffer> buffers, const Parameter &buffer) {
  auto found = llvm::find_if(
      buffers, [&](auto &each) { return !buffer.isParameter && each.name == buffer.name; });
  return found == buffers.end() ? nullptr : &*found;
}

FailureOr<std::vector<NextValue>> onnx::nextValues(ImportContext &context, const States &states,
                                                   ArrayRef<NextBuffer> buffers) {
  std::vector<NextValue> values;
  for (auto [index, state] : llvm::enumerate(states.values)) {
    const NextBuffer *next = nextOf(buffers, states.parameters.list[index]);
    if (!next || !state)
      continue;
    FailureOr<Value> value = outputNamed(context, next->output);
    if (failed(value))
      return failure();
    if (value->getType() != state.getType())
      return context.error(
          "output {} cannot be the new value of buffer {}: it is {}, the buffer {}; export the module again",
          next->output, next->name, value->getType(), state.getType());
    values.push_back({index, *value});
  }
  return values;
}

FailureOr<States> onnx::declareStates(ImportContext &context,
                                      const std::optional<FileTraining> &training,
                                      ArrayRef<NextBuffer> changed) {
  Model &model = context.model;
  States states;
  states.parameters = training
                          ? findNamed(model, training->parameters, training->frozen)
                          : findParameters(model, *context.program, context.options.parameters);
  // Changed buffers are states. Those that no node reads stay as they are in the file.
  for (Parameter &parameter : states.parameters.list)
    parameter.isChanged |= bool(nextOf(changed, parameter));
  const Parameters &parameters = states.parameters;
  context.setPrefix(parameters.prefix);
  for (StringRef constant : context.options.parameters.constants.keys())
    if (!context.definitions.initializers.count(constant))
      return context.usage("--constant: no initializer is named {}", constant);
  if (!parameters.refusals.empty())
    return context.refuse(parameters.refusals);
  for (const std::string &text : parameters.notes)
    context.note(text);
  if (!parameters.absent.empty())
    context.module->setAttr(nn::kAbsentAttr, context.builder.getStrArrayAttr(
                                                 llvm::to_vector_of<StringRef>(parameters.absent)));
  llvm::StringSet<> names;
  states.values.resize(parameters.list.size());
  for (auto [parameter, value] : llvm::zip(parameters.list, states.values))
    if (parameter.used && failed(take(declareState(context, parameter, training, names), value)))
      return failure();
  reportMissing(context);
  for (const Repair &repair : parameters.repairs) {
    Location location = repair.node ? context.locationOf(*repair.node) : context.fileLocation();
    repair.isNote ? emitNote(location, repair.text) : emitDecision(location, "import", repair.text);
  }
  if (failed(freezeRecorded(context, states)))
    return failure();
  describeBuffers(context, parameters);
  return states;
}

//===----------------------------------------------------------------------===//
// Which size of a flag an error may come from
//===----------------------------------------------------------------------===//

/// A table has fewer than this many rows beyond its positions (OPT has two).
static constexpr int64_t kMoreRows = 8;

std::string onnx::positionsHint(const ImportOptions &options, const States &states,
                                ArrayRef<Value> tables, int64_t has, int64_t wants) {
  // The largest --dim that may be the size of `wants` positions.
  const llvm::StringMapEntry<int64_t> *dim = nullptr;
  for (const auto &entry : options.dims)
    if (entry.getKey() != "batch" && entry.getValue() <= wants &&
        wants - entry.getValue() < std::min(kMoreRows, has) &&
        (!dim || entry.getValue() > dim->getValue()))
      dim = &entry;
  if (!dim || has >= wants)
    return "";
  std::string name;
  for (Value table : tables) {
    if (!table)
      continue;
    for (BlockArgument argument : argumentsBehind(table))
      if (const Parameter *state = states.of(argument);
          state && llvm::is_contained(cast<RankedTensorType>(argument.getType()).getShape(), has))
        name = " ('" + displayName(state->name) + "')";
  }
  int64_t spare = wants - dim->getValue();
  return "the model has " + std::to_string(has - spare) + " positions" + name + ": lower --dim " +
         displayName(dim->getKey()) + " to " + std::to_string(has - spare) + " at most";
}

std::string onnx::broadcastHint(const ImportOptions &options, const States &states,
                                ArrayRef<Value> values, int64_t one, int64_t other) {
  int64_t least = std::min(one, other), most = std::max(one, other);
  if (llvm::none_of(options.dims, [&](auto &entry) { return entry.getValue() == most; }))
    return "";
  SmallVector<Value> tables;
  for (Value value : values) // the smaller size is the model's
    if (llvm::is_contained(cast<RankedTensorType>(value.getType()).getShape(), least))
      tables.push_back(value);
  std::string hint = positionsHint(options, states, tables, least, most);
  return hint.empty() ? "" : ". Perhaps " + hint;
}
