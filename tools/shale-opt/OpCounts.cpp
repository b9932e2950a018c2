//===- OpCounts.cpp - What each pass does to the number of ops ------------===//
#include "tools/shale-opt/OpCounts.h"
#include "mlir/IR/Operation.h"
#include "mlir/Pass/Pass.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace shale;

/// Counts the ops in `op` by name.
static std::map<std::string, int64_t> count(Operation *op) {
  std::map<std::string, int64_t> counts;
  op->walk([&](Operation *inner) { counts[inner->getName().getStringRef().str()] += inner != op; });
  return counts;
}

static int64_t sumOf(const std::map<std::string, int64_t> &counts) {
  int64_t sum = 0;
  for (const auto &[name, number] : counts)
    sum += number;
  return sum;
}

void OpCounts::runBeforePass(Pass *pass, Operation *op) {
  if (pass->getArgument().empty()) // an adaptor of nested passes
    return;
  Counts counts = count(op);
  std::lock_guard<std::mutex> lock(mutex);
  running[pass] = std::move(counts);
}

void OpCounts::runAfterPass(Pass *pass, Operation *op) {
  if (pass->getArgument().empty())
    return;
  Counts after = count(op);
  std::lock_guard<std::mutex> lock(mutex);
  auto line = llvm::find_if(lines, [&](const Line &l) { return l.pass == pass->getArgument(); });
  if (line == lines.end())
    line = lines.insert(line, {pass->getArgument().str(), {}, {}});
  for (const auto &[name, number] : running[pass])
    line->before[name] += number;
  for (const auto &[name, number] : after)
    line->after[name] += number;
}

OpCounts::~OpCounts() {
  if (lines.empty())
    return;
  os << "ops before and after each pass:\n";
  for (Line &line : lines) {
    os << "  " << line.pass << ": " << sumOf(line.before) << " -> " << sumOf(line.after);
    for (const auto &[name, number] : line.after)
      line.before.try_emplace(name, 0);
    const char *separator = "; ";
    for (const auto &[name, number] : line.before)
      if (int64_t after = line.after[name]; after != number) {
        os << separator << name << " " << number << " -> " << after;
        separator = ", ";
      }
    os << "\n";
  }
}
