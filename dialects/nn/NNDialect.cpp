//===- NNDialect.cpp - The nn dialect -------------------------------------===//
#include "dialects/interfaces/DiscardableAttrs.h"
#include "dialects/nn/Bindings.h"
#include "dialects/nn/NN.h"
#include "dialects/nn/Ops/Constant.h"
#include "dialects/nn/Ops/State.h"
#include "dialects/nn/Optimizers.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace shale;
using namespace shale::nn;

#include "dialects/nn/NNDialect.cpp.inc"

// Each is in the header of its family. The dialect needs no more of these headers, and is not
// compiled again with the families.
namespace shale::nn {
void registerDataOps(NNDialect &dialect);
void registerGatherOps(NNDialect &dialect);
void registerReduceOps(NNDialect &dialect);
void registerElementwiseOps(NNDialect &dialect);
void registerCompareOps(NNDialect &dialect);
void registerCastOps(NNDialect &dialect);
void registerMatmulOps(NNDialect &dialect);
void registerGroupedMatmulOps(NNDialect &dialect);
void registerQuantizeOps(NNDialect &dialect);
void registerEpilogueOps(NNDialect &dialect);
void registerNormOps(NNDialect &dialect);
void registerAttentionOps(NNDialect &dialect);
void registerSdpaOps(NNDialect &dialect);
void registerEmbeddingOps(NNDialect &dialect);
void registerSeedOps(NNDialect &dialect);
void registerSortOps(NNDialect &dialect);
void registerLossOps(NNDialect &dialect);
void registerOptimizerOps(NNDialect &dialect);
void registerSegmentsOps(NNDialect &dialect);
void registerRandomOps(NNDialect &dialect);
void registerClusterOps(NNDialect &dialect);
} // namespace shale::nn

namespace {
/// `#forward` instead of `#nn.phase<forward>`, which most ops have.
struct Aliases : OpAsmDialectInterface {
  using OpAsmDialectInterface::OpAsmDialectInterface;

  AliasResult getAlias(Attribute attr, raw_ostream &os) const override {
    auto phase = dyn_cast<PhaseAttr>(attr);
    if (!phase)
      return AliasResult::NoAlias;
    os << stringifyPhase(phase.getValue());
    return AliasResult::FinalAlias;
  }
};
} // namespace

void NNDialect::initialize() {
  addInterfaces<Aliases>();
  registerAttributes();
  registerStateOps(*this);
  registerConstantOps(*this);
  registerDataOps(*this);
  registerGatherOps(*this);
  registerReduceOps(*this);
  registerElementwiseOps(*this);
  registerCompareOps(*this);
  registerCastOps(*this);
  registerMatmulOps(*this);
  registerGroupedMatmulOps(*this);
  registerQuantizeOps(*this);
  registerEpilogueOps(*this);
  registerNormOps(*this);
  registerAttentionOps(*this);
  registerSdpaOps(*this);
  registerEmbeddingOps(*this);
  registerSeedOps(*this);
  registerSortOps(*this);
  registerLossOps(*this);
  registerOptimizerOps(*this);
  registerSegmentsOps(*this);
  registerRandomOps(*this);
  registerClusterOps(*this);
}

Operation *NNDialect::materializeConstant(OpBuilder &builder, Attribute value, Type type,
                                          Location loc) {
  auto elements = dyn_cast<ElementsAttr>(value);
  if (!elements || elements.getType() != type)
    return nullptr;
  return ConstantOp::create(builder, loc, elements);
}

/// Checks the states that the attribute `name` of arguments, or of results, names. `attrs` has the
/// attributes of each. Checks all of them together, since MLIR's look-up of one symbol takes as
/// long as there are symbols.
static LogicalResult verifyStates(Operation *op, StringAttr name, ArrayRef<Attribute> attrs,
                                  TypeRange types) {
  DenseMap<StringAttr, StateOp> states;
  Operation *parent = op->getParentOp();
  if (Operation *table = parent ? SymbolTable::getNearestSymbolTable(parent) : nullptr)
    for (StateOp state : table->getRegion(0).getOps<StateOp>())
      states.try_emplace(state.getSymNameAttr(), state);
  for (auto [attributes, type] : llvm::zip(attrs, types)) {
    auto dictionary = dyn_cast_or_null<DictionaryAttr>(attributes); // MLIR checks this later
    Attribute attr = dictionary ? dictionary.get(name) : Attribute();
    if (!attr)
      continue;
    auto symbol = dyn_cast<FlatSymbolRefAttr>(attr);
    if (!symbol)
      return op->emitOpError() << "'" << name.getValue() << "' must be a symbol";
    StateOp state = states.lookup(symbol.getAttr());
    if (!state)
      return op->emitOpError() << "'" << name.getValue() << "' names no nn.state: " << symbol;
    if (name == kGradientOfAttr &&
        (state.getRole() != Role::Param || state.getTensorType() != type))
      return op->emitOpError() << "'" << name.getValue()
                               << "' must name a parameter of the value's type";
  }
  return success();
}

/// Checks an attribute that function arguments and results may both have. It is the one at `index`
/// of `attrs` and `types`, which are those of all arguments, or of all results.
static LogicalResult verifyFunctionAttr(Operation *op, NamedAttribute attr, unsigned index,
                                        ArrayRef<Attribute> attrs, TypeRange types) {
  StringRef name = attr.getName();
  Type type = types[index];
  if (name == kStateAttr || name == kGradientOfAttr) {
    bool isFirst = llvm::none_of(llvm::reverse(attrs.take_front(index)), [&](Attribute other) {
      return cast<DictionaryAttr>(other).contains(attr.getName());
    });
    return isFirst ? verifyStates(op, attr.getName(), attrs, types) : success();
  }
  if (name == kBatchDimAttr) {
    auto dim = dyn_cast<IntegerAttr>(attr.getValue());
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!dim || !tensor || dim.getInt() < 0 || dim.getInt() >= tensor.getRank())
      return op->emitOpError() << "'" << name << "' must be a dimension of the value";
    return success();
  }
  if (name == kBoundAttr || name == kIgnoredAttr) {
    auto number = dyn_cast<IntegerAttr>(attr.getValue());
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!number || !number.getType().isInteger(64) || !tensor ||
        !isa<IntegerType>(tensor.getElementType()) || (name == kBoundAttr && number.getInt() < 1))
      return op->emitOpError() << "'" << name << "' must be an i64 on integers"
                               << (name == kBoundAttr ? ", and positive" : "");
    return success();
  }
  if (name == kBindingAttr) {
    auto word = dyn_cast<StringAttr>(attr.getValue());
    if (!word || !findBinding(word.getValue()))
      return op->emitOpError() << "'" << name
                               << "' must be a word of include/shale/Words.def, such as "
                                  "\"tokens\"; got "
                               << attr.getValue();
    return success();
  }
  static constexpr AttrRule rules[] = {attrRule<NNDialect::RoleAttrHelper>("be #nn.role"),
                                       attrRule<NNDialect::NameAttrHelper>("be a string")};
  return verifyDiscardableAttr(op, attr, rules);
}

LogicalResult NNDialect::verifyRegionArgAttribute(Operation *op, unsigned, unsigned index,
                                                  NamedAttribute attr) {
  auto function = dyn_cast<FunctionOpInterface>(op);
  if (!function || index >= function.getNumArguments())
    return op->emitOpError() << "'" << attr.getName() << "' belongs on a function";
  return verifyFunctionAttr(op, attr, index, function.getArgAttrsAttr().getValue(),
                            function.getArgumentTypes());
}

LogicalResult NNDialect::verifyRegionResultAttribute(Operation *op, unsigned, unsigned index,
                                                     NamedAttribute attr) {
  auto function = dyn_cast<FunctionOpInterface>(op);
  if (!function || index >= function.getNumResults())
    return op->emitOpError() << "'" << attr.getName() << "' belongs on a function";
  return verifyFunctionAttr(op, attr, index, function.getResAttrsAttr().getValue(),
                            function.getResultTypes());
}

static bool areStrings(Operation *, DictionaryAttr values) {
  return llvm::all_of(values,
                      [](NamedAttribute entry) { return isa<StringAttr>(entry.getValue()); });
}

static bool isModuleOfStrings(Operation *op, ArrayAttr values) {
  return isa<ModuleOp>(op) && llvm::all_of(values, llvm::IsaPred<StringAttr>);
}

static bool isState(Operation *op, PartAttr) { return isa<StateOp>(op); }

static bool isFileType(Operation *op, TypeAttr type) {
  return isa<ModuleOp>(op) && is16BitFloat(type.getValue());
}

static bool isNumberOfMicrobatches(Operation *op, IntegerAttr count) {
  return isa<ModuleOp>(op) && count.getInt() > 1 && count.getInt() <= 65535;
}

static bool areUpdates(Operation *op, DenseI64ArrayAttr counter) {
  return isa<ModuleOp>(op) && counter.size() == 2 && counter[0] >= 0 && counter[1] >= 0;
}

static bool areHypers(Operation *op, DictionaryAttr values) {
  const Optimizer *optimizer = getOptimizer(op);
  return isa<ModuleOp>(op) && optimizer && llvm::all_of(values, [&](NamedAttribute entry) {
           return isa<FloatAttr>(entry.getValue()) && optimizer->find(entry.getName());
         });
}

static bool areBuffers(Operation *op, DictionaryAttr buffers) {
  return isa<ModuleOp>(op) && llvm::all_of(buffers, [](NamedAttribute entry) {
           auto fields = dyn_cast<DictionaryAttr>(entry.getValue());
           if (!fields || !fields.getAs<BoolAttr>("persistent") ||
               fields.contains("type") != fields.contains("init"))
             return false;
           auto type = fields.getAs<TypeAttr>("type");
           return !type ||
                  (isa<RankedTensorType>(type.getValue()) && fields.getAs<FileAttr>("init"));
         });
}

using NN = NNDialect;
static constexpr StringLiteral
    kString = "be a string",
    kStrings = "be a dictionary of strings",
    kHypers = "be floats by the names of the hyper-parameters of 'nn.optimizer', on a module",
    kBuffers =
        "be a dictionary of {persistent = bool} or {persistent = bool, type = tensor type, init = #nn.file}, on a module";
static constexpr AttrRule kRules[] = {
    attrRule<NN::ScopeAttrHelper>(kString),
    attrRule<NN::PhaseAttrHelper>("be #nn.phase"),
    attrRule<NN::PartAttrHelper, isState>("be #nn.part, on an nn.state"),
    attrRule<NN::TargetAttrHelper>(kString),
    attrRule<NN::HypersAttrHelper, areHypers>(kHypers),
    attrRule<NN::HyperDefaultsAttrHelper, areHypers>(kHypers),
    attrRule<NN::CounterAttrHelper, areUpdates>(
        "be two numbers of updates, not negative, on a module"),
    attrRule<NN::AccumulateAttrHelper, isNumberOfMicrobatches>(
        "be a number of micro-batches from 2 to 65535, on a module"),
    attrRule<NN::PrecisionAttrHelper>("be #nn.precision"),
    attrRule<NN::FileTypeAttrHelper, isFileType>("be bf16 or f16, on a module"),
    attrRule<NN::ModelAttrHelper>(kString),
    attrRule<NN::LossAttrHelper>(kString),
    attrRule<NN::SizesAttrHelper, areStrings>(kStrings),
    attrRule<NN::OutputsAttrHelper, areStrings>(kStrings),
    attrRule<NN::ClassesAttrHelper, areStrings>(kStrings),
    attrRule<NN::AbsentAttrHelper, isModuleOfStrings>("be a list of strings, on a module"),
    attrRule<NN::BuffersAttrHelper, areBuffers>(kBuffers)};

LogicalResult NNDialect::verifyOperationAttribute(Operation *op, NamedAttribute attr) {
  if (attr.getName() != kOptimizerAttr)
    return verifyDiscardableAttr(op, attr, kRules);
  // The names are known at run time: a plug-in may add some.
  auto optimizer = dyn_cast<StringAttr>(attr.getValue());
  if (!isa<ModuleOp, StateOp>(op) || !optimizer || !findOptimizer(optimizer))
    return op->emitOpError() << "'" << kOptimizerAttr << "' must be one of " << listOptimizers(", ")
                             << ", on a module or an nn.state";
  return success();
}

Type shale::nn::rowType(Type matrix, int64_t rank) {
  auto tensor = dyn_cast_or_null<RankedTensorType>(matrix);
  if (!tensor || tensor.getRank() < rank)
    return Type();
  return RankedTensorType::get(tensor.getShape().take_front(rank),
                               accumulatorType(tensor.getElementType()));
}

Type shale::nn::boolScalar(Type scalar) {
  return RankedTensorType::get({}, IntegerType::get(scalar.getContext(), 1));
}

Type shale::nn::scalarOf(Type tensor) {
  return RankedTensorType::get({}, cast<RankedTensorType>(tensor).getElementType());
}

void shale::nn::copyPhaseAndScope(Operation *from, Operation *to) {
  for (StringRef name : {StringRef(kPhaseAttr), StringRef(kScopeAttr)})
    if (Attribute attr = from->getAttr(name))
      to->setAttr(name, attr);
}

Value shale::nn::splat(OpBuilder &builder, Location loc, RankedTensorType type, double value) {
  Type element = type.getElementType();
  Attribute scalar;
  if (isa<FloatType>(element))
    scalar = builder.getFloatAttr(element, value);
  else
    scalar = builder.getIntegerAttr(element,
                                    element.isInteger(1) ? int64_t(value != 0) : int64_t(value));
  return ConstantOp::create(builder, loc, DenseElementsAttr::get(type, scalar));
}

int64_t shale::nn::elementBytes(Type element) {
  return llvm::divideCeil(element.getIntOrFloatBitWidth(), 8);
}

int64_t shale::nn::tensorBytes(RankedTensorType type) {
  // Independent of the order of dimensions, of which one may be 0: a transpose fits if its operand
  // does.
  int64_t bytes = elementBytes(type.getElementType());
  for (int64_t size : type.getShape())
    if (llvm::MulOverflow(bytes, size == 0 ? 1 : size, bytes))
      return -1;
  return llvm::is_contained(type.getShape(), 0) ? 0 : bytes;
}

int64_t shale::nn::tensorBytes(Value value) {
  return tensorBytes(cast<RankedTensorType>(value.getType()));
}

int64_t shale::nn::tensorBytes(TypeRange types) {
  int64_t bytes = 0;
  for (Type type : types)
    if (auto tensor = dyn_cast<RankedTensorType>(type))
      bytes += tensorBytes(tensor);
  return bytes;
}

int64_t shale::nn::elements(Value value) {
  return cast<RankedTensorType>(value.getType()).getNumElements();
}

StateOp shale::nn::getState(Operation *op, Attribute symbol) {
  auto reference = dyn_cast_or_null<FlatSymbolRefAttr>(symbol);
  Operation *table = reference ? SymbolTable::getNearestSymbolTable(op) : nullptr;
  if (!table)
    return {};
  // Compares names as attributes: models have thousands of states.
  for (auto state : table->getRegion(0).getOps<StateOp>())
    if (state.getSymNameAttr() == reference.getAttr())
      return state;
  return {};
}

StateOp shale::nn::getState(BlockArgument argument) {
  auto function = dyn_cast<FunctionOpInterface>(argument.getOwner()->getParentOp());
  return function && argument.getOwner()->isEntryBlock()
             ? getState(function, function.getArgAttr(argument.getArgNumber(), kStateAttr))
             : StateOp();
}
