//===- JsonPrinter.cpp - A module as JSON ---------------------------------===//
#include "tools/shale-run/JsonPrinter.h"
#include "mlir/IR/AsmState.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Location.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/JSON.h"
#include <algorithm>
#include <functional>
#include <vector>

using namespace mlir;

namespace shale {

namespace {

/// The most elements of a constant that is printed, unless all are equal.
constexpr int64_t kMostElements = 16;

class JsonPrinter {
public:
  JsonPrinter(ModuleOp module, const AsmParserState &text, raw_ostream &os)
      : module(module), text(text), out(os),
        state(module, OpPrintingFlags().assumeVerified().elideLargeElementsAttrs(kMostElements)) {}

  void print();

private:
  template <typename Range, typename Print> void printEach(Range &&elements, Print printElement);
  template <typename Range, typename Print> void printArray(Range &&elements, Print printElement);
  void printKey(StringRef key, llvm::function_ref<void()> printContent);
  void printOp(Operation &op);
  void printBlock(Block &block);
  void printValues(StringRef key, ValueRange values);
  void printTypeKeys(Type type);
  void printLocation(Location location);
  void printDictionary(DictionaryAttr dictionary);
  void printAttribute(Attribute attribute);
  void printLeaf(Attribute attribute);
  std::string nameOf(Value value);
  std::string nameOf(Block *block);

  ModuleOp module;
  const AsmParserState &text;
  llvm::json::OStream out;
  AsmState state;
  /// What is left to print; the last step is next. A step prints one level of the ops and
  /// attributes and adds steps for the content: these may nest deeper than calls.
  std::vector<std::function<void()>> steps;
};

/// Returns the text, with the replacement character for bytes that are not UTF-8.
std::string utf8(StringRef text) {
  return llvm::json::isUTF8(text) ? text.str() : llvm::json::fixUTF8(text);
}

/// Returns what a function prints to a stream.
std::string printed(llvm::function_ref<void(raw_ostream &)> print) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  print(stream);
  return utf8(text);
}

/// Returns a part of the text that was parsed.
std::string textAt(SMRange range) {
  return range.isValid() ? std::string(range.Start.getPointer(), range.End.getPointer()) : "";
}

} // namespace

void JsonPrinter::print() {
  printOp(*module);
  while (!steps.empty()) {
    std::function<void()> step = std::move(steps.back());
    steps.pop_back();
    step();
  }
}

/// Adds a step for each element, in their order.
template <typename Range, typename Print>
void JsonPrinter::printEach(Range &&elements, Print printElement) {
  size_t first = steps.size();
  for (auto &element : elements)
    steps.push_back([printElement, &element] { printElement(element); });
  std::reverse(steps.begin() + first, steps.end());
}

template <typename Range, typename Print>
void JsonPrinter::printArray(Range &&elements, Print printElement) {
  out.arrayBegin();
  steps.push_back([this] { out.arrayEnd(); });
  printEach(elements, printElement);
}

/// Prints a key of an object. What `printContent` leaves to steps is part of its content.
void JsonPrinter::printKey(StringRef key, llvm::function_ref<void()> printContent) {
  out.attributeBegin(key);
  steps.push_back([this] { out.attributeEnd(); });
  printContent();
}

std::string JsonPrinter::nameOf(Value value) {
  std::string name;
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    const auto *block = text.getBlockDef(argument.getOwner());
    if (block && argument.getArgNumber() < block->arguments.size())
      name = textAt(block->arguments[argument.getArgNumber()].loc);
  } else if (const auto *op = text.getOpDef(value.getDefiningOp())) {
    unsigned number = cast<OpResult>(value).getResultNumber();
    unsigned end = value.getDefiningOp()->getNumResults();
    for (const auto &group : llvm::reverse(op->resultGroups)) { // `%a:2, %b = ..` has two groups
      if (group.startIndex <= number) {
        name = textAt(group.definition.loc);
        if (end - group.startIndex > 1)
          name += "#" + std::to_string(number - group.startIndex);
        break;
      }
      end = group.startIndex;
    }
  }
  return name.empty() ? printed([&](raw_ostream &os) { value.printAsOperand(os, state); }) : name;
}

std::string JsonPrinter::nameOf(Block *block) {
  const auto *known = text.getBlockDef(block);
  std::string name = known ? textAt(known->definition.loc) : "";
  bool written = StringRef(name).starts_with("^"); // the entry block has no name in the text
  return written ? name : printed([&](raw_ostream &os) { block->printAsOperand(os, state); });
}

void JsonPrinter::printTypeKeys(Type type) {
  out.attribute("type", printed([&](raw_ostream &os) { type.print(os, state); }));
  auto shaped = dyn_cast<ShapedType>(type);
  if (!shaped)
    return;
  Type element = shaped.getElementType();
  out.attribute("element", printed([&](raw_ostream &os) { element.print(os, state); }));
  if (shaped.hasRank())
    out.attributeArray("shape", [&] {
      for (int64_t size : shaped.getShape())
        out.value(ShapedType::isDynamic(size) ? llvm::json::Value(nullptr) : size);
    });
}

void JsonPrinter::printValues(StringRef key, ValueRange values) {
  out.attributeArray(key, [&] {
    for (Value value : values)
      out.object([&] {
        out.attribute("name", nameOf(value));
        printTypeKeys(value.getType());
      });
  });
}

/// Prints the name of the node and the place in the text, if they are known.
void JsonPrinter::printLocation(Location location) {
  StringAttr name;
  for (LocationAttr inner = location; inner;) {
    location = inner;
    inner = {};
    if (auto named = dyn_cast<NameLoc>(location)) {
      name = name ? name : named.getName();
      inner = named.getChildLoc();
    } else if (auto call = dyn_cast<CallSiteLoc>(location)) {
      inner = call.getCallee();
    } else if (auto fused = dyn_cast<FusedLoc>(location)) {
      if (!fused.getLocations().empty())
        inner = fused.getLocations().back(); // an op that was made of several has the last node
    }
  }
  auto place = dyn_cast<FileLineColLoc>(location);
  if (!name && !place)
    return;
  out.attributeObject("location", [&] {
    if (name)
      out.attribute("name", utf8(name));
    if (place) {
      out.attribute("file", utf8(place.getFilename()));
      out.attribute("line", place.getLine());
      out.attribute("column", place.getColumn());
    }
  });
}

void JsonPrinter::printDictionary(DictionaryAttr dictionary) {
  out.objectBegin();
  steps.push_back([this] { out.objectEnd(); });
  printEach(dictionary, [this](const NamedAttribute &entry) {
    printKey(utf8(entry.getName()), [&] { printAttribute(entry.getValue()); });
  });
}

void JsonPrinter::printAttribute(Attribute attribute) {
  if (auto dictionary = dyn_cast<DictionaryAttr>(attribute))
    printDictionary(dictionary);
  else if (auto array = dyn_cast<ArrayAttr>(attribute))
    printArray(array, [this](const Attribute &element) { printAttribute(element); });
  else
    printLeaf(attribute);
}

void JsonPrinter::printLeaf(Attribute attribute) {
  auto printText = [&](Attribute other) {
    out.value(printed([&](raw_ostream &os) { other.print(os, state); }));
  };
  auto printNumbers = [&](auto numbers) {
    out.array([&] {
      for (auto number : numbers.asArrayRef())
        out.value(number);
    });
  };
  llvm::TypeSwitch<Attribute>(attribute)
      .Case([&](UnitAttr) { out.value(true); })
      .Case([&](BoolAttr truth) { out.value(truth.getValue()); })
      .Case([&](StringAttr string) { out.value(utf8(string)); })
      .Case([&](TypeAttr type) { out.object([&] { printTypeKeys(type.getValue()); }); })
      .Case<DenseBoolArrayAttr, DenseI32ArrayAttr, DenseI64ArrayAttr>(printNumbers)
      .Case([&](IntegerAttr integer) {
        const APInt &value = integer.getValue();
        bool isUnsigned = integer.getType().isUnsignedInteger();
        if (!(isUnsigned ? value.isIntN(64) : value.isSignedIntN(64)))
          printText(integer);
        else if (isUnsigned)
          out.value(value.getZExtValue());
        else
          out.value(value.getSExtValue());
      })
      .Case([&](FloatAttr number) {
        if (number.getValue().isFinite() && number.getType().getIntOrFloatBitWidth() <= 64)
          out.value(number.getValueAsDouble());
        else
          printText(number);
      })
      .Case([&](ElementsAttr elements) {
        auto dense = dyn_cast<DenseElementsAttr>(elements);
        if (dense && (dense.isSplat() || dense.getNumElements() <= kMostElements))
          printText(dense);
        else
          out.object([&] { printTypeKeys(elements.getShapedType()); });
      })
      .Default(printText);
}

void JsonPrinter::printBlock(Block &block) {
  out.objectBegin();
  out.attribute("name", nameOf(&block));
  printValues("arguments", block.getArguments());
  steps.push_back([this] { out.objectEnd(); });
  printKey("ops", [&] { printArray(block, [this](Operation &op) { printOp(op); }); });
}

void JsonPrinter::printOp(Operation &op) {
  out.objectBegin();
  out.attribute("op", utf8(op.getName().getStringRef()));
  printValues("results", op.getResults());
  out.attributeArray("operands", [&] {
    for (Value operand : op.getOperands())
      out.value(nameOf(operand));
  });
  if (op.getNumSuccessors() > 0)
    out.attributeArray("successors", [&] {
      for (Block *block : op.getSuccessors())
        out.value(nameOf(block));
    });
  printLocation(op.getLoc());
  steps.push_back([this] { out.objectEnd(); });
  steps.push_back([this, &op] {
    auto printRegion = [this](Region &region) {
      printArray(region, [this](Block &block) { printBlock(block); });
    };
    printKey("regions", [&] { printArray(op.getRegions(), printRegion); });
  });
  printKey("attributes", [&] { printDictionary(op.getAttrDictionary()); });
}

void printJson(ModuleOp module, const AsmParserState &text, raw_ostream &os) {
  JsonPrinter(module, text, os).print();
  os << "\n";
}

} // namespace shale
