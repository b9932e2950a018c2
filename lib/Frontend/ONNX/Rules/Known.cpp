//===- Known.cpp - What is known of the parameters so far -----------------===//
#include "lib/Frontend/ONNX/Rules/Known.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace shale;
using namespace shale::onnx;
using llvm::ArrayRef;
using llvm::SmallVector;
using llvm::StringRef;

SmallVector<Place> FoldedValue::places() const {
  SmallVector<Place> places;
  for (const FoldedRead &read : reads)
    places.push_back({read.node, read.operand});
  return places;
}

bool Known::isMissing(size_t index) const {
  return parameter(index).isParameter && !parameter(index).used && !isAlias[index];
}

Numbers onnx::transposeOf(const Numbers &numbers) {
  Numbers turned = numbers;
  int64_t rows = numbers.shape[1], columns = numbers.shape[0];
  turned.shape = {rows, columns};
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c)
      turned.values[r * columns + c] = numbers.values[c * rows + r];
  return turned;
}

const Numbers *Known::numbersOf(size_t index) const {
  auto [it, isNew] = cache.try_emplace(index);
  const Parameter &one = parameter(index);
  if (isNew && one.initializer) {
    it->second = program.numbersOf(*one.initializer);
    if (it->second && !one.shape.empty())
      it->second->shape.assign(one.shape.begin(), one.shape.end());
    if (it->second && one.transposed)
      it->second = transposeOf(*it->second);
  } else if (isNew && one.used && !one.values.empty()) {
    it->second = Numbers{SmallVector<int64_t>(one.shape.begin(), one.shape.end()), one.values};
  }
  return it->second ? &*it->second : nullptr;
}

bool Known::haveEqualValues(size_t index, size_t other) const {
  const Parameter &a = parameter(index), &b = parameter(other);
  if (a.initializer && a.initializer == b.initializer && a.transposed == b.transposed)
    return true;
  const Numbers *left = numbersOf(index), *right = numbersOf(other);
  return left && right && left->shape == right->shape && left->values == right->values;
}

bool onnx::isConstant(const Numbers &numbers) {
  return llvm::all_of(numbers.values,
                      [&](double value) { return value == numbers.values.front(); });
}

SmallVector<int64_t> onnx::sizesOf(const TensorProto &tensor) {
  return {tensor.dims().begin(), tensor.dims().end()};
}

std::string onnx::listOfSizes(ArrayRef<int64_t> sizes) {
  auto texts = llvm::map_range(sizes, [](int64_t size) { return std::to_string(size); });
  return "[" + llvm::join(texts, ", ") + "]";
}

void Known::remarkRestored(const Use &use, size_t index, StringRef how) {
  remark(use.node, "parameter '" + parameter(index).name + "' is restored from the " + how +
                       "initializer '" + displayName(use.initializer->name()) + "'");
}

void Known::takeReads(size_t parameter, ArrayRef<Place> reads, bool transposed,
                      std::optional<Expression> function) {
  ParameterUse use{parameter, transposed};
  if (function) {
    use.expression = found.expressions.size();
    found.expressions.push_back(std::move(*function));
  }
  for (const Place &place : reads) {
    size_t before = found.uses.try_emplace(place, use).first->second.parameter;
    if (before == parameter)
      found.uses[place] = use;
    else
      refuse(Reason::TwoParameters, place.first,
             {found.list[before].name, found.list[parameter].name, place.second});
  }
}

bool Known::takeValue(size_t index, InitialValue value) {
  Parameter &parameter = found.list[index];
  if (!parameter.used) {
    parameter.shape = std::move(value.shape);
    parameter.dataType = value.dataType;
    parameter.values = std::move(value.values);
  }
  bool isFirst = !parameter.initializer && parameter.values.empty();
  if (isFirst) {
    parameter.initializer = value.initializer;
    parameter.transposed = value.transposed;
  }
  parameter.used = true;
  cache.erase(index);
  return isFirst;
}

void Known::takeMerged(MergedOperation operation, ArrayRef<Place> reads) {
  for (const Place &read : reads)
    found.readsOfMerged[read] = found.merged.size();
  found.merged.push_back(std::move(operation));
}

void Known::tie(size_t second, size_t kept) {
  found.list[kept].aliases.push_back(found.list[second].name);
  isAlias[second] = true;
  remark(nullptr, "parameter '" + parameter(second).name + "' is tied: a second name of '" +
                      parameter(kept).name + "'");
}

void Known::takeFirstNames() {
  std::vector<Parameter> &list = found.list;
  for (size_t index = 0; index < list.size(); ++index) {
    if (!list[index].used)
      continue;
    size_t first = 0;
    while (first < index && !llvm::is_contained(list[index].aliases, list[first].name))
      ++first;
    if (first == index)
      continue;
    std::string name = list[first].name;
    std::swap(list[first], list[index]);
    std::swap(list[first].name, list[index].name);
    llvm::replace(list[first].aliases, name, list[index].name);
    std::swap(isAlias[first], isAlias[index]);
    for (auto &use : found.uses)
      if (use.second.parameter == index)
        use.second.parameter = first;
  }
}
