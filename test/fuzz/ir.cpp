// Fuzzes the stages of a compilation: the text of a module that a stage has made (`shale.stage`
// names it), as `shalec --compile-from` takes it. The parser reads it, and all later stages run.
// Mutations change the parsed module (operands, attributes, ops), so that most still parse and
// verify.
#include "lib/Support/ParseLimits.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Parser/Parser.h"
#include "passes/Stages.h"
#include "test/fuzz/Context.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/xxhash.h"

using namespace mlir;
using namespace shale;
using namespace shale::fuzz;

static OwningOpRef<ModuleOp> parse(llvm::StringRef text) {
  // The parser reads one byte beyond its text.
  auto buffer = llvm::MemoryBuffer::getMemBufferCopy(text, "fuzz");
  if (llvm::Error limit = checkParseLimits(*buffer)) {
    llvm::consumeError(std::move(limit));
    return {};
  }
  return parseSourceString<ModuleOp>(buffer->getBuffer(), &context());
}

static const CompileOptions &options() {
  static const CompileOptions all = [] {
    const char *words[] = {"shalec", "model.onnx", "--mesh=fsdp=2",         "--shard=full",
                           "-o",     "program",    "--target=cpu:x86-64-v3"};
    return *parseOptions(std::size(words), const_cast<char **>(words)).options;
  }();
  return all;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  ++counts().inputs;
  OwningOpRef<ModuleOp> module = parse(llvm::StringRef(reinterpret_cast<const char *>(data), size));
  if (!module)
    return 0;
  ++counts().beyond;
  std::vector<Stage> stages = stagesFor(options());
  auto made = (*module)->getAttrOfType<StringAttr>("shale.stage");
  auto first = llvm::find_if(
      stages, [&](const Stage &stage) { return made && made.getValue() == stage.name; });
  size_t done = first == stages.end() ? 0 : first - stages.begin() + 1;
  // Codegen takes most of the time, and comes last.
  if (done < stages.size() - 1 && llvm::xxh3_64bits(llvm::ArrayRef(data, size)) % 8)
    stages.pop_back();
  (*module)->removeAttr("shale.stage");
  (*module)->removeAttr("shale.flags");
  counts().accepted += !runStages(*module, llvm::ArrayRef(stages).drop_front(done), {});
  return 0;
}

namespace {

/// Changes one thing of a module.
class Mutation {
public:
  Mutation(ModuleOp module, Random &random) : random(random) {
    module.walk([&](Operation *op) {
      if (op != module)
        ops.push_back(op);
      op->getAttrDictionary().walk([&](Attribute attr) {
        if (isa<SymbolRefAttr>(attr))
          symbols.push_back(attr);
        if (isa<StringAttr>(attr))
          texts.push_back(attr);
      });
    });
    if (ops.empty())
      ops.push_back(module);
  }

  void apply() {
    Operation *op = ops[random.below(ops.size())];
    switch (random.below(8)) {
    case 0:
    case 1:
      return changeOperand(op);
    case 2:
      takeOver(op);
      return addDefaults(op);
    case 3:
      return remove(op);
    case 4:
      if (!op->hasTrait<OpTrait::IsTerminator>() && op->getBlock())
        OpBuilder(op).clone(*op);
      return;
    default:
      if (DictionaryAttr attrs = op->getAttrDictionary(); !attrs.empty())
        if (auto made = dyn_cast_or_null<DictionaryAttr>(change(attrs)))
          op->setAttrs(made);
      addDefaults(op);
    }
  }

private:
  /// Adds missing attributes that have a default, as the parser does: verifiers read them.
  static void addDefaults(Operation *op) {
    if (op->getPropertiesStorageSize())
      op->getName().populateDefaultProperties(op->getPropertiesStorage());
  }

  /// Another value of the same type that is defined before the op.
  Value another(Operation *op, Type type) {
    SmallVector<Value> values;
    if (Block *block = op->getBlock()) {
      for (Value argument : block->getArguments())
        if (argument.getType() == type)
          values.push_back(argument);
      for (Operation &before : llvm::make_range(block->begin(), op->getIterator()))
        for (Value result : before.getResults())
          if (result.getType() == type)
            values.push_back(result);
    }
    return values.empty() ? Value() : values[random.below(values.size())];
  }

  void changeOperand(Operation *op) {
    if (op->getNumOperands() == 0)
      return;
    unsigned number = random.below(op->getNumOperands());
    if (Value value = another(op, op->getOperand(number).getType()))
      op->setOperand(number, value);
  }

  /// Gives an op an attribute of another op under the same name.
  void takeOver(Operation *op) {
    Operation *other = ops[random.below(ops.size())];
    DictionaryAttr attrs = other->getAttrDictionary();
    if (attrs.empty())
      return;
    NamedAttribute attr = *(attrs.begin() + random.below(attrs.size()));
    if (op->getName() == other->getName() || op->hasAttr(attr.getName()))
      op->setAttr(attr.getName(), attr.getValue());
  }

  void remove(Operation *op) {
    if (op->hasTrait<OpTrait::IsTerminator>() || !op->getBlock())
      return;
    for (Value result : op->getResults()) {
      if (result.use_empty())
        continue;
      Value value = another(op, result.getType());
      if (!value)
        return;
      result.replaceAllUsesWith(value);
    }
    op->erase();
  }

  /// Returns the attribute with one part changed, or null.
  Attribute change(Attribute attr) {
    MLIRContext *context = attr.getContext();
    if (auto list = dyn_cast<DictionaryAttr>(attr)) {
      SmallVector<NamedAttribute> entries(list.getValue());
      if (entries.empty())
        return {};
      NamedAttribute &entry = entries[random.below(entries.size())];
      if (random.below(10) == 0)
        entries.erase(&entry);
      else if (Attribute made = change(entry.getValue()))
        entry.setValue(made);
      return DictionaryAttr::get(context, entries);
    }
    if (auto list = dyn_cast<ArrayAttr>(attr)) {
      SmallVector<Attribute> entries(list.getValue());
      if (entries.empty())
        return {};
      Attribute &entry = entries[random.below(entries.size())];
      if (random.below(4) == 0)
        entry = entries[random.below(entries.size())];
      else if (Attribute made = change(entry))
        entry = made;
      return ArrayAttr::get(context, entries);
    }
    if (auto list = dyn_cast<DenseI64ArrayAttr>(attr); list && !list.empty()) {
      SmallVector<int64_t> entries(list.asArrayRef());
      entries[random.below(entries.size())] = random.integer();
      return DenseI64ArrayAttr::get(context, entries);
    }
    if (isa<SymbolRefAttr>(attr) && !symbols.empty())
      return symbols[random.below(symbols.size())];
    if (isa<StringAttr>(attr) && !texts.empty())
      return texts[random.below(texts.size())];
    if (auto number = dyn_cast<IntegerAttr>(attr); number && number.getType().isIntOrIndex())
      return IntegerAttr::get(number.getType(),
                              APInt(number.getValue().getBitWidth(), random.integer(),
                                    /*isSigned=*/true, /*implicitTrunc=*/true));
    if (auto number = dyn_cast<FloatAttr>(attr))
      return FloatAttr::get(number.getType(), double(random.integer()));
    if (auto type = dyn_cast<TypeAttr>(attr))
      if (auto tensor = dyn_cast<RankedTensorType>(type.getValue()); tensor && tensor.getRank()) {
        SmallVector<int64_t> shape(tensor.getShape());
        shape[random.below(shape.size())] = random.below(9);
        return TypeAttr::get(tensor.clone(shape));
      }
    return {};
  }

  Random &random;
  SmallVector<Operation *> ops;
  SmallVector<Attribute> symbols, texts;
};

} // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed) {
  Random random(seed);
  llvm::StringRef before(reinterpret_cast<char *>(data), size);
  OwningOpRef<ModuleOp> module = parse(before);
  if (!module || random.below(50) == 0) // the text itself, for the scan and the parser
    return LLVMFuzzerMutate(data, size, most);
  for (int attempt = 0; attempt < 10; ++attempt) {
    OwningOpRef<ModuleOp> mutant = module->clone();
    for (size_t i = 0, count = 1 + random.below(3); i < count; ++i)
      Mutation(*mutant, random).apply();
    if (failed(verify(*mutant)))
      continue;
    std::string text;
    llvm::raw_string_ostream os(text);
    mutant->print(os, OpPrintingFlags().assumeVerified());
    if (text.size() > most || text == before)
      continue;
    std::copy(text.begin(), text.end(), data);
    return text.size();
  }
  return size;
}
