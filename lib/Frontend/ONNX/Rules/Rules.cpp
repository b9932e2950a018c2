//===- Rules.cpp - The rules that find parameters -------------------------===//
//
// PyTorch's default export merges initializers of equal value, drops zero biases, folds what
// depends on parameters alone, and stores transposes under new names. The graph's metadata lists
// every parameter by placeholder, and each node's metadata names the placeholders that its original
// operation reads. The parameters are recovered from these two.
//
//===----------------------------------------------------------------------===//
#include "lib/Frontend/ONNX/Rules/Rules.h"
#include "llvm/ADT/STLExtras.h"

using namespace shale;
using namespace shale::onnx;
using llvm::StringRef;

namespace {

struct Rule {
  StringRef name;
  void (*run)(Known &);
};

} // namespace

/// In the order in which they are asked: the stronger evidence is before the weaker. What the form
/// of an operation shows is stronger than a name, as values that are equal are merged under one
/// name.
static constexpr Rule kRules[] = {
    {"form", rules::form},
    {"arguments", rules::arguments},
    {"without-record", rules::withoutRecord},
    {"detached", rules::detached},
    {"shared-stops", rules::sharedStops},
    {"tied", rules::tied},
    {"folded", rules::folded},
    {"merged", rules::merged},
    {"removed-sums", rules::removedSums},
    {"lost-parameters", rules::lostParameters},
    {"folded-constants", rules::foldedConstants},
    {"neutral-operand", rules::neutralOperand},
    {"chosen-constants", rules::chosenConstants},
    {"chosen-branches", rules::chosenBranches},
    {"merged-choices", rules::mergedChoices},
};

std::vector<StringRef> onnx::ruleNames() {
  std::vector<StringRef> names;
  for (const Rule &rule : kRules)
    names.push_back(rule.name);
  return names;
}

/// Returns the first component of all names with its dot: that of the module in which export.py
/// wrapped the user's, which the file records. Without a record it is taken for one if each name
/// has a further component. Empty if there is none.
static std::string wrapperOf(const TracedProgram &program) {
  StringRef recorded = metadata(program.graph().metadata_props(), words::kWrapper);
  StringRef first = recorded.empty() ? program.target(0).split('.').first : recorded;
  bool shared = llvm::all_of(program.targets(), [&](StringRef target) {
    auto [head, rest] = target.split('.');
    return head == first && (recorded.empty() ? rest.contains('.') : !rest.empty());
  });
  return shared ? (first + ".").str() : "";
}

void onnx::findBySignature(const TracedProgram &program, const ParameterOptions &options,
                           Parameters &out) {
  if (!options.keepPrefix)
    out.prefix = wrapperOf(program);
  llvm::StringSet<> changed;
  for (const auto &entry : program.signature().changed)
    changed.insert(entry.second);
  for (const SignatureEntry &entry : program.signature().entries) {
    StringRef name = entry.target;
    name.consume_front(out.prefix);
    out.list.push_back({name.str(), {}, entry.isParameter});
    out.list.back().isChanged = !entry.isParameter && changed.contains(entry.target);
  }
  Known known(program, options, out);
  for (const Rule &rule : kRules)
    if (!options.rulesOff.contains(rule.name))
      rule.run(known);
  known.takeFirstNames();
  for (const MissingRead &read : program.missingReads())
    if (read.isMerged())
      out.mergedNames.push_back(
          {read.read, read.name.str(), program.nodeOf(read.value()), read.maker->fx.target});
}
