//===- Target.cpp - The machine that a program is compiled for ------------===//
#include "lib/Target/Target.h"
#include "dialects/nn/NN.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/ErrorHandling.h"
#include <map>
#include <mutex>

using namespace mlir;
using namespace shale;

namespace {
struct Kind {
  std::string name;
  std::vector<std::string> architectures; // full names
  std::vector<std::unique_ptr<const Rates>> machines;
  TargetFactory make;
};

/// Kinds in the order of registration, and the targets made so far.
struct Registry {
  std::mutex mutex;
  std::vector<Kind> kinds;
  std::map<std::string, std::unique_ptr<Target>, std::less<>> made;
};

Registry &registry() {
  static Registry one;
  return one;
}
} // namespace

void shale::registerTargetKind(StringRef kind, ArrayRef<StringRef> architectures,
                               ArrayRef<StringRef> machines, TargetFactory factory) {
  std::lock_guard<std::mutex> lock(registry().mutex);
  if (llvm::any_of(registry().kinds, [&](const Kind &other) { return other.name == kind; }))
    return;
  Kind added{kind.str(), {}, {}, factory};
  for (StringRef text : machines) {
    ToolError wrong;
    std::optional<Rates> machine = parseMachine(text, "a machine of " + kind.str(), wrong);
    if (!machine)
      llvm::report_fatal_error(StringRef(wrong.message));
    added.machines.push_back(std::make_unique<const Rates>(std::move(*machine)));
  }
  for (StringRef architecture : architectures)
    added.architectures.push_back((kind + ":" + architecture).str());
  registry().kinds.push_back(std::move(added));
}

std::vector<std::string> shale::getTargetNames() {
  std::lock_guard<std::mutex> lock(registry().mutex);
  std::vector<std::string> names;
  for (const Kind &kind : registry().kinds)
    llvm::append_range(names, kind.architectures);
  return names;
}

std::vector<const Rates *> shale::knownRates() {
  std::lock_guard<std::mutex> lock(registry().mutex);
  std::vector<const Rates *> all;
  for (const Kind &kind : registry().kinds)
    for (const std::unique_ptr<const Rates> &machine : kind.machines)
      all.push_back(machine.get());
  return all;
}

const Rates *shale::ratesNamed(StringRef name) {
  for (const Rates *rates : knownRates())
    if (name == rates->name)
      return rates;
  return nullptr;
}

/// Finds or makes the target; with an empty `error` no kind has that name.
static const Target *lookUp(StringRef name, std::string &error) {
  std::lock_guard<std::mutex> lock(registry().mutex);
  if (auto found = registry().made.find(name); found != registry().made.end())
    return found->second.get();
  auto [kind, architecture] = name.split(':');
  for (const Kind &candidate : registry().kinds) {
    if (candidate.name != kind || !name.contains(':'))
      continue;
    std::unique_ptr<Target> target = candidate.make(architecture, error);
    if (!target)
      return nullptr;
    std::string resolved = target->getName().str(); // cpu:native resolves to one of the others
    return registry().made.try_emplace(resolved, std::move(target)).first->second.get();
  }
  return nullptr;
}

const Target *shale::findTarget(StringRef name, std::string &error) {
  error.clear();
  const Target *target = lookUp(name, error);
  if (!target && error.empty())
    error = "unknown target '" + name.str() + "'; expected " + llvm::join(getTargetNames(), ", ");
  return target;
}

const Target *shale::targetOf(ModuleOp module) {
  auto name = module->getAttrOfType<StringAttr>(nn::kTargetAttr);
  std::string error;
  const Target *target = findTarget(name ? name.getValue() : StringRef(kAssumedTarget), error);
  if (!target)
    module.emitError() << "'" << nn::kTargetAttr << "': " << error;
  return target;
}
