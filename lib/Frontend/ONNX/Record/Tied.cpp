//===- Tied.cpp - Parameters with several names ---------------------------===//
//
// The signature lists a tied parameter under each of its names, and all nodes
// read it under one of them.
//
//===----------------------------------------------------------------------===//
#include "lib/Frontend/ONNX/Record/Rules.h"
#include "llvm/ADT/STLExtras.h"

using namespace shale;
using namespace shale::onnx;
using llvm::SmallVector;
using llvm::StringRef;

/// Makes a listed name a second name of the only parameter that was found.
static void tie(Known &known, size_t second, llvm::ArrayRef<size_t> found) {
  if (found.size() == 1)
    known.tie(second, found.front());
}

/// Whether nothing reads a parameter with this last name so far.
static bool isUnread(const Known &known, size_t index, StringRef last) {
  return known.isMissing(index) && lastOf(known.target(index)) == last;
}

/// Whether a module contains a name, or is it.
static bool isInside(StringRef name, StringRef module) {
  return module.empty() || name == module || name.starts_with((module + ".").str());
}

/// Finds the second name of a tied weight that no node reads: of the parameter of another module
/// that a node in the name's module reads.
static void tiedByModule(Known &known, size_t index) {
  if (!known.isMissing(index) || !StringRef(known.parameter(index).name).ends_with("weight"))
    return;
  StringRef module = moduleOf(known.target(index));
  SmallVector<size_t> found;
  for (const auto &[other, list] : known.readers) {
    // A module that reads parameters of its own submodules is not tied to them.
    bool isPart = known.target(other).starts_with((module + ".").str());
    if (!isPart && llvm::any_of(list, [&](auto &reader) { return reader.first == module; }))
      found.push_back(other);
  }
  if (found.size() == 1 && !known.parameter(found.front()).isParameter)
    return;
  tie(known, index, found);
}

/// Finds tables that several modules share. The module that encloses them creates a module for the
/// table first (`model.shared`), gives its weight to parts of others (`model.encoder.embed_tokens`,
/// `model.decoder.embed_tokens`), and never calls it. Two of these have to be known as names of one
/// table.
static void sharedTable(Known &known, size_t index) {
  StringRef module = moduleOf(known.target(index));
  if (!isUnread(known, index, "weight") || module.empty() || known.program.hasOperations(module))
    return;
  SmallVector<size_t> found;
  for (const auto &[other, list] : known.readers) {
    const std::vector<std::string> &aliases = known.parameter(other).aliases;
    bool isFirst = index < other;
    int inside = isInside(known.target(other), moduleOf(module));
    for (size_t i = 0; i < known.count(); ++i)
      if (known.isAlias[i] && llvm::is_contained(aliases, known.parameter(i).name)) {
        isFirst &= index < i;
        inside += isInside(known.target(i), moduleOf(module));
      }
    if (isFirst && inside >= 2 && llvm::any_of(list, [](auto &reader) { return reader.second; }))
      found.push_back(other);
  }
  tie(known, index, found);
}

/// Finds biases that no node reads, in a module whose head has a tied weight and a bias that is
/// read: each is a second name of that bias. (BERT's cls.predictions.bias is that of
/// cls.predictions.decoder.)
static void tiedBias(Known &known, size_t index) {
  if (!isUnread(known, index, "bias"))
    return;
  auto isTied = [&](StringRef target) {
    std::optional<size_t> weight = known.program.parameterNamed(target);
    return weight && (known.isAlias[*weight] || !known.parameter(*weight).aliases.empty());
  };
  SmallVector<size_t> found;
  for (size_t other = 0; other < known.count(); ++other) {
    StringRef head = moduleOf(known.target(other));
    if (known.parameter(other).used && known.parameter(other).isParameter &&
        lastOf(known.target(other)) == "bias" && moduleOf(head) == moduleOf(known.target(index)) &&
        isTied((head + ".weight").str()))
      found.push_back(other);
  }
  tie(known, index, found);
}

/// Calls a rule with each listed parameter.
static void forEach(Known &known, void (*rule)(Known &, size_t)) {
  for (size_t index = 0; index < known.count(); ++index)
    rule(known, index);
}

void rules::tiedByModule(Known &known) { forEach(known, ::tiedByModule); }
void rules::sharedTable(Known &known) { forEach(known, ::sharedTable); }
void rules::tiedBias(Known &known) { forEach(known, ::tiedBias); }
