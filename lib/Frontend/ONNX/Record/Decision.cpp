//===- Decision.cpp - Claims are compared and applied ---------------------===//
#include "lib/Frontend/ONNX/Record/Decision.h"
#include "lib/Frontend/ONNX/Record/Messages.h"
#include "llvm/ADT/STLExtras.h"
#include <iterator>

using namespace shale;
using namespace shale::onnx;
using llvm::StringRef;

template <typename T> static void append(std::vector<T> &list, std::vector<T> more) {
  list.insert(list.end(), std::make_move_iterator(more.begin()),
              std::make_move_iterator(more.end()));
}

void Decision::take(Findings findings) {
  for (Claim &claim : findings.claims) {
    bool changes = std::visit([&](const auto &what) { return apply(claim, what); }, claim.what);
    if (changes && claim.remark)
      out.repairs.push_back(std::move(*claim.remark));
  }
  append(out.errors, std::move(findings.errors));
  append(out.notes, std::move(findings.notes));
  append(out.absent, std::move(findings.absent));
  append(known.removed, std::move(findings.removed));
}

/// Marks the folded value that is read at a place as explained.
void Decision::explain(const Place &place) {
  for (FoldedValue &value : known.values)
    value.isExplained |= value.first().node == place.first && value.first().operand == place.second;
}

/// Whether a claim about a read holds beside those before it.
bool Decision::mayRead(const Claim &claim, const ReadClaim &read, const Place &place) {
  auto [before, isFirst] = evidence.try_emplace(place, claim.evidence);
  const ParameterUse &use = out.uses[place];
  if (isFirst || claim.evidence < before->second || use.parameter == read.parameter) {
    before->second = std::min(before->second, claim.evidence);
    return true;
  }
  if (claim.evidence == before->second)
    out.errors.push_back(messages::contradiction(place, out.list[use.parameter].name,
                                                 out.list[read.parameter].name));
  return false;
}

bool Decision::apply(const Claim &claim, const ReadClaim &read) {
  ParameterUse use{
      read.parameter,
      read.transposed,
  };
  if (read.expression) {
    use.expression = out.expressions.size();
    out.expressions.push_back(*read.expression);
  }
  bool changes = false;
  for (const Place &place : read.reads)
    if (mayRead(claim, read, place)) {
      out.uses[place] = use;
      explain(place);
      changes = true;
    }
  if (read.operation)
    known.readers[read.parameter].push_back(
        {read.operation->scope,
         StringRef(read.operation->fx.target).starts_with(words::kEmbedding)});
  return changes;
}

bool Decision::apply(const Claim &, const ValueClaim &claim) {
  Parameter &parameter = out.list[claim.parameter];
  const InitialValue &value = claim.value;
  if (!parameter.used && value.shape) {
    parameter.shape = *value.shape;
    parameter.dataType = value.dataType;
  }
  if (!parameter.used)
    parameter.values = value.values;
  bool changes = !parameter.initializer && parameter.values.empty();
  if (changes) {
    parameter.initializer = value.initializer;
    parameter.transposed = value.transposed;
  }
  parameter.used = true;
  known.cache.erase(claim.parameter);
  return changes;
}

bool Decision::apply(const Claim &, const BiasClaim &bias) {
  Parameter &parameter = out.list[bias.parameter];
  parameter.used = true;
  parameter.shape = {bias.size};
  parameter.dataType = bias.dataType;
  out.lostBias[bias.node] = bias.parameter;
  return true;
}

bool Decision::apply(const Claim &, const RestoredClaim &restored) {
  out.restored[restored.read] = restored.operation;
  return true;
}

bool Decision::apply(const Claim &, const MergedClaim &merged) {
  for (auto [from, to] : merged.values)
    out.list[to].takeValueOf(out.list[from]);
  for (const Place &read : merged.reads)
    out.readsOfMerged[read] = out.merged.size();
  out.merged.push_back(merged.operation);
  return true;
}

bool Decision::apply(const Claim &, const NameClaim &name) {
  out.list[name.kept].aliases.push_back(out.list[name.second].name);
  known.isAlias[name.second] = true;
  return true;
}

void Decision::takeFirstNames() {
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
    known.isAlias[index] = true;
    known.isAlias[first] = false;
    for (auto &use : out.uses)
      if (use.second.parameter == index)
        use.second.parameter = first;
  }
}
