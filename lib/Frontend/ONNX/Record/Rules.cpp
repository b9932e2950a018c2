//===- Rules.cpp - The rules that find parameters -------------------------===//
//
// PyTorch's default export merges initializers of equal value, drops zero biases, folds what
// depends on parameters alone, and stores transposes under new names. The graph's metadata lists
// every parameter by placeholder, and each node's metadata names the placeholders that its original
// operation reads. The parameters are recovered from these two.
//
//===----------------------------------------------------------------------===//
#include "lib/Frontend/ONNX/Record/Rules.h"
#include "lib/Frontend/ONNX/Record/Decision.h"
#include "llvm/ADT/STLExtras.h"

using namespace shale;
using namespace shale::onnx;
using llvm::StringRef;

namespace {

// A rule is applied to the whole program, or one operation, listed parameter or folded value
// after the other.
using OfProgram = Findings (*)(const Known &);
using OfOperation = Findings (*)(const Known &, const Operation &);
using OfParameter = Findings (*)(const Known &, size_t);
using OfValue = Findings (*)(const Known &, const FoldedValue &);
/// No rule: reads what later rules are asked about.
using Reading = void (*)(Known &);

struct Rule {
  StringRef name;
  std::variant<OfProgram, OfOperation, OfParameter, OfValue, Reading> run;
};

} // namespace

/// In the order in which they are asked. Several rules about operations in a row are asked about
/// one operation after the other, and rules about folded values until one has explained the value:
/// the stronger evidence is before the weaker.
static const Rule kRules[] = {
    {"form", rules::form},
    {"arguments-by-form", rules::argumentsByForm},
    {"arguments-by-order", rules::argumentsByOrder},
    {"lost-bias", rules::lostBias},
    {"without-record", rules::withoutRecord},
    {"detached", rules::detached},
    {"shared-stops", rules::sharedStops},
    {"tied-by-module", rules::tiedByModule},
    {"shared-table", rules::sharedTable},
    {"tied-bias", rules::tiedBias},
    {"", readFolded},
    {"by-name", rules::byName},
    {"by-origin", rules::byOrigin},
    {"by-part", rules::byPart},
    {"by-repeat", rules::byRepeat},
    {"by-function", rules::byFunction},
    {"by-difference", rules::byDifference},
    {"by-sum", rules::bySum},
    {"by-merged", rules::byMerged},
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
    if (!rule.name.empty())
      names.push_back(rule.name);
  return names;
}

namespace {

/// Asks the rules about a program, in order.
class Inquiry {
public:
  Inquiry(Known &known) : known(known), decision(known) {}

  void run() {
    const Rule *rule = std::begin(kRules);
    while (rule != std::end(kRules)) {
      const Rule *first = rule;
      // Rules of operations, or of values, that follow one another.
      bool isRow = std::holds_alternative<OfOperation>(rule->run) ||
                   std::holds_alternative<OfValue>(rule->run);
      do
        ++rule;
      while (isRow && rule != std::end(kRules) && rule->run.index() == first->run.index());
      row = {first, rule};
      std::visit([&](auto kind) { ask(kind); }, first->run);
    }
    decision.takeFirstNames();
  }

private:
  void ask(OfProgram) {
    forEach<OfProgram>([&](OfProgram rule) { decision.take(rule(known)); });
  }
  void ask(OfOperation) {
    for (const Operation &operation : known.program.operations())
      forEach<OfOperation>([&](OfOperation rule) { decision.take(rule(known, operation)); });
  }
  void ask(OfParameter) {
    for (size_t index = 0; index < known.found.list.size(); ++index)
      forEach<OfParameter>([&](OfParameter rule) { decision.take(rule(known, index)); });
  }
  void ask(OfValue) {
    for (const FoldedValue &value : known.values)
      forEach<OfValue>([&](OfValue rule) {
        if (!value.isExplained)
          decision.take(rule(known, value));
      });
  }
  void ask(Reading) {
    forEach<Reading>([&](Reading reading) { reading(known); });
  }

  /// Calls `ask` with each rule of the row that is not left out.
  template <typename T> void forEach(llvm::function_ref<void(T)> ask) {
    for (const Rule *rule = row.first; rule != row.second; ++rule)
      if (rule->name.empty() || !known.options.rulesOff.contains(rule->name))
        ask(std::get<T>(rule->run));
  }

  Known &known;
  Decision decision;
  std::pair<const Rule *, const Rule *> row;
};

} // namespace

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

void onnx::findBySignature(Model &model, const ParameterOptions &options, Parameters &out) {
  TracedProgram program(model, options);
  if (!options.keepPrefix)
    out.prefix = wrapperOf(program);
  llvm::StringSet<> changed;
  for (const auto &entry : readChanged(program.graph()))
    changed.insert(entry.second);
  for (const SignatureEntry &entry : program.signature()) {
    StringRef name = entry.target;
    name.consume_front(out.prefix);
    out.list.push_back({name.str(), {}, entry.isParameter});
    out.list.back().isChanged = !entry.isParameter && changed.contains(entry.target);
  }
  Known known(program, options, out);
  known.isAlias.assign(out.list.size(), false);
  Inquiry(known).run();
  for (const MissingRead &read : program.missingReads())
    if (read.isMerged())
      out.mergedNames.push_back(
          {read.read, read.name.str(), program.nodeOf(read.value()), read.maker->fx.target});
}
