//===- Tied.cpp - Parameters with several names ---------------------------===//
//
// The signature lists a tied parameter under each of its names, and all nodes
// read it under one of them.
//
//===----------------------------------------------------------------------===//
#include "lib/Frontend/ONNX/Rules/Rules.h"
#include "llvm/ADT/STLExtras.h"

using namespace shale;
using namespace shale::onnx;
using llvm::SmallVector;
using llvm::StringRef;

/// Whether a module contains a name, or is it.
static bool isInside(StringRef name, StringRef module) {
  return module.empty() || name == module || name.starts_with((module + ".").str());
}

using Candidates = SmallVector<size_t>;

/// Returns the parameters of other modules that a node in the module of a weight reads: the weight
/// is a second name of the only one.
static Candidates readByModule(const Known &known, size_t index) {
  Candidates found;
  if (!known.target(index).ends_with("weight"))
    return found;
  StringRef module = moduleOf(known.target(index));
  for (const auto &[other, list] : known.readers) {
    // A module that reads parameters of its own submodules is not tied to them.
    bool isPart = known.target(other).starts_with((module + ".").str());
    if (!isPart && llvm::any_of(list, [&](auto &reader) { return reader.first == module; }))
      found.push_back(other);
  }
  return found;
}

/// Returns tables that several modules share. The module that encloses them creates a module for
/// the table first (`model.shared`), gives its weight to parts of others
/// (`model.encoder.embed_tokens`, `model.decoder.embed_tokens`), and never calls it. Two of these
/// have to be known as names of one table.
static Candidates sharedTables(const Known &known, size_t index) {
  Candidates found;
  StringRef module = moduleOf(known.target(index));
  if (lastOf(known.target(index)) != "weight" || module.empty() ||
      known.program.hasOperations(module))
    return found;
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
  return found;
}

/// Returns the biases of heads of a bias's module that have a tied weight. (BERT's
/// cls.predictions.bias is that of cls.predictions.decoder.)
static Candidates biasesOfHeads(const Known &known, size_t index) {
  Candidates found;
  if (lastOf(known.target(index)) != "bias")
    return found;
  auto isTied = [&](StringRef target) {
    std::optional<size_t> weight = known.program.parameterNamed(target);
    return weight && (known.isAlias[*weight] || !known.parameter(*weight).aliases.empty());
  };
  for (size_t other = 0; other < known.count(); ++other) {
    StringRef head = moduleOf(known.target(other));
    if (known.parameter(other).used && known.parameter(other).isParameter &&
        lastOf(known.target(other)) == "bias" && moduleOf(head) == moduleOf(known.target(index)) &&
        isTied((head + ".weight").str()))
      found.push_back(other);
  }
  return found;
}

/// Finds the parameter of which a name that no node reads is a second name: the only candidate.
void rules::tied(Known &known) {
  for (Candidates (*candidates)(const Known &, size_t) :
       {readByModule, sharedTables, biasesOfHeads})
    for (size_t index = 0; index < known.count(); ++index) {
      Candidates found = known.isMissing(index) ? candidates(known, index) : Candidates();
      if (found.size() == 1 && known.parameter(found.front()).isParameter)
        known.tie(index, found.front());
    }
}
