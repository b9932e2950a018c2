//===- Tied.cpp - Parameters with several names ---------------------------===//
//
// The signature lists a tied parameter under each of its names, and all nodes
// read it under one of them.
//
//===----------------------------------------------------------------------===//
#include "lib/Frontend/ONNX/Record/Finder.h"
#include "llvm/ADT/STLExtras.h"

using namespace shale;
using namespace shale::onnx;
using llvm::SmallVector;
using llvm::StringRef;

/// Makes listed name `index` a second name of parameter `kept`.
void Finder::tie(size_t index, size_t kept) {
  remark(nullptr, "parameter '" + out.list[index].name + "' is tied: a second name of '" +
                      out.list[kept].name + "'");
  out.list[kept].aliases.push_back(out.list[index].name);
  isAlias[index] = true;
}

/// Finds listed names that no node reads and that are second names of a tied
/// parameter. With `byModule`, it is the parameter of another module that a node
/// in the name's module reads. Otherwise it is the only parameter that both an
/// embedding and another operation read.
void Finder::findSecondNames(bool byModule) {
  for (size_t index = 0; index < out.list.size(); ++index) {
    Parameter &second = out.list[index];
    if (second.used || !second.isParameter || isAlias[index] ||
        !StringRef(second.name).ends_with("weight"))
      continue;
    StringRef module = moduleOf(targets[index]);
    SmallVector<size_t> found;
    for (auto &[other, list] : readers) {
      bool here = llvm::any_of(list, [&](auto &reader) { return reader.first == module; });
      bool looksUp = llvm::any_of(list, [](auto &reader) { return reader.second; });
      // A head without a module call of its own is computed by its parent module.
      bool multiplies = llvm::any_of(
          list, [&](auto &reader) { return !reader.second && reader.first == moduleOf(module); });
      // A module that reads parameters of its own submodules is not tied to them.
      bool isPart = StringRef(targets[other]).starts_with((module + ".").str());
      if (byModule ? here && !isPart : looksUp && multiplies)
        found.push_back(other);
    }
    if (found.size() != 1 || !out.list[found.front()].isParameter)
      continue;
    tie(index, found.front());
  }
}

/// Finds tables that several modules share. The module that encloses them creates a module for the
/// table first (`model.shared`), gives its weight to parts of others (`model.encoder.embed_tokens`,
/// `model.decoder.embed_tokens`), and never calls it. Two of these have to be known as names of one
/// table.
void Finder::findSharedTables() {
  auto isInside = [](StringRef name, StringRef module) {
    return module.empty() || name == module || name.starts_with((module + ".").str());
  };
  for (size_t index = 0; index < out.list.size(); ++index) {
    const Parameter &second = out.list[index];
    StringRef module = moduleOf(targets[index]);
    if (second.used || !second.isParameter || isAlias[index] ||
        lastOf(targets[index]) != "weight" || module.empty() ||
        llvm::any_of(program.operations(),
                     [&](const Operation &operation) { return isInside(operation.scope, module); }))
      continue;
    SmallVector<size_t> found;
    for (const auto &[other, list] : readers) {
      const std::vector<std::string> &aliases = out.list[other].aliases;
      bool isFirst = index < other;
      int inside = isInside(targets[other], moduleOf(module));
      for (size_t i = 0; i < out.list.size(); ++i)
        if (isAlias[i] && llvm::is_contained(aliases, out.list[i].name)) {
          isFirst &= index < i;
          inside += isInside(targets[i], moduleOf(module));
        }
      if (isFirst && inside >= 2 && llvm::any_of(list, [](auto &reader) { return reader.second; }))
        found.push_back(other);
    }
    if (found.size() == 1)
      tie(index, found.front());
  }
}

/// Finds biases that no node reads, in a module whose head has a tied weight and a bias that is
/// read: each is a second name of that bias. (BERT's cls.predictions.bias is that of
/// cls.predictions.decoder.)
void Finder::findSecondBiases() {
  auto isTied = [&](StringRef target) {
    auto at = llvm::find(targets, target);
    size_t index = at - targets.begin();
    return at != targets.end() && (isAlias[index] || !out.list[index].aliases.empty());
  };
  for (size_t index = 0; index < out.list.size(); ++index) {
    Parameter &second = out.list[index];
    if (second.used || !second.isParameter || isAlias[index] || lastOf(targets[index]) != "bias")
      continue;
    SmallVector<size_t> found;
    for (size_t other = 0; other < out.list.size(); ++other) {
      StringRef head = moduleOf(targets[other]);
      if (out.list[other].used && out.list[other].isParameter && lastOf(targets[other]) == "bias" &&
          moduleOf(head) == moduleOf(targets[index]) && isTied((head + ".weight").str()))
        found.push_back(other);
    }
    if (found.size() != 1)
      continue;
    tie(index, found.front());
  }
}

/// Moves each tied parameter to the first of its listed names, and to the place of
/// that name.
void Finder::takeFirstNames() {
  for (size_t index = 0; index < out.list.size(); ++index) {
    if (!out.list[index].used || out.list[index].aliases.empty())
      continue;
    size_t first = index;
    for (size_t other = 0; other < index; ++other)
      if (llvm::is_contained(out.list[index].aliases, out.list[other].name))
        first = std::min(first, other);
    if (first == index)
      continue;
    std::string name = out.list[first].name;
    std::swap(out.list[first], out.list[index]);
    std::swap(out.list[first].name, out.list[index].name);
    for (std::string &alias : out.list[first].aliases)
      if (alias == name)
        alias = out.list[index].name;
    isAlias[index] = true;
    isAlias[first] = false;
    for (auto &use : out.uses)
      if (use.second.parameter == index)
        use.second.parameter = first;
  }
}
