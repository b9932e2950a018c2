//===- PrintIR.cpp - IR as text for people --------------------------------===//
#include "lib/Support/PrintIR.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

/// Lines of at most this many columns are not broken.
static constexpr size_t kColumns = 100;

/// Appends a line. Breaks it after each comma that is within one pair of brackets only.
static void appendBroken(StringRef line, std::string &out) {
  size_t indent = line.size() - line.ltrim().size();
  std::string start = "\n" + std::string(indent + 4, ' ');
  int depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < line.size(); ++i) {
    char c = line[i];
    out += c;
    if (quoted) {
      if (c == '\\' && i + 1 < line.size())
        out += line[++i];
      quoted = c != '"';
    } else if (c == '"') {
      quoted = true;
    } else if (c == '(' || c == '[' || c == '{' || c == '<') {
      bool opens = ++depth == 1 && i + 1 < line.size();
      if (opens && line[i + 1] != ')' && line[i + 1] != '}')
        out += start;
    } else if (c == ')' || c == ']' || c == '}' || (c == '>' && i > 0 && line[i - 1] != '-')) {
      --depth;
    } else if (c == ',' && depth == 1) {
      out += start;
      while (i + 1 < line.size() && line[i + 1] == ' ')
        ++i;
    }
  }
}

/// Returns `text`, IR that MLIR printed, with the elements of long lists of modules and functions
/// on lines of their own.
static std::string breakLongLists(StringRef text) {
  std::string out;
  while (!text.empty()) {
    auto [line, rest] = text.split('\n');
    bool ended = line.size() < text.size();
    StringRef word = line.ltrim();
    // The brace that opens the body is not part of a list.
    bool head = word.starts_with("module ") || word.starts_with("func.func ");
    StringRef body = head && line.ends_with(" {") ? line.take_back(2) : StringRef();
    if (head && line.size() > kColumns)
      appendBroken(line.drop_back(body.size()), out);
    else
      out += line.drop_back(body.size());
    out += body;
    if (ended)
      out += '\n';
    text = rest;
  }
  return out;
}

/// Returns a node's name as a value's: "layers.0.MatMul" for "/layers.0/MatMul".
static std::string valueName(StringRef name) {
  std::string clean;
  for (char c : name) {
    if (llvm::isAlnum(c) || c == '_' || c == '.' || c == '-' || c == '$')
      clean += c;
    else if (!clean.empty() && clean.back() != '.')
      clean += '.';
  }
  return StringRef(clean).rtrim('.').str();
}

Location shale::withValueName(Location loc, StringRef name) {
  return FusedLoc::get(loc.getContext(), {loc}, StringAttr::get(loc.getContext(), name));
}

void shale::printForPeople(ModuleOp module, int64_t maxElements,
                           function_ref<StringRef(BlockArgument)> nameOf, raw_ostream &os) {
  // The printer takes names from locations, which other code needs as they are.
  OwningOpRef<ModuleOp> named = module.clone();
  MLIRContext *context = module.getContext();
  auto locate = [&](StringRef name) -> Location {
    std::string clean = valueName(name);
    return clean.empty() ? Location(UnknownLoc::get(context))
                         : NameLoc::get(StringAttr::get(context, clean));
  };
  // The name that withValueName() gave, or that of the node. An op that was made of several has the
  // name of the last one.
  auto nodeOf = [](Location loc) {
    while (auto fused = dyn_cast<FusedLoc>(loc)) {
      if (auto name = dyn_cast_or_null<StringAttr>(fused.getMetadata()))
        return name.getValue();
      if (fused.getLocations().empty())
        return StringRef();
      loc = fused.getLocations().back();
    }
    auto node = dyn_cast<NameLoc>(loc);
    return node ? node.getName().getValue() : StringRef();
  };
  // An op that captures values has arguments with the names of its operands.
  auto captured = [&](Operation *op, BlockArgument argument) {
    unsigned number = argument.getArgNumber();
    bool captures = op->getNumOperands() == argument.getOwner()->getNumArguments() &&
                    op->getOperand(number).getType() == argument.getType();
    return captures ? nodeOf(op->getOperand(number).getLoc()) : StringRef();
  };
  named->walk<WalkOrder::PreOrder>([&](Operation *op) {
    op->setLoc(locate(nodeOf(op->getLoc())));
    for (Region &region : op->getRegions())
      for (BlockArgument argument : region.getArguments()) {
        StringRef name = isa<FunctionOpInterface>(op) ? nameOf(argument) : captured(op, argument);
        argument.setLoc(locate(name.empty() ? nodeOf(argument.getLoc()) : name));
      }
  });
  OpPrintingFlags flags;
  flags.elideLargeElementsAttrs(maxElements);
  flags.printNameLocAsPrefix();
  std::string text;
  llvm::raw_string_ostream stream(text);
  named->print(stream, flags);
  os << breakLongLists(text) << "\n";
}
